//! Records what happens in the [`Metrics`] of the client, if it has any.

use std::future::Future;
use std::sync::Arc;
use std::time::Instant;

use windlass_core::job::LostJob;
use windlass_core::judge::Transition;
use windlass_core::outcome::Ending;
use windlass_core::store::{Enqueued, Settlement, StoreResult};
use windlass_core::{ClaimedJob, Name, NewJob, State, StoreErrorKind};

use super::Call;
use crate::ctx::Ctx;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::metrics::{Metrics, Series, Took, result};

/// Where a client and its workers record, if anywhere.
#[derive(Debug, Clone, Default)]
pub(crate) struct Observe(Option<Metrics>);

/// When the outcome of an attempt was known.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended(Option<Instant>);

/// The handles of an attempt.
#[derive(Clone, Default)]
pub(crate) struct Observed(Option<Arc<Series>>);

impl Observe {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self(Some(metrics.clone()))
    }

    pub(crate) const fn metrics(&self) -> Option<&Metrics> {
        self.0.as_ref()
    }

    pub(crate) const fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The gauges of this worker are shown as long as it runs.
    pub(crate) fn watch(&self, worker: &Arc<Engine>) {
        if let Some(metrics) = &self.0 {
            metrics.watch(worker);
        }
    }

    /// The handles for a claimed job; mostly those of the one before.
    pub(crate) fn of(&self, job: &ClaimedJob, last: &mut Observed) -> Observed {
        let Some(metrics) = &self.0 else { return Observed(None) };
        let is_same = last.0.as_ref().is_some_and(|series| series.is_of(&job.queue, &job.kind));
        if !is_same {
            last.0 = Some(metrics.series(&job.queue, &job.kind));
        }
        last.clone()
    }

    /// Measures a call of the store.
    pub(crate) async fn call<T>(
        &self,
        call: Call,
        calls: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        let Some(metrics) = &self.0 else { return calls.await };
        let sent = Instant::now();
        let answer = calls.await;
        metrics.called(call.as_str(), sent.elapsed());
        if let Err(error) = &answer {
            metrics.failed(call.as_str(), kind(error.kind()));
        }
        answer
    }

    /// Counts a job that is handed in, and how long that took.
    pub(crate) async fn enqueue_one(
        &self,
        queue: &Name,
        kind: &Name,
        call: impl Future<Output = Result<Enqueued>>,
    ) -> Result<Enqueued> {
        let Some(metrics) = &self.0 else { return call.await };
        let (series, sent) = (metrics.series(queue, kind), Instant::now());
        let answer = call.await;
        series.enqueued(answer.as_ref().map_or_else(unanswered, result));
        metrics.handed_in(queue, 1, sent.elapsed(), answer.as_ref().err().map(unanswered));
        answer
    }

    /// As [`enqueue_one`](Self::enqueue_one), for jobs that are handed in together.
    pub(crate) async fn enqueue_all(
        &self,
        jobs: &[NewJob],
        call: impl Future<Output = Result<Vec<Enqueued>>>,
    ) -> Result<Vec<Enqueued>> {
        let Some(metrics) = &self.0 else { return call.await };
        let sent = Instant::now();
        let answer = call.await;
        let mut last = None::<Arc<Series>>;
        for (place, job) in jobs.iter().enumerate() {
            let series = last.take().filter(|series| series.is_of(&job.queue, &job.kind));
            let series = series.unwrap_or_else(|| metrics.series(&job.queue, &job.kind));
            series.enqueued(match &answer {
                Ok(answers) => answers.get(place).map_or("unknown", result),
                Err(error) => unanswered(error),
            });
            last = Some(series);
        }
        if let Some(job) = jobs.first() {
            let error = answer.as_ref().err().map(unanswered);
            metrics.handed_in(&job.queue, jobs.len() as u64, sent.elapsed(), error);
        }
        answer
    }

    /// A job was handed back, or ended, that never began here.
    pub(crate) fn given_back(&self, job: &LostJob, told: &Transition, state: State) {
        if let Some(metrics) = &self.0 {
            let series = metrics.series(&job.queue, &job.kind);
            series.settled(told.ending, state, told.reason, Took::default());
        }
    }

    /// A job was taken back from a worker whose lease was lost.
    pub(crate) fn reaped(&self, job: &LostJob, told: &Settlement, state: State) {
        let Some(metrics) = &self.0 else { return };
        metrics.reaped(&job.queue, told.transition.ending);
        if state == State::Dead {
            metrics.series(&job.queue, &job.kind).died(told.transition.reason);
        }
    }

    /// A write came too late.
    pub(crate) fn fenced(&self, cause: &'static str) {
        if let Some(metrics) = &self.0 {
            metrics.fenced(cause);
        }
    }
}

impl Observed {
    /// Now, if that is of interest.
    pub(crate) fn ended(&self) -> Ended {
        Ended(self.0.is_some().then(Instant::now))
    }

    /// The attempt was given a slot.
    pub(crate) fn started(&self) {
        if let Some(series) = &self.0 {
            series.started();
        }
    }

    /// The store has recorded its end as it was told, but for the state.
    pub(crate) fn settled(&self, ctx: &Ctx, told: &Transition, state: State, ended: Ended) {
        if let Some(series) = &self.0 {
            series.settled(told.ending, state, told.reason, took(ctx, ended));
        }
    }

    /// A transaction has completed its job.
    pub(crate) fn completed(&self, ctx: &Ctx, ended: Ended) {
        if let Some(series) = &self.0 {
            series.settled(Ending::Completed, State::Completed, None, took(ctx, ended));
        }
    }
}

/// How long an attempt waited, on the clock of the store until it was claimed, and ran.
fn took(ctx: &Ctx, Ended(ended): Ended) -> Took {
    let Some(begun) = ctx.begun_at() else { return Took::default() };
    let (job, claimed) = (&ctx.inner().job, ctx.inner().claimed.at);
    let wait = job.claimed_at.since(job.due_at) + begun.saturating_duration_since(claimed);
    Took { wait: Some(wait), run: ended.map(|ended| ended.saturating_duration_since(begun)) }
}

const fn kind(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Refused => "refused",
        StoreErrorKind::Unavailable => "unavailable",
        StoreErrorKind::Unknown => "unknown",
        _ => "fatal",
    }
}

/// The word for a job that was handed in and not answered for.
fn unanswered(error: &Error) -> &'static str {
    match error {
        Error::Store(error) => kind(error.kind()),
        _ => "refused",
    }
}
