//! Jobs as they are stored, with the defaults of their queues, for what stores them in another way than an enqueue.

use windlass_core::store::Enqueued;
use windlass_core::{Bytes, JobId, NewJob, Options};

use super::Client;
use super::defaults::Lookup;
use super::enqueue::Enqueue;
use crate::error::Result;
use crate::job::Job;

impl Client {
    /// A job with the defaults of its queue.
    pub(crate) async fn new_job<J: Job>(
        &self,
        job: J,
        id: Option<JobId>,
        options: Options,
    ) -> Result<NewJob> {
        let enqueue: Enqueue<J> = self.enqueue(job).options(options);
        let enqueue = match id {
            Some(id) => enqueue.id(id),
            None => enqueue,
        };
        Ok(enqueue.into_job(Lookup::Wait).await?.1)
    }

    /// A job that is put together by hand, with the defaults of its queue, for [`enqueue_new`](Self::enqueue_new): for callers
    /// that do not have its Rust type. Nothing is stored yet.
    ///
    /// # Errors
    /// When a name or an option makes no sense, and the store's.
    pub async fn new_raw_job(&self, kind: &str, payload: Bytes, options: Options) -> Result<NewJob> {
        self.made(kind, payload, options, Lookup::Wait).await
    }

    /// Enqueues jobs that were put together by hand, in one call: all of them or none.
    ///
    /// # Errors
    /// The store's; then none was stored, or it is not known whether all were.
    pub async fn enqueue_new_all(&self, jobs: Vec<NewJob>) -> Result<Vec<Enqueued>> {
        for job in jobs.iter().filter(|job| job.is_followed_when_expired()) {
            Box::pin(self.mark_expiring_job(job)).await?;
        }
        if jobs.is_empty() { Ok(Vec::new()) } else { self.enqueue_whole(jobs.into()).await }
    }

    /// The same as a job for callers whose own transaction may be open.
    pub(crate) async fn new_raw_within(
        &self,
        kind: &str,
        payload: Bytes,
        options: Options,
    ) -> Result<NewJob> {
        self.made(kind, payload, options, Lookup::Within).await
    }

    async fn made(&self, kind: &str, payload: Bytes, options: Options, lookup: Lookup) -> Result<NewJob> {
        let options = self.over_defaults(options, lookup).await?;
        Ok(NewJob::new(kind, payload, options)?)
    }
}
