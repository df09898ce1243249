//! The shared work on awa. It keeps finished jobs.

#[path = "../../../protocol.rs"]
mod protocol;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result};
use awa::awa_model::{QueueStorage, QueueStorageConfig, migrations};
use awa::{Client, InsertOpts, InsertParams, JobArgs, JobResult, QueueConfig, insert_with};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;

use crate::protocol::{CONCURRENCY, Nothing, Place, Rival, Starts};

const QUEUE: &str = "rivals";
/// The most that it takes at once, by so many loops, with a look for jobs every so often: together what drained
/// fastest.
const BATCH: usize = 512;
const CLAIMERS: u16 = 2;
const POLL: Duration = Duration::from_millis(20);
const CONNECTIONS: u32 = 30;

/// The payload in the form that the library asks for.
#[derive(Debug, Serialize, Deserialize, JobArgs)]
struct AwaNothing {
    i: u32,
}

#[derive(Clone)]
struct Awa {
    pool: PgPool,
    storage: Arc<QueueStorage>,
    client: Arc<Client>,
    starts: Arc<OnceLock<Starts>>,
}

impl Rival for Awa {
    const CRATE: &str = "awa";
    type Worker = ();

    async fn open(place: &Place) -> Result<Self> {
        let first = PgPoolOptions::new().max_connections(1).connect(&place.at).await?;
        migrations::run(&first).await?;
        first.close().await;
        // Connected after the migrations, which create types that a connection looks up once.
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&place.at).await?;
        let config = QueueConfig {
            max_workers: CONCURRENCY.into(),
            claim_batch_size: BATCH,
            claimers: CLAIMERS,
            poll_interval: POLL,
            ..QueueConfig::default()
        };
        let starts = Arc::new(OnceLock::<Starts>::new());
        let heard = starts.clone();
        let client = Client::builder(pool.clone())
            .queue(QUEUE, config)
            .register::<AwaNothing, _, _>(move |_job, _context| {
                let heard = heard.clone();
                async move {
                    heard.get().expect("a worker starts with a channel to report to").note();
                    Ok(JobResult::Completed)
                }
            })
            .build()?;
        let storage = QueueStorage::new(QueueStorageConfig::default())?;
        Ok(Self { pool, storage: Arc::new(storage), client: Arc::new(client), starts })
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        insert_with(&self.pool, &AwaNothing { i: job.i }, options()).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let specify = |job| {
            let args = serde_json::to_value(job)?;
            anyhow::Ok(InsertParams { kind: AwaNothing::kind().into(), args, opts: options() })
        };
        let jobs: Vec<_> = jobs.into_iter().map(specify).collect::<Result<_>>()?;
        // Right into its tables. The functions that also work on older layouts take many times as long.
        self.storage.enqueue_params_copy(&self.pool, &jobs).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<()> {
        self.starts.set(starts).ok().context("started before")?;
        Ok(self.client.start().await?)
    }

    async fn stop(&self, (): ()) -> Result<()> {
        // Waits until every job that ran is recorded. Asking its tables would disturb it for seconds.
        self.client.shutdown(Duration::from_secs(60)).await;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}

fn options() -> InsertOpts {
    InsertOpts { queue: QUEUE.into(), ..InsertOpts::default() }
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Awa>(include_str!("../Cargo.lock")).await
}
