//! The shared work on apalis with its PostgreSQL store. It keeps finished jobs.

#[path = "../../../protocol.rs"]
mod protocol;

use std::time::Duration;

use anyhow::{Result, ensure};
use apalis::prelude::{
    BoxDynError, Data, ParallelizeExt, TaskSink, WorkerBuilder, WorkerBuilderExt, WorkerError,
};
use apalis_postgres::{Config, PgPool, PostgresStorage};
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinHandle;

use crate::protocol::{Nothing, Place, Rival, Starts};

/// A large batch, and as many slots.
const BATCH: usize = 500;
/// A notification that comes while it looks for jobs is lost, and then only a heartbeat makes it look again. By
/// default that is 30 s away, and a worker counts as dead after as long as here.
const HEARTBEAT: Duration = Duration::from_millis(100);
const HEARTBEATS_MISSED: usize = 3_000;
const CONNECTIONS: u32 = 20;

#[derive(Clone)]
struct Apalis {
    pool: PgPool,
    storage: PostgresStorage<Nothing>,
}

impl Rival for Apalis {
    const CRATE: &str = "apalis-postgres";
    type Worker = JoinHandle<Result<(), WorkerError>>;

    async fn open(place: &Place) -> Result<Self> {
        let pool = PgPoolOptions::new().max_connections(CONNECTIONS).connect(&place.at).await?;
        PostgresStorage::setup(&pool).await?;
        let config = Config::default()
            .queue("rivals")
            .batch_size(BATCH)
            .heartbeat_interval(HEARTBEAT)
            .missed_heartbeats(HEARTBEATS_MISSED);
        Ok(Self { storage: PostgresStorage::new(&pool).with_config(config), pool })
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        Ok(self.storage.push(job).await?)
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        Ok(self.storage.push_bulk(jobs).await?)
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let worker = WorkerBuilder::new("rivals")
            // Without, an idle worker always waits for its next heartbeat.
            .backend(self.storage.clone().with_pubsub())
            .data(starts)
            .concurrency(BATCH)
            .parallelize(|run| tokio::spawn(run))
            .build(nothing);
        Ok(tokio::spawn(worker.run()))
    }

    async fn stop(&self, worker: Self::Worker) -> Result<()> {
        let left = "SELECT EXISTS (SELECT 1 FROM apalis.jobs WHERE status <> 'Done')";
        while sqlx::query_scalar(left).fetch_one(&self.pool).await? {
            ensure!(!worker.is_finished(), "the worker ended before the last completion");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Every completion is stored; an orderly end would only add to its time.
        worker.abort();
        Ok(())
    }

    async fn close(self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}

async fn nothing(_job: Nothing, starts: Data<Starts>) -> Result<(), BoxDynError> {
    starts.note();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Apalis>(include_str!("../Cargo.lock")).await
}
