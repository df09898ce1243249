//! The client's lanes: single calls about a queue, or about a store whose queues share calls, go out together.
//!
//! A refusal of one item never refuses its neighbours, and a store that is away for a moment is asked again.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use windlass_core::batch::{ITEMS_MAX, Limits, WEIGHT_MAX};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Begin, Enqueued, Progress, Right, Settled, StoreResult,
};
use windlass_core::{CallId, JobId, Name, NewJob, Store, StoreError};

use super::records;
use super::shared_error::copies;
use super::split;
use crate::lanes::{Flush, Origin};
use crate::retries::lost;

/// What one caller gets.
pub(super) type Answer<T> = Result<T, StoreError>;

/// A store call that callers share.
pub(crate) trait Call: Send + Sync + 'static {
    /// What one caller asks for.
    type Item: Clone + Send + Sync + 'static;
    /// What the store answers it.
    type Answer: Send + 'static;
    /// Whether items may be asked for again in other calls while it is not known what became of the first. Fenced
    /// writes may; jobs may not, for a repeated call is known by its id.
    const IS_FENCED: bool;

    fn id(item: &Self::Item) -> JobId;
    fn queue(item: &Self::Item) -> &Name;
    fn weight(item: &Self::Item) -> usize;

    /// Asks the store once. The same id is the same call.
    fn ask(
        &self,
        id: CallId,
        items: Arc<[Self::Item]>,
    ) -> impl Future<Output = StoreResult<Vec<Self::Answer>>> + Send;
}

impl<C: Call> Flush for C {
    type Item = C::Item;
    type Answer = Answer<C::Answer>;
    const LIMITS: Limits = Limits { waiting: 8_192, items: ITEMS_MAX, weight: WEIGHT_MAX };

    fn weight(item: &C::Item) -> usize {
        C::weight(item)
    }

    async fn flush(self: &Arc<Self>, _origin: Origin<Self>, items: Vec<C::Item>) -> Vec<Answer<C::Answer>> {
        let count = items.len();
        let flushed = AssertUnwindSafe(split::flush(&**self, items)).catch_unwind().await;
        // A panic around the call fails the callers that wait for it, and no later ones.
        flushed.unwrap_or_else(|panic| copies(lost(&*panic), count))
    }
}

/// Enqueues of single jobs.
pub(super) struct Enqueues(pub(super) Arc<dyn Store>);

impl Call for Enqueues {
    type Item = NewJob;
    type Answer = Enqueued;
    const IS_FENCED: bool = false;

    fn id(job: &NewJob) -> JobId {
        job.id
    }

    fn queue(job: &NewJob) -> &Name {
        &job.queue
    }

    fn weight(job: &NewJob) -> usize {
        job.weight()
    }

    async fn ask(&self, id: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.0.enqueue_once(id, jobs).await
    }
}

/// Progress reports.
pub(super) struct Reports(pub(super) Arc<dyn Store>);

impl Call for Reports {
    type Item = Progress;
    type Answer = Settled;
    const IS_FENCED: bool = true;

    fn id(report: &Progress) -> JobId {
        report.id
    }

    fn queue(report: &Progress) -> &Name {
        &report.queue
    }

    fn weight(report: &Progress) -> usize {
        report.progress.len()
    }

    async fn ask(&self, _id: CallId, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        self.0.progress(reports).await
    }
}

/// Attempts that begin.
pub(super) struct Begins(pub(super) Arc<dyn Store>);

impl Call for Begins {
    type Item = Begin;
    type Answer = Settled;
    const IS_FENCED: bool = true;

    fn id(begin: &Begin) -> JobId {
        begin.id
    }

    fn queue(begin: &Begin) -> &Name {
        &begin.queue
    }

    fn weight(_begin: &Begin) -> usize {
        0
    }

    async fn ask(&self, _id: CallId, begins: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.0.begin(begins).await
    }
}

/// What attempts write while they run.
pub(super) struct Writes(pub(super) Arc<dyn Store>);

impl Call for Writes {
    type Item = AttemptWrite;
    type Answer = AttemptWritten;
    const IS_FENCED: bool = true;

    fn id(write: &AttemptWrite) -> JobId {
        write.id
    }

    fn queue(write: &AttemptWrite) -> &Name {
        &write.queue
    }

    fn weight(write: &AttemptWrite) -> usize {
        write.then.weight()
    }

    async fn ask(&self, _id: CallId, writes: Arc<[AttemptWrite]>) -> StoreResult<Vec<AttemptWritten>> {
        records::part(&*self.0)?.write_fenced(Right::Fence, writes).await
    }
}
