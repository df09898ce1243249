//! Watches attempts from the lease thread, which no handler can hold up.
//!
//! An async handler that blocks its thread cannot be dropped, and no timer on its runtime may fire: here it is
//! named while it runs, and when it has outlasted its timeout and its grace, its attempt is ended without it.
//! The outcome goes to the store from this thread, for the settler shares the runtime that may be blocked. The fence
//! makes whatever the handler comes to harmless; its slot stays occupied until it returns.
//!
//! A runtime whose threads are all held is noticed here too: claimed jobs that wait go back to the store, and a
//! worker that was told to stop comes to its end without the runtime.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use windlass_core::backoff::with_retries;
use windlass_core::follow_ups::FollowUps;
use windlass_core::outcome::Cause;
use windlass_core::store::{Right, Settlement, StoreResult};
use windlass_core::{Outcome, Store};

use crate::attempts::Attempts;
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::executor;
use crate::flows::notes;
use crate::lag::Lag;
use crate::lease::{End, Lease};
use crate::retries::{endless, wait};
use crate::settling::{self, follow_ups};
use crate::shutdown::{Shutdown, Stage};

/// How often attempts are looked at.
const INTERVAL: Duration = Duration::from_millis(200);
/// A runtime that was silent for this time runs nothing at present.
const SILENT: Duration = Duration::from_secs(2);
/// How long the last outcomes may take when the worker ends without its runtime.
const STORE_MAX: Duration = Duration::from_secs(5);
/// Outcomes of one store call.
const BATCH: usize = 500;
/// How often an outcome that is refused for no passing reason is tried.
const REFUSALS_MAX: u32 = 5;

/// When the watchdog acts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// How long an attempt that was told to stop may take.
    pub(crate) cancel_grace: Duration,
    /// How long running attempts may go on once the worker drains.
    pub(crate) drain_deadline: Duration,
    /// How long an async handler may hold its thread before it counts as blocked.
    pub(crate) blocked_after: Duration,
}

/// Watches the attempts of a worker and the runtime that they run on.
pub(crate) struct Watchdog {
    config: Config,
    store: Arc<dyn Store>,
    attempts: Arc<Attempts>,
    lease: Arc<Lease>,
    lag: Arc<Lag>,
    shutdown: Shutdown,
    ending: Mutex<Ending>,
}

/// For how long the worker has been ending, as far as was seen.
#[derive(Clone, Copy)]
struct Ending {
    stage: Stage,
    since: Instant,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Handlers that were named because they hold their thread.
    pub(crate) blocked: usize,
    /// Attempts that were ended without their handler.
    pub(crate) ended: usize,
}

impl Watchdog {
    pub(crate) fn new(
        config: Config,
        store: Arc<dyn Store>,
        attempts: Arc<Attempts>,
        lease: Arc<Lease>,
        lag: Arc<Lag>,
        shutdown: Shutdown,
    ) -> Self {
        let ending = Mutex::new(Ending { stage: Stage::Running, since: Instant::now() });
        Self { config, store, attempts, lease, lag, shutdown, ending }
    }

    /// Watches until it is dropped. Runs on the lease thread.
    pub(crate) async fn run(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            self.run_once();
        }
    }

    /// Looks at all attempts and at their runtime. Outcomes are recorded in the background.
    pub(crate) fn run_once(self: &Arc<Self>) -> Summary {
        let summary = self.look_at_attempts();
        self.look_at_runtime();
        summary
    }

    /// Names handlers that hold their thread, and ends the attempts of those that outlast their grace.
    fn look_at_attempts(self: &Arc<Self>) -> Summary {
        let (now, grace) = (Instant::now(), self.config.cancel_grace);
        let (mut blocked, mut overdue) = (Vec::new(), Vec::new());
        for ctx in self.attempts.slots().running() {
            let (poll, control) = (&ctx.inner().poll, &ctx.inner().control);
            let Some(held) = poll.held(now) else { continue };
            if ctx.deadline().is_some_and(|deadline| deadline <= now) {
                control.stop(Stop::Timeout);
            }
            if poll.is_overdue(control.reason(), now, grace) {
                overdue.push(ctx.clone());
            }
            if held >= self.config.blocked_after && poll.warn_once() {
                blocked.push((ctx.clone(), held));
            }
        }
        // Without the lock: a subscriber may look at the health.
        for (ctx, held) in &blocked {
            let kind = ctx.kind();
            tracing::error!(
                job.id = %ctx.id(), job.kind = %kind,
                "kind `{kind}` has held a runtime thread for {held:.1?} and still does: use handle_blocking or yield"
            );
        }
        Summary { blocked: blocked.len(), ended: self.end_without_handlers(overdue) }
    }

    /// Ends attempts whose handlers cannot be stopped, and answers how many.
    fn end_without_handlers(self: &Arc<Self>, overdue: Vec<Ctx>) -> usize {
        let (mut count, mut ended) = (0, Vec::new());
        for ctx in overdue.into_iter().filter(|ctx| ctx.inner().poll.end_once()) {
            let (kind, stop) = (ctx.kind(), ctx.inner().control.reason());
            tracing::error!(
                job.id = %ctx.id(), job.kind = %kind, reason = ?stop,
                "kind `{kind}` holds a runtime thread and does not stop: its attempt ends without it, and its slot stays occupied until it returns"
            );
            count += 1;
            let outcome = executor::dropped(&ctx).map(name_the_thread);
            // What the handler comes to no longer counts.
            ctx.inner().control.stop(Stop::Gone);
            match outcome {
                Some(outcome) => ended.push((ctx, outcome)),
                None => self.leave(&ctx),
            }
        }
        self.record(ended);
        count
    }

    /// Looks whether anything runs on the worker's runtime; if not, does what cannot wait for it.
    fn look_at_runtime(self: &Arc<Self>) {
        let (now, stage) = (Instant::now(), self.shutdown.stage());
        let ending = {
            let mut ending = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
            if stage != ending.stage {
                *ending = Ending { stage, since: now };
            }
            *ending
        };
        if self.lag.silence(now) < SILENT {
            return;
        }
        let waiting = self.attempts.slots().take_waiting();
        if !waiting.is_empty() {
            tracing::error!(
                jobs = waiting.len(),
                "handlers hold all threads of the runtime: jobs that were claimed and wait go back"
            );
            self.record(waiting.into_iter().map(|ctx| (ctx, Outcome::Returned)).collect());
        }
        let patience = match stage {
            Stage::Running => return,
            Stage::Draining => self.config.drain_deadline + self.config.cancel_grace,
            Stage::Now | Stage::Killed => Duration::ZERO,
        };
        let late = now.saturating_duration_since(ending.since).saturating_sub(patience);
        if !late.is_zero() {
            self.end_without_runtime(stage, late);
        }
    }

    /// The worker has to end, and what should bring it there does not run.
    fn end_without_runtime(self: &Arc<Self>, stage: Stage, late: Duration) {
        if stage == Stage::Killed {
            self.attempts.slots().let_go();
            return self.lease.end(End::Leave);
        }
        let stuck: Vec<Ctx> = {
            let mut slots = self.attempts.slots();
            slots.close();
            slots.stop_all(Stop::Shutdown);
            slots.running().cloned().collect()
        };
        if stuck.is_empty() || late > STORE_MAX {
            return self.lease.end(End::Close);
        }
        self.end_without_handlers(stuck);
    }

    /// Brings outcomes to the store from here, and then leaves the slots to the handlers.
    fn record(self: &Arc<Self>, mut outcomes: Vec<(Ctx, Outcome)>) {
        while !outcomes.is_empty() {
            let batch = outcomes.split_off(outcomes.len().saturating_sub(BATCH));
            let this = Arc::clone(self);
            tokio::spawn(async move {
                let (ctxs, ends): (Vec<_>, Vec<_>) = batch
                    .into_iter()
                    .map(|(ctx, outcome)| {
                        let end = this.attempts.settler.settlement(&ctx, outcome);
                        let then = follow_ups(&ctx, &end);
                        (ctx, (end, then))
                    })
                    .unzip();
                let recorded = AssertUnwindSafe(this.settle(ends)).catch_unwind().await;
                if !matches!(recorded, Ok(Ok(()))) {
                    tracing::error!(
                        jobs = ctxs.len(),
                        "outcomes cannot be recorded; their jobs are left to the reaper"
                    );
                    ctxs.iter().for_each(|ctx| this.lease.retire(ctx.inner().claimed.lease));
                }
                ctxs.iter().for_each(notes::tell_of);
                ctxs.iter().for_each(|ctx| this.leave(ctx));
            });
        }
    }

    /// Asks until the store answers. What is fenced has gone to others, which is as good.
    async fn settle(&self, ends: Vec<(Settlement, Option<FollowUps>)>) -> StoreResult<()> {
        let settle = || async {
            let settled = settling::write(&*self.store, Right::Fence, ends.clone()).await;
            settled.inspect_err(
                |error| tracing::warn!(%error, jobs = ends.len(), "outcomes are not recorded yet"),
            )
        };
        with_retries(&mut endless().refusals_max(REFUSALS_MAX), settle, wait).await.map(drop)
    }

    /// The attempt has ended, its handler perhaps not.
    fn leave(&self, ctx: &Ctx) {
        ctx.inner().poll.abandon();
        self.attempts.wakers.shutdown.notify_waiters();
    }
}

/// Says of an attempt that timed out why it could not be stopped.
fn name_the_thread(mut outcome: Outcome) -> Outcome {
    if let Outcome::Retry { failure } = &mut outcome
        && failure.cause == Cause::Timeout
    {
        failure.text.push_str(" while it held a runtime thread: use handle_blocking or yield");
    }
    outcome
}
