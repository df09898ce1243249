//! The shared work on apalis with its Redis store. It keeps finished jobs.

#[path = "../../../protocol.rs"]
mod protocol;

use std::time::Duration;

use anyhow::{Result, ensure};
use apalis::prelude::{
    BoxDynError, Data, ParallelizeExt, TaskSink, WorkerBuilder, WorkerBuilderExt, WorkerError,
};
use apalis_redis::{Config, RedisStorage};
use tokio::task::JoinHandle;

use crate::protocol::{Nothing, Place, Rival, Starts};

/// The fastest of those tried, and as many slots.
const BATCH: usize = 100;
/// A worker that found nothing looks again with its next heartbeat, and only then. By default that is 30 s away, and a
/// worker counts as dead after as long as here.
const HEARTBEAT: Duration = Duration::from_millis(5);
const HEARTBEATS_MISSED: usize = 60_000;

#[derive(Clone)]
struct Apalis(RedisStorage<Nothing>);

impl Rival for Apalis {
    const CRATE: &str = "apalis-redis";
    type Worker = JoinHandle<Result<(), WorkerError>>;

    async fn open(place: &Place) -> Result<Self> {
        let connection = apalis_redis::connect(&place.at[..]).await?;
        // Its lock of every single job looks through the whole list of waiting jobs; that a job hangs on its worker is
        // known without. Its events have no listener.
        let config = Config::default()
            .queue("rivals")
            .batch_size(BATCH)
            .heartbeat_interval(HEARTBEAT)
            .missed_heartbeats(HEARTBEATS_MISSED)
            .lock_tasks(false)
            .emit_events(false);
        Ok(Self(RedisStorage::new(connection).with_config(config)))
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        Ok(self.0.push(job).await?)
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        Ok(self.0.push_bulk(jobs).await?)
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let worker = WorkerBuilder::new("rivals")
            .backend(self.0.clone())
            .data(starts)
            .concurrency(BATCH)
            .parallelize(|run| tokio::spawn(run))
            .build(nothing);
        Ok(tokio::spawn(worker.run()))
    }

    async fn stop(&self, worker: Self::Worker) -> Result<()> {
        let mut connection = self.0.clone().get_connection().clone();
        let config = self.0.get_config();
        loop {
            let mut both = redis::pipe();
            both.cmd("HLEN").arg(config.job_data_hash()).cmd("SCARD").arg(config.done_jobs_set());
            let (all, done): (u64, u64) = both.query_async(&mut connection).await?;
            if done == all {
                break;
            }
            ensure!(!worker.is_finished(), "the worker ended before the last completion");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Every completion is stored; an orderly end would only add to its time.
        worker.abort();
        Ok(())
    }

    async fn close(self) -> Result<()> {
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
