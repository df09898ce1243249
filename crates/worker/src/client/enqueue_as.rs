//! How a job that was put together by hand is enqueued, beside its own options.

use std::time::Duration;

use windlass_core::NewJob;
use windlass_core::store::Enqueued;

use super::Client;
use crate::error::Result;

/// How a call enqueues a job: see the builder of [`Client::enqueue`], which has the same.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnqueueAs {
    wait_max: Option<Duration>,
    supersedes: bool,
}

impl EnqueueAs {
    /// Where the queue is full, waits for room, for as long as this at most.
    #[must_use]
    pub fn wait_for_room(mut self, wait_max: Duration) -> Self {
        self.wait_max = Some(wait_max);
        self
    }

    /// Cancels the job that holds the unique key, if that one waits, and takes its place.
    #[must_use]
    pub fn supersede(mut self) -> Self {
        self.supersedes = true;
        self
    }
}

impl Client {
    /// As [`enqueue_new`](Self::enqueue_new), and says how the call goes about it.
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue_new_as(&self, job: NewJob, how: EnqueueAs) -> Result<Enqueued> {
        if how.supersedes && job.unique.is_some() {
            self.supersede(job, how.wait_max).await
        } else {
            self.enqueue_waiting(job, how.wait_max).await
        }
    }
}
