//! Waiting for room in a queue that has a capacity.

use std::time::Duration;

use tokio::time::Instant;
use windlass_core::store::Enqueued;
use windlass_core::{NewJob, StoreError};

use super::{Client, QueueHandle};
use crate::error::{Error, Result};

/// The first pause between two looks, and the longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pauses that grow, and differ between those who wait.
struct Pauses(Duration);

impl Pauses {
    /// Waits, but no longer than this.
    async fn next(&mut self, at_most: Duration) {
        tokio::time::sleep(self.0.mul_f64(0.5 + fastrand::f64() / 2.0).min(at_most)).await;
        self.0 = (self.0 * 2).min(PAUSE_MAX);
    }
}

/// Repeats an enqueue of jobs that is refused because a queue is full, until this long has passed. Jobs that would not even fit
/// into an empty queue are not waited for.
pub(super) async fn wait_for_room<T, F>(
    wait_max: Duration,
    jobs: &[NewJob],
    enqueue: impl Fn() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let (began, mut pauses) = (Instant::now(), Pauses(PAUSE));
    loop {
        match enqueue().await {
            Err(Error::Store(StoreError::QueueFull { queue, capacity, .. }))
                if began.elapsed() < wait_max
                    && jobs.iter().filter(|job| job.queue == queue).count() as u64 <= capacity =>
            {
                pauses.next(wait_max.saturating_sub(began.elapsed())).await;
            }
            answer => return answer,
        }
    }
}

impl Client {
    /// Enqueues a job; where its queue is full, repeats that for as long as this.
    pub(super) async fn enqueue_waiting(&self, job: NewJob, wait_max: Option<Duration>) -> Result<Enqueued> {
        match wait_max {
            None => self.enqueue_new(job).await,
            Some(wait_max) => {
                let jobs = std::slice::from_ref(&job);
                wait_for_room(wait_max, jobs, || self.enqueue_new(job.clone())).await
            }
        }
    }
}

impl QueueHandle {
    /// Waits until fewer than so many of its jobs wait to run: for producers that stop at a high mark and go on at a low one.
    /// Looks now and then, at most about once a second.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::sync::Arc;
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// client.queue("imports")?.below(1_000).await?;
    /// // enqueue the next few thousand
    /// # Ok(())
    /// # }
    /// ```
    pub async fn below(&self, jobs: u64) -> Result<()> {
        let mut pauses = Pauses(PAUSE);
        while self.counts().await?.waiting() >= jobs.max(1) {
            pauses.next(PAUSE_MAX).await;
        }
        Ok(())
    }
}
