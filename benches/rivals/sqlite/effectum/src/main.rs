//! The shared work on effectum.

#[path = "../../../protocol.rs"]
mod protocol;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use effectum::{Job, JobRunner, Queue, RunningJob, Worker};
use rusqlite::Connection;

use crate::protocol::{CONCURRENCY, Nothing, Place, Rival, Starts};

const KIND: &str = "rivals.nothing";

#[derive(Clone)]
struct Effectum(Arc<Queue>);

impl Rival for Effectum {
    const CRATE: &str = "effectum";
    type Worker = Worker;

    async fn open(place: &Place) -> Result<Self> {
        ensure!(place.synchronous == "normal", "effectum always sets synchronous to normal");
        // effectum asks for the write-ahead log under a name that SQLite does not know and so ignores. The
        // mode is kept in the file: set beforehand, it gives effectum what it meant and all the same journal.
        Connection::open(&place.at)?.pragma_update_and_check(None, "journal_mode", "wal", |_| Ok(()))?;
        Ok(Self(Arc::new(Queue::new(Path::new(&place.at)).await?)))
    }

    async fn enqueue(&mut self, job: Nothing) -> Result<()> {
        Job::builder(KIND).json_payload(&job)?.add_to(&self.0).await?;
        Ok(())
    }

    async fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> Result<()> {
        let jobs: effectum::Result<Vec<_>> =
            jobs.iter().map(|job| Ok(Job::builder(KIND).json_payload(job)?.build())).collect();
        self.0.add_jobs(jobs?).await?;
        Ok(())
    }

    async fn start(&self, starts: Starts) -> Result<Worker> {
        let worker = Worker::builder(&self.0, starts)
            .max_concurrency(CONCURRENCY)
            // Fetching again only when half have ended makes fuller batches.
            .min_concurrency(CONCURRENCY / 2)
            .jobs([JobRunner::builder(KIND, nothing).build()]);
        Ok(worker.build().await?)
    }

    async fn stop(&self, worker: Worker) -> Result<()> {
        // Waits until the last running job is marked as done in the file.
        Ok(worker.unregister(None).await?)
    }

    async fn close(self) -> Result<()> {
        Ok(self.0.close(Duration::from_secs(10)).await?)
    }
}

async fn nothing(job: RunningJob, starts: Starts) -> Result<(), effectum::Error> {
    starts.note();
    let _: Nothing = job.json_payload()?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    protocol::run::<Effectum>(include_str!("../Cargo.lock")).await
}
