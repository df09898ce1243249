//! Records outcomes in batches. An attempt hands its outcome in and is gone; the settler keeps it until the store has it.
//!
//! While the process lives, no outcome is lost: a store that does not answer is asked again without end, and a panic in it
//! is only another failure. Meanwhile the lanes fill up, attempts keep their slots, and nothing new is claimed. Settling
//! is fenced, so a batch may be split and repeated in any way.
//!
//! Five modes, each in a file of its name. An outcome begins in one of the first two and moves on when its call fails:
//!
//! ```text
//!        queues share calls                          each queue has its own
//!               │                                              │
//!               ▼                                              ▼
//!           TOGETHER  ── what fails as a whole ────────▶   BY QUEUE
//!        the shared lane   and in halves              the lane of one queue
//!                                                              │ the whole batch fails
//!                                                              ▼
//!            ┌──────── nothing goes through ───────────────  BISECT
//!            ▼                                         halves, down to single outcomes
//!          PROBE  ──── one goes through ────────────────▶      │
//!   one outcome at a time,                                     │ one fails, others go through
//!   another each time                                          ▼
//!            │ a few that fail for a second              BACKGROUND
//!            └──────────────────────────────────────▶  a task for each, a bounded number per queue
//!                                                              │ refused too often, or no room
//!                                                              ▼
//!                                                        given up: its lease is retired, a reaper takes the job
//! ```
//!
//! So a sick queue holds up only its own lane, and one outcome that cannot be recorded holds up nothing. The lease of an
//! outcome that is given up is retired: renewed, it would keep the job from every worker.

mod answers;
mod background;
mod batch;
mod bisect;
mod by_queue;
mod in_flight;
mod probe;
mod recorder;
mod together;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_core::outcome::Failure;
use windlass_core::store::Settlement;
use windlass_core::{Outcome, Store, judge};

use self::batch::{Entry, Unsettled};
use self::recorder::Recorder;
use crate::backoff::Backoff;
use crate::ctx::Ctx;
use crate::ctx::within::Completion;
use crate::lanes::Lanes;
use crate::lease::Lease;
use crate::observe::Observe;
use crate::settling::follow_ups;
use crate::supervise::Board;

/// Takes outcomes and records them. Its lanes are its loop: they run while they hold outcomes, so there is no `run`.
pub(crate) struct Settler {
    lanes: Lanes<Recorder>,
    recorder: Arc<Recorder>,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Outcomes that are not recorded yet.
    pub(crate) unsettled: usize,
    /// Outcomes that came too late, so far.
    pub(crate) fenced: u64,
}

/// What is recorded of an attempt whose handler forgot to commit.
const UNCOMMITTED: &str = "the handler completed the job within a transaction that was not committed";
/// How long background writes are waited for.
const BACKGROUND_WAIT: Duration = Duration::from_secs(10);
/// Marks that wait in lanes. The caller of one may go away; in a lane that is held up the mark stays, and must not take
/// the room of outcomes.
const MARKS_MAX: usize = 500;
const MARKS_INTERVAL: Duration = Duration::from_millis(50);

impl Settler {
    /// A settler that records on this runtime. Outcomes that it has are recorded also when it is dropped.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        board: Arc<Board>,
        lease: Arc<Lease>,
        runtime: Handle,
        (backoff, observe): (Backoff, Observe),
    ) -> Self {
        let sharing = store.about().sharing;
        let recorder = Arc::new(Recorder::new(store, board, lease, (backoff, observe)));
        Self { lanes: Lanes::new(sharing, runtime, Arc::clone(&recorder)), recorder }
    }

    /// Hands in the outcome of an attempt; waits only while too many wait already.
    pub(crate) async fn settle(&self, ctx: &Ctx, outcome: Outcome) {
        let settlement = self.settlement(ctx, outcome);
        let then = follow_ups(ctx, &settlement);
        let ended = ctx.inner().observed.ended();
        let unsettled = Unsettled::new(ctx.clone(), then, ended, &self.recorder.unsettled);
        let entry = Entry::Settle { settlement, unsettled };
        // Mostly there is room, and the entry is not moved through the states of futures.
        let Err(entry) = self.lanes.try_post(ctx.queue(), entry) else { return };
        if Box::pin(self.lanes.post(ctx.queue(), entry)).await.is_err() {
            tracing::error!(job.id = %ctx.id(), "the settler has ended; the job is left to the reaper");
        }
    }

    /// What the store is told about an attempt.
    pub(crate) fn settlement(&self, ctx: &Ctx, outcome: Outcome) -> Settlement {
        settlement(ctx, outcome, &self.recorder.backoff)
    }

    /// Waits until everything handed in before is recorded; for what is written in the background, only for a while.
    pub(crate) async fn run_once(&self) -> Summary {
        let marks = &self.recorder.marks;
        while Arc::strong_count(marks) > MARKS_MAX {
            tokio::time::sleep(MARKS_INTERVAL).await;
        }
        self.lanes.mark(|| Entry::Mark { _counted: Arc::clone(marks) }).await;
        let _ = tokio::time::timeout(BACKGROUND_WAIT, self.recorder.background.ended()).await;
        Summary { unsettled: self.unsettled(), fenced: self.fenced() }
    }

    /// Whether outcomes are repeated in the background.
    pub(crate) fn has_background(&self) -> bool {
        self.recorder.background.has_any()
    }

    /// Outcomes that wait to be recorded.
    pub(crate) fn unsettled(&self) -> usize {
        Arc::strong_count(&self.recorder.unsettled) - 1
    }

    /// Outcomes that came too late.
    pub(crate) fn fenced(&self) -> u64 {
        self.recorder.fenced()
    }
}

/// What the store is told about an attempt. One that completed its job within a transaction asks for a retry:
/// it is fenced if the transaction was committed, and right if it was not.
pub(crate) fn settlement(ctx: &Ctx, outcome: Outcome, backoff: &Backoff) -> Settlement {
    let within = &ctx.inner().within;
    let outcome = match outcome {
        Outcome::Completed { .. } if within.get() != Completion::Engine => {
            if within.get() == Completion::Begun {
                within.set(Completion::Returned);
            }
            Outcome::Retry { failure: Failure::error(UNCOMMITTED) }
        }
        other => other,
    };
    // A handler that says when to come back knows best.
    let is_said = matches!(outcome, Outcome::RetryAfter { .. });
    let mut transition = judge(&ctx.inner().job.facts, outcome, fastrand::f64());
    if !is_said {
        backoff.apply(ctx, &mut transition);
    }
    Settlement { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence(), transition }
}

/// Whether an attempt that was fenced has fenced itself, by the commit of the transaction that it completed in.
pub(crate) fn has_completed_within(ctx: &Ctx) -> bool {
    matches!(ctx.inner().within.get(), Completion::Begun | Completion::Returned)
}

#[cfg(test)]
mod tests;
