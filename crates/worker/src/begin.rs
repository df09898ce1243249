//! Tells the store which attempts have begun, so that only those count as stalled when their worker dies.
//!
//! An attempt that ends within moments is never told of: a write for each would cost as much as the job. What has run
//! for [`BEGUN_AFTER`] is told of, together with all others that have. So a handler that kills its process at once may
//! do so untold of: the job comes back as if it had never begun, but with a claim that did not count, and a job with
//! such a history is told of *before* its handler starts. It gets away with it once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::store::{Begin, Settled};
use windlass_core::{Outcome, State};

use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::engine::Engine;
use crate::shutdown::Stage;
use crate::supervise::{BACKOFF_MAX, Part, backoff};

/// How long an attempt runs before the store is told that it has begun.
const BEGUN_AFTER: Duration = Duration::from_millis(50);

/// The store could not be told of an attempt.
struct Untold;

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
    loop {
        engine.tell_of_untold();
        if !engine.floor().runs_untold() {
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
        tokio::time::sleep(BEGUN_AFTER).await;
    }
}

impl Engine {
    /// Tells the store of attempts that have run long enough. Each waits for its own answer: a queue that does not
    /// answer holds up no other.
    fn tell_of_untold(self: &Arc<Self>) {
        let is_old = |ctx: &&Ctx| ctx.begun_at().is_some_and(|at| at.elapsed() >= BEGUN_AFTER);
        for ctx in self.floor().running().filter(|ctx| !is_told(ctx)).filter(is_old) {
            set_told(ctx);
            let (engine, ctx) = (Arc::clone(self), ctx.clone());
            self.runtime.spawn(async move {
                let mut failures = 0;
                // One that is fenced has ended, is lost, or has its row locked and is about to end.
                while engine.tell_of(&ctx).await.is_err() && engine.runs(&ctx) {
                    failures += 1;
                    tokio::time::sleep(backoff(failures)).await;
                }
            });
        }
    }

    /// Tells the store that an attempt has begun, together with all others that do.
    async fn tell_of(&self, ctx: &Ctx) -> Result<Settled, Untold> {
        let told = self.client.begin(begun(ctx)).await;
        self.heard(told.map_err(|error| error.to_string()))
    }

    /// Whether an attempt still runs.
    fn runs(&self, ctx: &Ctx) -> bool {
        self.floor().running().any(|running| running.id() == ctx.id() && running.fence() == ctx.fence())
    }

    /// As [`tell_of`](Self::tell_of), where the answer decides whether the handler starts. Among others a job whose row
    /// is locked is passed over as if it were fenced; alone it is waited for.
    async fn tell_first(&self, ctx: &Ctx) -> Result<Settled, Untold> {
        match self.tell_of(ctx).await {
            Ok(Settled::Fenced) => {
                let told = self.store().begin(&[begun(ctx)]).await;
                let answer = told.map(|answers| answers.into_iter().next().unwrap_or(Settled::Fenced));
                self.heard(answer.map_err(|error| error.to_string()))
            }
            told => told,
        }
    }

    fn heard(&self, told: Result<Settled, String>) -> Result<Settled, Untold> {
        match told {
            Ok(answer) => {
                self.board.success(Part::Beginner);
                Ok(answer)
            }
            Err(error) => {
                self.board.failure(Part::Beginner, &error);
                Err(Untold)
            }
        }
    }

    /// Lets the store know that an attempt begins before it does, for a job with a history. Answers whether it may
    /// begin: not if the job is no longer ours, nor if the store cannot be told or the worker is told to stop meanwhile.
    pub(crate) async fn may_begin(&self, ctx: &Ctx) -> bool {
        set_told(ctx);
        let stopped = tokio::select! {
            told = self.tell_first(ctx) => match told {
                Ok(answer) => return answer == Settled::Applied(State::Running),
                // The slot is for jobs of queues that answer.
                Err(Untold) => Stop::Now,
            },
            reason = ctx.inner().control.stronger_than(Stop::No) => reason,
        };
        match stopped {
            Stop::Lost | Stop::Gone => {}
            Stop::Requested => self.settler.settle(ctx, Outcome::Cancelled).await,
            _ => self.settler.settle(ctx, Outcome::Returned).await,
        }
        false
    }
}

/// Whether the store knows that an attempt has begun, or is being told.
pub(crate) fn is_told(ctx: &Ctx) -> bool {
    ctx.inner().is_begun_told.load(Ordering::Relaxed)
}

fn set_told(ctx: &Ctx) {
    ctx.inner().is_begun_told.store(true, Ordering::Relaxed);
}

fn begun(ctx: &Ctx) -> Begin {
    Begin { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence() }
}
