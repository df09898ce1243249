//! The shared work on the queue that many write for themselves: one table, one job per transaction, found with
//! SKIP LOCKED, marked as done, and a notification for idle workers.

#[path = "../../../protocol.rs"]
mod protocol;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_postgres::types::Json;
use tokio_postgres::{AsyncMessage, Client, NoTls, Statement};

use crate::protocol::{Nothing, Place, Rival, Starts};

/// Connections that run jobs at once.
const CONNECTIONS: usize = 16;

const SCHEMA: &str = "
    CREATE TABLE jobs (
        id bigserial PRIMARY KEY,
        payload jsonb NOT NULL,
        state text NOT NULL DEFAULT 'ready',
        run_at timestamptz NOT NULL DEFAULT now(),
        attempts integer NOT NULL DEFAULT 0,
        done_at timestamptz
    );
    CREATE INDEX jobs_ready ON jobs (run_at, id) WHERE state = 'ready'";
const ENQUEUE: &str =
    "WITH enqueued AS (INSERT INTO jobs (payload) VALUES ($1)) SELECT pg_notify('jobs', '')";
const ENQUEUE_ALL: &str =
    "WITH enqueued AS (INSERT INTO jobs (payload) SELECT unnest($1::jsonb[])) SELECT pg_notify('jobs', '')";
const CLAIM: &str = "SELECT id, payload FROM jobs WHERE state = 'ready' AND run_at <= now()
    ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED";
const DONE: &str = "UPDATE jobs SET state = 'done', attempts = attempts + 1, done_at = now() WHERE id = $1";

#[derive(Clone)]
struct SkipLocked {
    url: String,
    connections: Arc<Vec<Connection>>,
    turn: Arc<AtomicUsize>,
    stopping: Arc<AtomicBool>,
    wake: Arc<Notify>,
}

/// A connection of the producers, with its statements prepared.
struct Connection {
    client: Client,
    enqueue: Statement,
    enqueue_all: Statement,
}

impl SkipLocked {
    /// A connection for one statement. Others may be under way on it, and are then executed first.
    fn connection(&self) -> &Connection {
        &self.connections[self.turn.fetch_add(1, Ordering::Relaxed) % CONNECTIONS]
    }

    /// Connects and hands every notification on as a wake-up of one idle loop.
    async fn connect(url: &str, wake: Arc<Notify>) -> Result<Client> {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await?;
        tokio::spawn(async move {
            while let Some(Ok(heard)) = std::future::poll_fn(|cx| connection.poll_message(cx)).await {
                if let AsyncMessage::Notification(_) = heard {
                    wake.notify_one();
                }
            }
        });
        Ok(client)
    }

    async fn work(self, starts: Starts) -> Result<()> {
        let mut client = Self::connect(&self.url, self.wake.clone()).await?;
        let (claim, done) = (client.prepare(CLAIM).await?, client.prepare(DONE).await?);
        while !self.stopping.load(Ordering::Relaxed) {
            let transaction = client.transaction().await?;
            if let Some(row) = transaction.query_opt(&claim, &[]).await? {
                let Json(_job): Json<Nothing> = row.get(1);
                starts.note();
                transaction.execute(&done, &[&row.get::<_, i64>(0)]).await?;
                transaction.commit().await?;
            } else {
                transaction.commit().await?;
                let _ = tokio::time::timeout(Duration::from_secs(1), self.wake.notified()).await;
            }
        }
        Ok(())
    }
}

impl Rival for SkipLocked {
    const CRATE: &str = "tokio-postgres";
    type Worker = (Client, Vec<JoinHandle<Result<()>>>);

    async fn open(place: &Place) -> Result<Self> {
        let wake = Arc::new(Notify::new());
        Self::connect(&place.at, wake.clone()).await?.batch_execute(SCHEMA).await?;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            let client = Self::connect(&place.at, wake.clone()).await?;
            let (enqueue, enqueue_all) = (client.prepare(ENQUEUE).await?, client.prepare(ENQUEUE_ALL).await?);
            connections.push(Connection { client, enqueue, enqueue_all });
        }
        Ok(Self {
            url: place.at.clone(),
            connections: Arc::new(connections),
            turn: Arc::default(),
            stopping: Arc::default(),
            wake,
        })
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        let connection = self.connection();
        connection.client.query_one(&connection.enqueue, &[&Json(job)]).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let jobs: Vec<_> = jobs.into_iter().map(Json).collect();
        let connection = self.connection();
        connection.client.query_one(&connection.enqueue_all, &[&jobs]).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let listener = Self::connect(&self.url, self.wake.clone()).await?;
        listener.batch_execute("LISTEN jobs").await?;
        let loops = (0..CONNECTIONS).map(|_| tokio::spawn(self.clone().work(starts.clone()))).collect();
        Ok((listener, loops))
    }

    async fn stop(&self, (_listener, loops): Self::Worker) -> Result<()> {
        self.stopping.store(true, Ordering::Relaxed);
        // Until the last has looked at the flag; a loop that is about to sleep may have missed a call.
        for mut work in loops {
            while !work.is_finished() {
                self.wake.notify_waiters();
                if let Ok(ended) = tokio::time::timeout(Duration::from_millis(1), &mut work).await {
                    ended??;
                }
            }
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Arc::into_inner(self.connections).context("a producer still runs").map(drop)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<SkipLocked>(include_str!("../Cargo.lock")).await
}
