//! The watch over attempts, kept by the lease thread, which no handler can hold up.
//!
//! An async handler that blocks its thread cannot be dropped, and no timer on its runtime may fire: here it is
//! named while it runs, and when it has outlasted its timeout and its grace, its attempt is ended without it.
//! The outcome goes to the store from this thread, for the settler shares the runtime that may be blocked. The fence
//! makes whatever the handler comes to harmless; its slot stays occupied until it returns.
//!
//! A runtime whose threads are all held is noticed here too: claimed jobs that wait go back to the store, and a
//! worker that was told to stop comes to its end without the runtime.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use windlass_core::Outcome;
use windlass_core::outcome::Cause;
use windlass_core::store::Settlement;

use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::engine::Engine;
use crate::executor;
use crate::lease::End;
use crate::settler::settlement;
use crate::shutdown::Stage;
use crate::supervise::backoff;

/// How often attempts are looked at.
const LOOK: Duration = Duration::from_millis(200);
/// A runtime that was silent for so long runs nothing at present.
const SILENT: Duration = Duration::from_secs(2);
/// How long the last outcomes may take when the worker ends without its runtime.
const STORE_MAX: Duration = Duration::from_secs(5);
/// Outcomes of one store call.
const BATCH: usize = 500;
/// How often an outcome that is refused for no passing reason is tried.
const REFUSALS_MAX: u32 = 5;

/// How long the worker has been on its way to the end, as far as was seen.
struct Ending {
    stage: Stage,
    since: Instant,
}

impl Engine {
    /// Runs the work of the lease thread, and keeps watch beside it.
    pub(crate) async fn watching(self: &Arc<Self>, work: impl Future<Output = ()>) {
        let watch = async {
            let mut ending = Ending { stage: Stage::Running, since: Instant::now() };
            loop {
                tokio::time::sleep(LOOK).await;
                self.look_at_attempts();
                self.look_at_runtime(&mut ending);
            }
        };
        tokio::select! {
            () = work => {}
            () = watch => {}
        }
        // The lease ends last.
        self.ended.send_replace(true);
    }

    /// Names handlers that hold their thread, and ends the attempts of those that outlast their grace.
    fn look_at_attempts(self: &Arc<Self>) {
        let (now, grace) = (Instant::now(), self.config.cancel_grace);
        let (mut blocked, mut overdue) = (Vec::new(), Vec::new());
        for ctx in self.floor().running() {
            let (turn, control) = (&ctx.inner().turn, &ctx.inner().control);
            let Some(held) = turn.held(now) else { continue };
            if ctx.deadline().is_some_and(|deadline| deadline <= now) {
                control.stop(Stop::Timeout);
            }
            if turn.is_overdue(control.reason(), now, grace) {
                overdue.push(ctx.clone());
            }
            if held >= self.config.blocked_after() && turn.name() {
                blocked.push((ctx.clone(), held));
            }
        }
        // Without the lock: a subscriber may look at the health.
        for (ctx, held) in blocked {
            let kind = ctx.kind();
            tracing::error!(
                job.id = %ctx.id(), job.kind = %kind,
                "kind `{kind}` has held a runtime thread for {held:.1?} and still does: use handle_blocking or yield"
            );
        }
        self.end_without_handlers(overdue);
    }

    /// Ends attempts whose handlers cannot be stopped.
    fn end_without_handlers(self: &Arc<Self>, overdue: Vec<Ctx>) {
        let mut ended = Vec::new();
        for ctx in overdue.into_iter().filter(|ctx| ctx.inner().turn.take()) {
            let (kind, stop) = (ctx.kind(), ctx.inner().control.reason());
            tracing::error!(
                job.id = %ctx.id(), job.kind = %kind, reason = ?stop,
                "kind `{kind}` holds a runtime thread and does not stop: its attempt ends without it, and its slot stays occupied until it returns"
            );
            let outcome = executor::dropped(&ctx).map(name_the_thread);
            // What the handler comes to no longer counts.
            ctx.inner().control.stop(Stop::Gone);
            match outcome {
                Some(outcome) => ended.push((ctx, outcome)),
                None => self.leave(&ctx),
            }
        }
        self.record(ended);
    }

    /// Looks whether anything runs on the worker's runtime; if not, does what cannot wait for it.
    fn look_at_runtime(self: &Arc<Self>, ending: &mut Ending) {
        let now = Instant::now();
        let stage = *self.stage().borrow();
        if stage != ending.stage {
            *ending = Ending { stage, since: now };
        }
        if self.lag.silence(now) < SILENT {
            return;
        }
        let waiting = self.floor().take_waiting();
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
            self.floor().let_go();
            return self.lease.end(End::Leave);
        }
        let stuck: Vec<Ctx> = {
            let mut floor = self.floor();
            floor.close();
            floor.stop_all(Stop::Shutdown);
            floor.running().cloned().collect()
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
            let engine = Arc::clone(self);
            tokio::spawn(async move {
                let (ctxs, settlements): (Vec<_>, Vec<_>) = batch
                    .into_iter()
                    .map(|(ctx, outcome)| {
                        let settlement = settlement(&ctx, outcome);
                        (ctx, settlement)
                    })
                    .unzip();
                let recorded = AssertUnwindSafe(engine.insist(&settlements)).catch_unwind().await;
                if !recorded.unwrap_or(false) {
                    tracing::error!(
                        jobs = ctxs.len(),
                        "outcomes cannot be recorded; their jobs are left to the reaper"
                    );
                    ctxs.iter().for_each(|ctx| engine.lease.retire(ctx.inner().landing.lease));
                }
                ctxs.iter().for_each(|ctx| engine.leave(ctx));
            });
        }
    }

    /// Asks until the store answers. What is fenced has gone to others, which is as good.
    async fn insist(&self, settlements: &[Settlement]) -> bool {
        let (mut failures, mut refusals) = (0, 0);
        while let Err(error) = self.store().settle(settlements).await {
            tracing::warn!(%error, jobs = settlements.len(), "outcomes are not recorded yet");
            failures += 1;
            refusals += u32::from(!error.is_transient());
            if refusals >= REFUSALS_MAX {
                return false;
            }
            tokio::time::sleep(backoff(failures)).await;
        }
        true
    }

    /// The attempt has ended, its handler perhaps not.
    fn leave(&self, ctx: &Ctx) {
        ctx.inner().turn.leave();
        self.quiet.notify_waiters();
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
