//! The attempts of a worker: starts each in a slot, hands its outcome to the settler, and starts the next one there.
//!
//! The fetcher brings jobs in; the lease, the watchdog and the shutdown stop attempts through the slots.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tracing::{Instrument, Span};
use windlass_core::Outcome;
use windlass_core::outcome::{Cause, Failure};

use crate::begin::Begins;
use crate::capture;
use crate::ctx::Ctx;
use crate::ctx::within::Completion;
use crate::executor::Executor;
use crate::settler::Settler;
use crate::slots::{self, Freed, Slots, Start};
use crate::trace::Traced;

/// Runs attempts in the slots of a worker.
pub(crate) struct Attempts {
    pub(crate) settler: Arc<Settler>,
    /// Which attempts the store must be told of.
    pub(crate) begins: Begins,
    pub(crate) wakers: Wakers,
    pub(crate) runtime: Handle,
    executor: Executor,
    slots: Mutex<Slots>,
}

/// Wakes the parts that wait for a change in the slots.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// The fetcher: claiming may be worth while.
    pub(crate) fetcher: Notify,
    /// The shutdown: an attempt or a claim has ended.
    pub(crate) shutdown: Notify,
    /// The reaper: there may be lost jobs right now.
    pub(crate) reaper: Notify,
}

impl Attempts {
    /// All slots free. Attempts run on this runtime.
    pub(crate) fn new(
        config: slots::Config,
        executor: Executor,
        settler: Arc<Settler>,
        begins: Begins,
        runtime: Handle,
    ) -> Self {
        let slots = Mutex::new(Slots::new(config, Instant::now()));
        Self { settler, begins, wakers: Wakers::default(), runtime, executor, slots }
    }

    pub(crate) fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an attempt still runs.
    pub(crate) fn runs(&self, ctx: &Ctx) -> bool {
        self.slots().running().any(|running| running.id() == ctx.id() && running.fence() == ctx.fence())
    }

    /// Starts an attempt in the slot that was taken for it.
    pub(crate) fn launch(self: &Arc<Self>, start: Start) {
        self.begins.started();
        let Start { slot, ctx } = start;
        ctx.inner().observed.started();
        let slot = Slot { attempts: Arc::clone(self), index: slot, is_done: false };
        if let Some(traced) = Traced::of(&ctx) {
            let inside = move || {
                let span = span_inside(&ctx);
                run(slot, ctx).instrument(span)
            };
            self.runtime.spawn(traced.follow(inside));
            return;
        }
        let span = span(&ctx);
        if span.is_disabled() {
            self.runtime.spawn(run(slot, ctx));
        } else {
            self.runtime.spawn(run(slot, ctx).instrument(span));
        }
    }

    /// Nothing is started from now on: what has not begun goes back. That is also what waits in a slot for the call of
    /// its batch.
    pub(crate) fn close(&self) {
        self.slots().close();
        self.executor.batches.close();
    }

    /// Hands jobs back that were claimed and not started.
    pub(crate) async fn give_back(&self, jobs: Vec<Ctx>) {
        for ctx in jobs {
            self.settler.settle(&ctx, Outcome::Returned).await;
        }
    }

    /// Whether an attempt may begin. A job with a history is told to the store first; if that does not succeed, its
    /// outcome is handed in here.
    async fn may_begin(&self, ctx: &Ctx) -> bool {
        let outcome = match self.begins.tell_first(ctx).await {
            Ok(may_begin) => return may_begin,
            Err(outcome) => outcome,
        };
        if let Some(outcome) = outcome {
            self.settler.settle(ctx, outcome).await;
        }
        false
    }
}

/// The span of an attempt. Not in the span of the attempt whose slot it takes: that would be kept for as long as this one runs,
/// and its forerunner with it.
pub(crate) fn span(ctx: &Ctx) -> Span {
    capture::introduced(ctx, || {
        tracing::info_span!(
            parent: None,
            "attempt",
            job.id = %ctx.id(), job.kind = %ctx.kind(), job.queue = %ctx.queue(),
            attempt = ctx.attempt(), fence = %ctx.fence(),
        )
    })
}

/// The same in the trace that is the current one: for bridges from `tracing` to OpenTelemetry.
fn span_inside(ctx: &Ctx) -> Span {
    capture::introduced(ctx, || {
        tracing::info_span!(
            "attempt",
            job.id = %ctx.id(), job.kind = %ctx.kind(), job.queue = %ctx.queue(),
            attempt = ctx.attempt(), fence = %ctx.fence(),
        )
    })
}

/// One attempt: run it, hand its outcome in, leave the slot to the next.
async fn run(mut slot: Slot, ctx: Ctx) {
    // Few have a history: the future of all others stays small.
    let may_begin = !ctx.has_history() || Box::pin(slot.attempts.may_begin(&ctx)).await;
    if may_begin && let Some(outcome) = slot.attempts.executor.execute(&ctx).await {
        report(&ctx, &outcome);
        ctx.inner().span.end(&outcome);
        if ctx.has_said() {
            Box::pin(ctx.last_words()).await;
        }
        slot.attempts.settler.settle(&ctx, outcome).await;
    }
    slot.is_done = true;
    let attempts = Arc::clone(&slot.attempts);
    if ctx.inner().thread.abandon(slot).is_none() {
        let (id, kind) = (ctx.id(), ctx.kind());
        if ctx.inner().thread.is_in_batch() {
            tracing::debug!(
                job.id = %id, job.kind = %kind,
                "the call of a batch goes on after an attempt has ended; its slot stays occupied until the call returns"
            );
        } else {
            tracing::warn!(
                job.id = %id, job.kind = %kind,
                "a blocking handler goes on after its attempt has ended; its slot stays occupied until it returns"
            );
        }
        attempts.wakers.shutdown.notify_waiters();
    }
}

/// Says how an attempt ended. Never what was in it.
fn report(ctx: &Ctx, outcome: &Outcome) {
    let (id, kind) = (ctx.id(), ctx.kind());
    match outcome {
        // Whether it has completed is known when it is settled.
        Outcome::Completed { .. } if ctx.inner().within.get() != Completion::Engine => {}
        Outcome::Completed { .. } => tracing::debug!(job.id = %id, job.kind = %kind, "completed"),
        Outcome::Retry { failure } | Outcome::RetryAfter { failure, .. } => {
            tracing::warn!(job.id = %id, job.kind = %kind, error = failure.text, "failed");
        }
        Outcome::Ambiguous { failure } => {
            tracing::warn!(job.id = %id, job.kind = %kind, error = failure.text, "failed, its effect is unknown");
        }
        Outcome::Fail { failure } => {
            tracing::warn!(job.id = %id, job.kind = %kind, error = failure.text, "failed for good");
        }
        other => tracing::debug!(job.id = %id, job.kind = %kind, outcome = ?other, "ended"),
    }
}

/// A slot that is taken. Dropping it frees the slot and starts the next attempt.
pub(crate) struct Slot {
    attempts: Arc<Attempts>,
    index: usize,
    /// The attempt came to its end and its outcome was handed in.
    is_done: bool,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let attempts = &self.attempts;
        let unfinished = if self.is_done { None } else { attempts.slots().attempt_in(self.index) };
        if let Some(ctx) = unfinished.filter(|_| std::thread::panicking()) {
            // Only a defect in the engine gets here; even then the job must not stay with this worker.
            let failure =
                Failure { cause: Cause::Panic, text: "the worker panicked around the attempt".into() };
            let (settler, outcome) = (Arc::clone(&attempts.settler), Outcome::Retry { failure });
            attempts.runtime.spawn(async move { settler.settle(&ctx, outcome).await });
        }
        let (freed, start) = {
            let mut slots = attempts.slots();
            let freed = slots.finish(self.index);
            // A runtime that ends drops attempts; the next one would only be dropped as well.
            (freed, if self.is_done { slots.next() } else { None })
        };
        if let Some(start) = start {
            attempts.launch(start);
        }
        match freed {
            Freed::Enough if self.is_done => {}
            Freed::Enough | Freed::AskForMore => attempts.wakers.fetcher.notify_one(),
            Freed::Draining => attempts.wakers.shutdown.notify_waiters(),
        }
    }
}
