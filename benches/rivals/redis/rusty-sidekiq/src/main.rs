//! The shared work on rusty-sidekiq. A job leaves the server when a worker takes it; nothing is kept, and a job is lost
//! with the worker that has it.

#[path = "../../../protocol.rs"]
mod protocol;

use std::time::Duration;

use anyhow::Result;
use bb8::Pool;
use sidekiq::{Processor, ProcessorConfig, RedisConnectionManager, RedisPool, Worker, WorkerOpts};
use tokio::task::{JoinHandle, JoinSet};

use crate::protocol::{Nothing, Place, Rival, Starts};

const QUEUE: &str = "rivals";
/// The fastest of those tried. Each slot holds a connection while it waits for a job.
const SLOTS: usize = 64;
/// For producers, and for what workers do besides waiting.
const FURTHER_CONNECTIONS: usize = 64;

#[derive(Clone)]
struct Sidekiq(RedisPool);

#[derive(Clone)]
struct Handler(Option<Starts>);

#[async_trait::async_trait]
impl Worker<Nothing> for Handler {
    fn opts() -> WorkerOpts<Nothing, Self> {
        WorkerOpts::new().queue(QUEUE)
    }

    async fn perform(&self, _job: Nothing) -> sidekiq::Result<()> {
        if let Some(starts) = &self.0 {
            starts.note();
        }
        Ok(())
    }
}

impl Rival for Sidekiq {
    const CRATE: &str = "rusty-sidekiq";
    type Worker = JoinHandle<()>;

    async fn open(place: &Place) -> Result<Self> {
        let connections = u32::try_from(SLOTS + FURTHER_CONNECTIONS)?;
        let pool = Pool::builder()
            .max_size(connections)
            .min_idle(connections)
            // It would ask the server before every use.
            .test_on_check_out(false)
            .build(RedisConnectionManager::new(&place.at[..])?)
            .await?;
        Ok(Self(pool))
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        Ok(Handler::perform_async(&self.0, job).await?)
    }

    /// It has no call for several jobs, so they are enqueued at once, each on a connection.
    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let share = jobs.len().div_ceil(FURTHER_CONNECTIONS / 2);
        let mut producers = JoinSet::new();
        for jobs in jobs.chunks(share) {
            let (pool, jobs) = (self.0.clone(), jobs.to_vec());
            producers.spawn(async move {
                for job in jobs {
                    Handler::perform_async(&pool, job).await?;
                }
                sidekiq::Result::Ok(())
            });
        }
        while let Some(producer) = producers.join_next().await {
            producer??;
        }
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let config = ProcessorConfig::default().num_workers(SLOTS);
        let mut worker = Processor::new(self.0.clone(), vec![QUEUE.into()]).with_config(config);
        worker.register(Handler(Some(starts)));
        Ok(tokio::spawn(worker.run()))
    }

    async fn stop(&self, worker: Self::Worker) -> Result<()> {
        // A job that has started has left the server. An orderly end waits seconds for its blocking calls.
        worker.abort();
        let _ = worker.await;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        // What is left of the worker ends with the next answer of a blocking call.
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Sidekiq>(include_str!("../Cargo.lock")).await
}
