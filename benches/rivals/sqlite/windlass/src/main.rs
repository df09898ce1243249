//! The shared work on Windlass, through its front door.

#[path = "../../../protocol.rs"]
mod protocol;

use anyhow::Result;
use windlass::{Client, Job, JobError, Running, State, Worker};

use crate::protocol::{CONCURRENCY, Nothing, Place, Rival, Starts};

#[derive(Clone)]
struct Windlass(Client);

impl Job for Nothing {
    const KIND: &'static str = "rivals.nothing";
    type Output = ();
}

impl Rival for Windlass {
    const CRATE: &str = "windlass";
    type Worker = Running;

    async fn open(place: &Place) -> Result<Self> {
        let url = format!("sqlite://{}?synchronous={}", place.at, place.synchronous);
        Ok(Self(Client::open(url).await?))
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

async fn nothing(_job: Nothing, State(starts): State<Starts>) -> Result<(), JobError> {
    starts.note();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Windlass>(include_str!("../Cargo.lock")).await
}
