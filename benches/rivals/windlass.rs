//! The shared work on Windlass, through its front door, whatever the store. It keeps finished jobs or deletes them, as
//! it is told.

use anyhow::Result;
use windlass::queue::{Keep, QueueConfig, Retention};
use windlass::{Client, Job, JobError, Running, State, Worker};

use crate::protocol::{CONCURRENCY, Finished, Nothing, Place, Rival, Starts};

#[derive(Clone)]
pub(crate) struct Windlass(Client);

impl Job for Nothing {
    const KIND: &'static str = "rivals.nothing";
    type Output = ();
}

impl Rival for Windlass {
    const CRATE: &str = "windlass";
    type Worker = Running;

    async fn open(place: &Place) -> Result<Self> {
        let client = windlass::open(url(place)).await?;
        if place.finished == Finished::Deleted {
            let retention = Retention { completed: Keep::count(0), ..Retention::default() };
            client.define_queue("default", QueueConfig { retention, ..QueueConfig::default() }).await?;
        }
        Ok(Self(client))
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        self.0.enqueue(job).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        self.0.enqueue_all(jobs).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Running> {
        let worker = Worker::with_state(&self.0, starts).concurrency(CONCURRENCY.into());
        Ok(worker.handle(nothing).start()?)
    }

    async fn stop(&self, worker: Running) -> Result<()> {
        worker.stop().await;
        Ok(())
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}

/// A file is told by its path, a server by its URL.
fn url(place: &Place) -> String {
    if place.at.contains("://") {
        return place.at.clone();
    }
    format!("sqlite://{}?synchronous={}", place.at, place.synchronous)
}

async fn nothing(_job: Nothing, State(starts): State<Starts>) -> Result<(), JobError> {
    starts.note();
    Ok(())
}
