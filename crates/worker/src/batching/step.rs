//! The innermost step of an item's attempt: it gives its payload to the collector and waits for its own answer.

use std::hash::Hash;
use std::sync::Arc;

use tokio::sync::oneshot;
use windlass_core::Outcome;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::size::bounded_text;

use super::collector::Collector;
use super::room::{Place, Room};
use super::{BatchHandler, BatchItem, Batching, KeyOf, call};
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::error::ConfigError;
use crate::job::Job;
use crate::job_error::JobError;
use crate::registry::outcome_of;
use crate::rest;

/// An item that waits for its batch, or whose batch is about to start.
pub(super) struct PendingItem<J: Job> {
    pub(super) item: BatchItem<J>,
    pub(super) answer: oneshot::Sender<Answer<J>>,
    /// Has the attempt read its deadline again, if it has one.
    pub(super) begins: Option<oneshot::Sender<()>>,
    /// While it waits.
    place: Option<Place>,
}

/// What a call came to for one item.
pub(super) enum Answer<J: Job> {
    Returned(Result<J::Output, JobError>),
    /// The handler panicked, saying this.
    Panicked(Arc<str>),
}

/// What the worker asks of a batch handler, whatever its jobs are.
pub(crate) trait Collects: Send + Sync {
    /// Starts all that waits.
    fn flush(&self);

    /// Gives back all that waits, and all that comes.
    fn close(&self);
}

impl<K, J> Collects for Collector<K, PendingItem<J>>
where
    K: Hash + Eq + Send + Sync + 'static,
    J: Job,
{
    fn flush(&self) {
        Self::flush(self);
    }

    /// An item that is dropped without an answer tells its attempt to give the job back.
    fn close(&self) {
        drop(Self::close(self));
    }
}

/// How jobs of one kind get into batches.
pub(crate) struct BatchStep<J: Job, K> {
    collector: Arc<Collector<K, PendingItem<J>>>,
    key: KeyOf<J, K>,
    room: Arc<Room>,
}

impl<J, K> BatchStep<J, K>
where
    J: Job,
    K: Hash + Eq + Send + Sync + 'static,
{
    /// # Errors
    /// When batches of this kind make no sense.
    pub(crate) fn new<S, M, H>(
        batching: Batching<J, K>,
        handler: H,
        state: S,
        room: Arc<Room>,
    ) -> Result<Self, ConfigError>
    where
        S: Send + Sync + 'static,
        H: BatchHandler<S, M, Job = J>,
    {
        let Batching { config, key, .. } = batching;
        config.check()?;
        let (shared, calls) = (Arc::new((handler, state)), Arc::clone(&room));
        let start = move |mut pending: Vec<PendingItem<J>>| {
            pending.iter_mut().for_each(|one| one.place = None);
            call::start(&shared, pending, calls.slow_poll());
        };
        Ok(Self { collector: Collector::new(config, start), key, room })
    }

    pub(crate) fn collector(&self) -> Arc<dyn Collects> {
        Arc::clone(&self.collector) as Arc<dyn Collects>
    }

    /// Runs one item in some batch.
    pub(crate) async fn run(&self, job: J, ctx: Ctx) -> Outcome {
        // A key that panics is the item's own affair, so it is asked for before anything is shared.
        let key = (self.key)(&job, &ctx);
        let (answer, answered) = oneshot::channel();
        let (begins, begun) = oneshot::channel();
        let begins = ctx.inner().timeout.map(|_| begins);
        ctx.inner().thread.queue_in_batch();
        let waits = Waits { collector: &self.collector, ctx: &ctx };
        let mut is_full = false;
        let item = || {
            let (place, is_last) = self.room.wait_in(ctx.queue());
            is_full = is_last;
            PendingItem { item: BatchItem::new(job, ctx.clone()), answer, begins, place: Some(place) }
        };
        if ctx.is_suspect() {
            // If it is what ended its worker, it does so alone.
            self.collector.start_alone(item());
        } else if !self.collector.add(key, item) {
            return Outcome::Returned;
        } else if is_full {
            self.collector.flush();
        }
        waits.answer(answered, begun).await
    }
}

/// An attempt that waits for its answer. Dropping it takes the item out, if its call has not begun.
struct Waits<'a, J: Job, K: Hash + Eq + Send + Sync + 'static> {
    collector: &'a Collector<K, PendingItem<J>>,
    ctx: &'a Ctx,
}

impl<J: Job, K: Hash + Eq + Send + Sync + 'static> Waits<'_, J, K> {
    async fn answer(
        self,
        mut answered: oneshot::Receiver<Answer<J>>,
        begun: oneshot::Receiver<()>,
    ) -> Outcome {
        let (mut begun, mut heard) = (Some(begun).filter(|_| self.ctx.inner().timeout.is_some()), Stop::No);
        loop {
            let begins = async {
                match &mut begun {
                    Some(begun) => drop(begun.await),
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                answer = &mut answered => {
                    let answer = answer.ok();
                    let error = match &answer {
                        Some(Answer::Returned(Err(error))) => Some(error.clone()),
                        _ => None,
                    };
                    rest::heed(self.ctx, error.as_ref()).await;
                    return self.outcome(answer);
                }
                // The attempt's clock starts now; this poll makes the executor read the deadline again.
                () = begins => begun = None,
                // One that has begun is answered by its call.
                reason = self.ctx.inner().control.stronger_than(heard) => {
                    if self.leave() {
                        return Outcome::Returned;
                    }
                    heard = reason;
                }
            }
        }
    }

    fn outcome(&self, answer: Option<Answer<J>>) -> Outcome {
        let caps = self.ctx.inner().job.caps;
        let failed = |cause, text: &str| Outcome::Retry {
            failure: Failure { cause, text: bounded_text(text, caps.error) },
        };
        match answer {
            Some(Answer::Returned(result)) => outcome_of(result, caps),
            Some(Answer::Panicked(text)) => failed(Cause::Panic, &text),
            // The worker ends, and the call has not begun.
            None if self.leave() => Outcome::Returned,
            // Only a defect in the engine gets here.
            None => failed(Cause::Panic, "the call of its batch ended without an answer"),
        }
    }

    /// Takes the item out, unless its call has begun.
    fn leave(&self) -> bool {
        let has_left = self.ctx.inner().thread.withdraw();
        if has_left {
            let (id, fence) = (self.ctx.id(), self.ctx.fence());
            drop(self.collector.remove(|one| one.item.id() == id && one.item.ctx.fence() == fence));
        }
        has_left
    }
}

impl<J: Job, K: Hash + Eq + Send + Sync + 'static> Drop for Waits<'_, J, K> {
    fn drop(&mut self) {
        self.leave();
    }
}
