//! Tells the store which attempts have begun, so that only those count as stalled when their worker dies.
//!
//! An attempt that ends within moments is never told of: a write for each would cost as much as the job. What has run
//! for [`BEGUN_AFTER`] is told of, together with all others that have. So a handler that kills its process at once may
//! do so untold of: the job comes back as if it had never begun, but with a claim that did not count, and a job with
//! such a history is told of *before* its handler starts. It gets away with it once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::Notify;
use windlass_core::store::{Begin, Settled, Sharing};
use windlass_core::{Outcome, State};

use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::engine::Engine;
use crate::shutdown::Stage;
use crate::supervise::{BACKOFF_MAX, Part, backoff};

/// How long an attempt runs before the store is told that it has begun.
const BEGUN_AFTER: Duration = Duration::from_millis(50);
/// How often an attempt that must be told of first tries to be, before it is given back.
const TRIES_MAX: u32 = 5;

/// Wakes the loop when an attempt starts while it sleeps.
#[derive(Debug, Default)]
pub(crate) struct Beginnings {
    is_awake: AtomicBool,
    started: Notify,
}

impl Beginnings {
    /// An attempt starts.
    pub(crate) fn started(&self) {
        if !self.is_awake.load(Ordering::Relaxed) {
            self.started.notify_one();
        }
    }
}

/// Tells the store of attempts that have begun, until the worker stops and nothing runs any more; sleeps while all
/// that runs is told of.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut stage = engine.stage();
    let mut failures = 0;
    loop {
        let untold = engine.untold();
        if untold.is_empty() && !engine.floor().runs_untold() {
            engine.beginnings.is_awake.store(false, Ordering::Relaxed);
            engine.board.expect_within(Part::Beginner, None);
            // One that started before the flag was seen keeps the loop awake.
            if !engine.floor().runs_untold() {
                if *stage.borrow_and_update() != Stage::Running {
                    return;
                }
                tokio::select! {
                    () = engine.beginnings.started.notified() => {}
                    _ = stage.changed() => {}
                }
            }
            engine.beginnings.is_awake.store(true, Ordering::Relaxed);
        }
        engine.board.expect_within(Part::Beginner, Some(BACKOFF_MAX));
        failures = if engine.tell(&untold).await { 0 } else { failures + 1 };
        let pause = if failures == 0 { BEGUN_AFTER } else { backoff(failures).max(BEGUN_AFTER) };
        tokio::time::sleep(pause).await;
    }
}

impl Engine {
    /// Attempts that have run long enough for the store to be told of them.
    fn untold(&self) -> Vec<Ctx> {
        let floor = self.floor();
        let is_old = |ctx: &&Ctx| ctx.begun_at().is_some_and(|at| at.elapsed() >= BEGUN_AFTER);
        let untold = floor.running().filter(|ctx| !is_told(ctx)).filter(is_old);
        untold.cloned().collect()
    }

    /// Tells the store that these have begun, and whether it was heard.
    async fn tell(&self, attempts: &[Ctx]) -> bool {
        if attempts.is_empty() {
            return true;
        }
        let mut batches: Vec<Vec<&Ctx>> = Vec::new();
        match self.store().about().sharing {
            Sharing::Store => batches.push(attempts.iter().collect()),
            Sharing::Queue => attempts.iter().for_each(|ctx| {
                match batches.iter_mut().find(|batch| batch[0].queue() == ctx.queue()) {
                    Some(batch) => batch.push(ctx),
                    None => batches.push(vec![ctx]),
                }
            }),
        }
        let told = join_all(batches.iter().map(|batch| self.tell_together(batch))).await;
        told.into_iter().all(|is_told| is_told)
    }

    async fn tell_together(&self, attempts: &[&Ctx]) -> bool {
        let batch: Vec<_> = attempts.iter().map(|ctx| begun(ctx)).collect();
        match self.store().begin(&batch).await {
            Ok(_answers) => {
                // One that is fenced has ended or is lost; either is told otherwise.
                attempts.iter().for_each(|ctx| ctx.inner().is_begun_known.store(true, Ordering::Relaxed));
                self.board.success(Part::Beginner);
                true
            }
            Err(error) => {
                self.board.failure(Part::Beginner, &error.to_string());
                false
            }
        }
    }

    /// Lets the store know that an attempt begins before it does, where that matters. Answers whether it may begin:
    /// not if the job is no longer ours, nor if the store cannot be told or the worker is told to stop meanwhile.
    pub(crate) async fn may_begin(&self, ctx: &Ctx) -> bool {
        if !ctx.has_history() {
            return true;
        }
        let mut failures = 0;
        loop {
            match self.store().begin(&[begun(ctx)]).await {
                Ok(answers) => {
                    self.board.success(Part::Beginner);
                    ctx.inner().is_begun_known.store(true, Ordering::Relaxed);
                    return answers == [Settled::Applied(State::Running)];
                }
                Err(error) => {
                    failures += 1;
                    self.board.failure(Part::Beginner, &error.to_string());
                    if failures >= TRIES_MAX || !error.is_transient() {
                        // The slot is for jobs of queues that answer.
                        self.settler.settle(ctx, Outcome::Returned).await;
                        return false;
                    }
                }
            }
            let reason = tokio::select! {
                reason = ctx.inner().control.stronger_than(Stop::No) => reason,
                () = tokio::time::sleep(backoff(failures)) => Stop::No,
            };
            match reason {
                Stop::No => {}
                Stop::Lost => return false,
                Stop::Requested => {
                    self.settler.settle(ctx, Outcome::Cancelled).await;
                    return false;
                }
                _ => {
                    self.settler.settle(ctx, Outcome::Returned).await;
                    return false;
                }
            }
        }
    }
}

pub(crate) fn is_told(ctx: &Ctx) -> bool {
    ctx.inner().is_begun_known.load(Ordering::Relaxed)
}

fn begun(ctx: &Ctx) -> Begin {
    Begin { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence() }
}
