//! The shared work on apalis with its SQLite store.

#[path = "../../../protocol.rs"]
mod protocol;

use std::str::FromStr;
use std::time::Duration;

use anyhow::{Result, ensure};
use apalis::prelude::{
    BoxDynError, Data, ParallelizeExt, TaskSink, WorkerBuilder, WorkerBuilderExt, WorkerError,
};
use apalis_sqlite::callback::HookCallbackListener;
use apalis_sqlite::{Config, SqliteConnectOptions, SqliteStorage};
use sqlx::sqlite::{SqliteJournalMode, SqliteSynchronous};
use tokio::task::JoinHandle;

use crate::protocol::{CONCURRENCY, Nothing, Place, Rival, Starts};

/// Of 10, 100, 250 and 1,000 the size that drained fastest.
const BATCH: usize = 100;

#[derive(Clone)]
struct Apalis {
    storage: SqliteStorage<Nothing>,
    inserts: HookCallbackListener,
}

impl Rival for Apalis {
    const CRATE: &str = "apalis-sqlite";
    type Worker = JoinHandle<Result<(), WorkerError>>;

    async fn open(place: &Place) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(&place.at)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::from_str(&place.synchronous)?)
            .busy_timeout(Duration::from_secs(30));
        // Connects on first use, so the options hold for every connection of the pool.
        let (pool, inserts) = SqliteStorage::connect_with_callback("sqlite::memory:")?;
        pool.set_connect_options(options);
        // Not `setup`: it would turn `synchronous` off on one connection of the pool.
        SqliteStorage::migrations().run(&pool).await?;
        let storage = SqliteStorage::new(&pool).with_config(Config::default().batch_size(BATCH));
        Ok(Self { storage, inserts })
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        Ok(self.storage.push(job).await?)
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        Ok(self.storage.push_bulk(jobs).await?)
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let worker = WorkerBuilder::new("rivals")
            .backend(self.storage.clone().with_callback(self.inserts.clone()))
            .data(starts)
            .concurrency(CONCURRENCY.into())
            .parallelize(|run| tokio::spawn(run))
            .build(nothing);
        Ok(tokio::spawn(worker.run()))
    }

    async fn stop(&self, worker: Self::Worker) -> Result<()> {
        let left = "SELECT EXISTS (SELECT 1 FROM Jobs WHERE status <> 'Done')";
        while sqlx::query_scalar(left).fetch_one(self.storage.pool()).await? {
            ensure!(!worker.is_finished(), "the worker ended before the last completion");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Every completion is stored; an orderly end would only add to its time.
        worker.abort();
        Ok(())
    }

    async fn close(self) -> Result<()> {
        self.storage.pool().close().await;
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
