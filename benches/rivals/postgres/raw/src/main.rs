//! The raw limit: batches of the same rows, inserted, claimed and completed by hand on a few connections. What a
//! queue also needs (leases, retries, wake-ups, counts) is not there, so none on these rows can be faster.

#[path = "../../../protocol.rs"]
mod protocol;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::task::JoinHandle;
use tokio_postgres::{Client, NoTls, Statement};
use uuid::Uuid;

use crate::protocol::{Finished, Nothing, Place, Rival, Starts};

/// How many rows a claim takes and a completion ends.
const BATCH: i64 = 500;
/// The producers' own connections, beside those that run.
const INSERTING_CONNECTIONS: usize = 2;

const SCHEMA: &str = "
    CREATE TABLE jobs (
        id uuid PRIMARY KEY,
        queue text NOT NULL,
        kind text NOT NULL,
        state smallint NOT NULL DEFAULT 0,
        priority smallint NOT NULL DEFAULT 0,
        due timestamptz NOT NULL DEFAULT clock_timestamp(),
        attempt smallint NOT NULL DEFAULT 0,
        fence bigint NOT NULL DEFAULT 0,
        lease bigint,
        ended timestamptz,
        payload bytea NOT NULL
    );
    CREATE INDEX jobs_ready ON jobs (queue, priority DESC, due, id) WHERE state = 0";
const INSERT: &str =
    "INSERT INTO jobs (id, queue, kind, payload) SELECT id, 'default', 'rivals.nothing', payload
    FROM unnest($1::uuid[], $2::bytea[]) AS rows (id, payload)";
const CLAIM: &str = "WITH found AS MATERIALIZED (
        SELECT id FROM jobs WHERE state = 0 AND queue = 'default' AND due <= clock_timestamp()
        ORDER BY priority DESC, due, id LIMIT $1 FOR UPDATE SKIP LOCKED
    )
    UPDATE jobs SET state = 1, attempt = attempt + 1, fence = fence + 1, lease = 1 FROM found
    WHERE jobs.id = found.id RETURNING jobs.id, jobs.payload";
const COMPLETE_BY_UPDATE: &str = "UPDATE jobs SET state = 2, lease = NULL, ended = clock_timestamp()
    WHERE id = ANY ($1) AND state = 1";
const COMPLETE_BY_DELETE: &str = "DELETE FROM jobs WHERE id = ANY ($1) AND state = 1";

#[derive(Clone)]
struct Raw {
    place: Place,
    inserting: Arc<Vec<(Client, Statement)>>,
    turn: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
}

impl Raw {
    async fn work(self, client: Client, starts: Starts) -> Result<()> {
        let complete = match self.place.finished {
            Finished::Kept => COMPLETE_BY_UPDATE,
            Finished::Deleted => COMPLETE_BY_DELETE,
        };
        let (claim, complete) = (client.prepare(CLAIM).await?, client.prepare(complete).await?);
        while !self.stopping.load(Ordering::Relaxed) {
            let rows = client.query(&claim, &[&BATCH]).await?;
            if rows.is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            for row in &rows {
                let _: Nothing = serde_json::from_slice(row.get(1))?;
                starts.note();
            }
            let ids: Vec<Uuid> = rows.iter().map(|row| row.get(0)).collect();
            client.execute(&complete, &[&ids]).await?;
        }
        Ok(())
    }
}

impl Rival for Raw {
    const CRATE: &str = "tokio-postgres";
    const IS_QUEUE: bool = false;
    type Worker = Vec<JoinHandle<Result<()>>>;

    async fn open(place: &Place) -> Result<Self> {
        connect(&place.at).await?.batch_execute(SCHEMA).await?;
        let mut inserting = Vec::new();
        for _ in 0..INSERTING_CONNECTIONS {
            let client = connect(&place.at).await?;
            let insert = client.prepare(INSERT).await?;
            inserting.push((client, insert));
        }
        let inserting = Arc::new(inserting);
        Ok(Self { place: place.clone(), inserting, turn: Arc::default(), stopping: Arc::default() })
    }

    async fn enqueue(&mut self, _job: Nothing) -> Result<()> {
        bail!("rows without a queue are inserted in bulk only")
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let ids: Vec<_> = jobs.iter().map(|_| Uuid::now_v7()).collect();
        let payloads: Vec<_> = jobs.iter().map(serde_json::to_vec).collect::<Result<_, _>>()?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed) % INSERTING_CONNECTIONS;
        let (client, insert) = &self.inserting[turn];
        client.execute(insert, &[&ids, &payloads]).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let mut loops = Vec::new();
        for _ in 0..self.place.connections {
            let client = connect(&self.place.at).await?;
            loops.push(tokio::spawn(self.clone().work(client, starts.clone())));
        }
        Ok(loops)
    }

    async fn stop(&self, loops: Self::Worker) -> Result<()> {
        self.stopping.store(true, Ordering::Relaxed);
        for work in loops {
            work.await??;
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Arc::into_inner(self.inserting).context("a producer still runs").map(drop)
    }
}

async fn connect(url: &str) -> Result<Client> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Raw>(include_str!("../Cargo.lock")).await
}
