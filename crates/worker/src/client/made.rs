//! Jobs as they are stored, with the defaults of their queues, for what stores them in another way than an enqueue.

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

    /// The same for callers that do not have the job's type.
    pub(crate) async fn new_raw_job(&self, kind: &str, payload: Bytes, options: Options) -> Result<NewJob> {
        self.made(kind, payload, options, Lookup::Wait).await
    }

    /// The same for callers whose own transaction may be open.
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
