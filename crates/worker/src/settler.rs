//! Records outcomes in batches. An attempt hands its outcome in and is gone; the settler keeps it until the
//! store has it.
//!
//! Nothing that was handed in is lost while the process lives: a store that is away is asked again, for ever,
//! and a panic in it is only another failure. Meanwhile the lanes fill up, attempts keep their slots, and
//! nothing new is claimed. Settling is fenced, so a batch may be split and repeated in any way.
//!
//! ```text
//!  handed in ─▶ SHARED lane          one for the store, where queues share calls
//!                 │ whole, then halves
//!                 ▼ what fails, by queue
//!  handed in ─▶ QUEUE lane           one for each queue elsewhere; here only for a queue with trouble
//!                 │ whole ──────────▶ recorded
//!                 ▼
//!               SWEEP                halves, down to single outcomes
//!                 │ nothing goes through          │ one does not, others do
//!                 ▼                               ▼
//!               PROBE                           ASIDE   a task for each, so many for a queue
//!                 one outcome at a time,          │     tries again; the lane goes on
//!                 another each time,              ▼ refused too often, or no room
//!                 until one goes through        GIVEN UP
//!                 and SWEEP goes on
//! ```
//!
//! So a sick queue holds up only its own lane, and one outcome that cannot be recorded holds up nothing. An outcome
//! that is given up takes its lease with it: renewed for ever, it would keep the job from everybody.

mod aside;
mod batch;
mod conclude;
mod flights;
mod queue;
mod recorder;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use windlass_core::outcome::Failure;
use windlass_core::store::Settlement;
use windlass_core::{Outcome, Store, judge};

use self::batch::{Entry, Unsettled};
use self::recorder::Recorder;
use crate::ctx::Ctx;
use crate::ctx::within::Completion;
use crate::lanes::Lanes;
use crate::lease::Lease;
use crate::supervise::Board;

/// Where outcomes are handed in.
pub(crate) struct Settler {
    lanes: Lanes<Recorder>,
    recorder: Arc<Recorder>,
}

/// What is recorded of an attempt whose handler forgot to commit.
const UNCOMMITTED: &str = "the handler completed the job within a transaction that was not committed";
/// How long outcomes that are tried aside are waited for.
const ASIDE_PATIENCE: Duration = Duration::from_secs(10);
/// Marks that wait in lanes. Who waits for one may go away; in a lane that is held up the mark stays, and must not take
/// the room of outcomes.
const MARKS_MAX: usize = 500;
const MARKS_LOOK: Duration = Duration::from_millis(50);

impl Settler {
    /// A settler that records on this runtime. What was handed in is recorded also when the settler is gone.
    pub(crate) fn new(store: Arc<dyn Store>, board: Arc<Board>, lease: Arc<Lease>, runtime: Handle) -> Self {
        let sharing = store.about().sharing;
        let recorder = Arc::new(Recorder::new(store, board, lease));
        Self { lanes: Lanes::new(sharing, runtime, Arc::clone(&recorder)), recorder }
    }

    /// Hands in the outcome of an attempt; waits only while too many wait already.
    pub(crate) async fn settle(&self, ctx: &Ctx, outcome: Outcome) {
        let unsettled = Unsettled::new(ctx.clone(), &self.recorder.unsettled);
        let entry = Entry::Settle { settlement: settlement(ctx, outcome), unsettled };
        // Mostly there is room, and the entry is not moved through the states of futures.
        let Err(entry) = self.lanes.try_post(ctx.queue(), entry) else { return };
        if Box::pin(self.lanes.post(ctx.queue(), entry)).await.is_err() {
            tracing::error!(job.id = %ctx.id(), "the settler has ended; the job is left to the reaper");
        }
    }

    /// Waits until everything handed in before is recorded; for what is tried aside, not for ever.
    pub(crate) async fn flushed(&self) {
        let marks = &self.recorder.marks;
        while Arc::strong_count(marks) > MARKS_MAX {
            tokio::time::sleep(MARKS_LOOK).await;
        }
        self.lanes.mark(|| Entry::Mark { _counted: Arc::clone(marks) }).await;
        let _ = tokio::time::timeout(ASIDE_PATIENCE, self.recorder.asides.ended()).await;
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
pub(crate) fn settlement(ctx: &Ctx, outcome: Outcome) -> Settlement {
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
    let transition = judge(&ctx.inner().job.facts, outcome, fastrand::f64());
    Settlement { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence(), transition }
}

/// Whether an attempt that was fenced has fenced itself, by the commit of the transaction that it completed in.
pub(crate) fn has_completed_within(ctx: &Ctx) -> bool {
    matches!(ctx.inner().within.get(), Completion::Begun | Completion::Returned)
}

#[cfg(test)]
mod tests;
