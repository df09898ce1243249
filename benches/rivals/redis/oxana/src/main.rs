//! The shared work on oxana. It deletes finished jobs.

#[path = "../../../protocol.rs"]
mod protocol;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use oxana::{JobContext, OxanaError, QueueConcurrency, QueueConfig, QueueKind, RunStats, Storage};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::protocol::{CONCURRENCY, Nothing, Place, Rival, Starts};

/// An idle worker looks again after this; by default after 10 s.
const LOOK: Duration = Duration::from_millis(1);
const CONNECTIONS: usize = 128;

#[derive(Clone)]
struct Oxana(Storage);

struct Rivals;

impl oxana::Queue for Rivals {
    fn to_config() -> QueueConfig {
        QueueConfig {
            kind: QueueKind::Static { key: "rivals".into() },
            concurrency: QueueConcurrency::Fixed(CONCURRENCY.into()),
            throttle: None,
        }
    }
}

impl oxana::Job for Nothing {}

#[derive(oxana::Worker)]
#[oxana(context = Starts, job = Nothing, error = Infallible, registry = None)]
struct Handler {
    starts: Starts,
}

impl Handler {
    async fn process(&self, _job: Nothing, _context: &JobContext) -> Result<(), Infallible> {
        self.starts.note();
        Ok(())
    }
}

impl Rival for Oxana {
    const CRATE: &str = "oxana";
    type Worker = (Arc<Notify>, JoinHandle<Result<RunStats, OxanaError>>);

    async fn open(place: &Place) -> Result<Self> {
        Ok(Self(Storage::builder().max_pool_size(CONNECTIONS).build_from_redis_url(&place.at)?))
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        self.0.enqueue(Rivals, job).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        self.0.enqueue_list(Rivals, jobs).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Self::Worker> {
        let stop = Arc::new(Notify::new());
        let stopped = Arc::clone(&stop);
        let worker = self
            .0
            .runtime(starts)
            .queue::<Rivals>()
            .worker::<Handler, Nothing>()
            .dequeue_timeout(LOOK)
            .shutdown_on(async move {
                stopped.notified().await;
                Ok(())
            });
        Ok((stop, tokio::spawn(worker.run())))
    }

    async fn stop(&self, (stop, worker): Self::Worker) -> Result<()> {
        while self.0.jobs_count().await? > 0 {
            ensure!(!worker.is_finished(), "the worker ended before the last completion");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Every completion is stored; an orderly end goes on beside.
        stop.notify_one();
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Oxana>(include_str!("../Cargo.lock")).await
}
