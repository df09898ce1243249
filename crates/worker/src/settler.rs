//! Records outcomes in batches. An attempt hands its outcome in and is gone; the settler keeps it until the
//! store has it.
//!
//! Nothing that was handed in is lost while the process lives: a store that is away is asked again, for ever,
//! and a panic in it is only another failure. Meanwhile the lane fills up, attempts keep their slots, and
//! nothing new is claimed. An outcome that the store refuses for good is given up together with its lease:
//! renewed for ever, it would keep the job from everybody.

use std::panic::AssertUnwindSafe;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use windlass_core::batch::{Driver, Lane, lane};
use windlass_core::outcome::{Cause, Failure};
use windlass_core::size::TooLarge;
use windlass_core::store::{Settled, Settlement};
use windlass_core::{JobRecord, Outcome, State, Store, StoreError, StoreErrorKind, judge};

use crate::ctx::Ctx;
use crate::ctx::within::Completion;
use crate::lease::Lease;
use crate::supervise::{Board, Part, backoff, panic_text};

/// Where outcomes are handed in.
pub(crate) struct Settler {
    lane: Lane<Entry, ()>,
    unsettled: Arc<AtomicUsize>,
    fenced: Arc<AtomicU64>,
}

enum Entry {
    Settle {
        settlement: Settlement,
        ctx: Ctx,
    },
    /// Everything handed in before it has been recorded when it is answered.
    Mark,
}

/// Outcomes of one store call.
const BATCH_MAX: usize = 1_000;
/// Outcomes that wait; beyond it, attempts keep their slots.
const WAITING_MAX: usize = 4_000;
/// How often an outcome that the store refuses for no passing reason is tried, before it is left to the
/// reaper.
const REFUSALS_MAX: u32 = 5;
/// How often a batch is tried before its outcomes are tried one by one.
const BATCH_TRIES: u32 = 2;
/// How many of them may fail first before the store counts as away.
const PROBES: usize = 3;
/// How long one outcome by itself may hold up those that come after it.
const LONE_PATIENCE: Duration = Duration::from_secs(10);
/// What is recorded of an attempt whose handler forgot to commit.
const UNCOMMITTED: &str = "the handler completed the job within a transaction that was not committed";
/// A flush that takes longer than a third of this shows in the health.
const FLUSH_EXPECTED: Duration = Duration::from_secs(5);

impl Settler {
    /// A settler, and what records for it. The recorder ends when the settler is gone.
    pub(crate) fn new(store: Arc<dyn Store>, board: Arc<Board>, lease: Arc<Lease>) -> (Self, Recorder) {
        let (lane, driver) = lane(WAITING_MAX, BATCH_MAX);
        let (unsettled, fenced) = (Arc::<AtomicUsize>::default(), Arc::<AtomicU64>::default());
        let flush =
            Flush { store, board, lease, unsettled: Arc::clone(&unsettled), fenced: Arc::clone(&fenced) };
        (Self { lane, unsettled, fenced }, Recorder { driver, flush })
    }

    /// Hands in the outcome of an attempt; waits only while too many wait already.
    pub(crate) async fn settle(&self, ctx: &Ctx, outcome: Outcome) {
        let entry = Entry::Settle { settlement: settlement(ctx, outcome), ctx: ctx.clone() };
        self.unsettled.fetch_add(1, Ordering::Relaxed);
        if self.lane.post(entry).await.is_err() {
            tracing::error!(job.id = %ctx.id(), "the settler has ended; the job is left to the reaper");
        }
    }

    /// Waits until everything handed in before is recorded.
    pub(crate) async fn flushed(&self) {
        // A closed lane has nothing left to flush.
        let _ = self.lane.submit(Entry::Mark).await;
    }

    /// Outcomes that wait to be recorded.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.load(Ordering::Relaxed)
    }

    /// Outcomes that came too late.
    pub(crate) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
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

/// Records what is handed in.
pub(crate) struct Recorder {
    driver: Driver<Entry, ()>,
    flush: Flush,
}

impl Recorder {
    /// Records until the settler is gone and everything handed in is recorded.
    pub(crate) async fn run(self) {
        let flush = Arc::new(self.flush);
        let each = |entries: Vec<Entry>| {
            let flush = Arc::clone(&flush);
            async move {
                let answers = vec![(); entries.len()];
                flush.entries(entries).await;
                answers
            }
        };
        self.driver.run(each).await;
    }
}

struct Flush {
    store: Arc<dyn Store>,
    board: Arc<Board>,
    lease: Arc<Lease>,
    unsettled: Arc<AtomicUsize>,
    fenced: Arc<AtomicU64>,
}

/// How long to insist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// As long as others may be held up.
    Short,
    /// For ever.
    Endless,
}

/// What came of it.
enum Insisted {
    Answered(Vec<Settled>),
    /// For a reason that does not pass.
    Refused,
    /// Patience has ended.
    Stuck,
}

impl Flush {
    async fn entries(self: &Arc<Self>, entries: Vec<Entry>) {
        let (mut settlements, mut ctxs) =
            (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
        for entry in entries {
            if let Entry::Settle { settlement, ctx } = entry {
                settlements.push(settlement);
                ctxs.push(ctx);
            }
        }
        if settlements.is_empty() {
            return;
        }
        self.board.expect_within(Part::Settler, Some(FLUSH_EXPECTED));
        let recorded = AssertUnwindSafe(self.record(&settlements, &ctxs)).catch_unwind().await;
        if let Err(panic) = recorded {
            let text = panic_text(&*panic);
            self.board.restart(Part::Settler, &text);
            self.board.failure(Part::Settler, &text);
            // Which of them were recorded is not known.
            ctxs.iter().for_each(|ctx| self.lease.retire(ctx.inner().landing.lease));
        }
        self.board.expect_within(Part::Settler, None);
        self.unsettled.fetch_sub(ctxs.len(), Ordering::Relaxed);
    }

    /// Records outcomes, and failures for those whose output is refused.
    async fn record(self: &Arc<Self>, settlements: &[Settlement], ctxs: &[Ctx]) {
        let mut refused = self.once(settlements, ctxs).await;
        if !refused.is_empty() {
            let (settlements, ctxs): (Vec<_>, Vec<_>) = refused.drain(..).unzip();
            // Failures with short texts: none is refused again.
            self.once(&settlements, &ctxs).await;
        }
    }

    async fn once(self: &Arc<Self>, settlements: &[Settlement], ctxs: &[Ctx]) -> Vec<(Settlement, Ctx)> {
        loop {
            match (self.insist(settlements, ctxs, Patience::Short).await, settlements, ctxs) {
                (Insisted::Answered(answers), ..) => return self.conclude(ctxs, answers).await,
                (Insisted::Refused, [_], [ctx]) => {
                    self.give_up(ctx);
                    return Vec::new();
                }
                (Insisted::Stuck, [settlement], [ctx]) => {
                    self.aside(settlement.clone(), ctx.clone());
                    return Vec::new();
                }
                (Insisted::Refused, ..) => return self.one_by_one(settlements, ctxs).await,
                (Insisted::Stuck, ..) => {
                    if let Some(refused) = self.apart(settlements, ctxs).await {
                        return refused;
                    }
                }
            }
        }
    }

    /// A batch fails again and again: either the store is away, or something is in the way of one of them, as a
    /// transaction that a handler left open. Tries each by itself. Nothing comes back when none of the first few goes
    /// through; otherwise those that do not are insisted on beside the others and hold nobody up.
    async fn apart(
        self: &Arc<Self>,
        settlements: &[Settlement],
        ctxs: &[Ctx],
    ) -> Option<Vec<(Settlement, Ctx)>> {
        let (mut refused, mut stuck, mut recorded) = (Vec::new(), Vec::new(), 0);
        for (settlement, ctx) in settlements.iter().zip(ctxs) {
            match self.attempt(slice::from_ref(settlement), slice::from_ref(ctx)).await {
                Ok(answers) => {
                    recorded += 1;
                    refused.extend(self.conclude(slice::from_ref(ctx), answers).await);
                }
                Err((error, _)) => {
                    self.board.failure(Part::Settler, &error);
                    stuck.push((settlement.clone(), ctx.clone()));
                }
            }
            if recorded == 0 && stuck.len() == PROBES {
                return None;
            }
        }
        for (settlement, ctx) in stuck {
            self.aside(settlement, ctx);
        }
        Some(refused)
    }

    /// Insists on one outcome without holding the others up. There are never more of these than slots.
    fn aside(self: &Arc<Self>, settlement: Settlement, ctx: Ctx) {
        tracing::warn!(job.id = %ctx.id(), job.kind = %ctx.kind(), "something is in the way of the outcome");
        let flush = Arc::clone(self);
        tokio::spawn(async move {
            let refused = flush.one_by_one(&[settlement], &[ctx]).await;
            for (settlement, ctx) in refused {
                flush.one_by_one(&[settlement], &[ctx]).await;
            }
        });
    }

    /// Asks until the store answers, refuses for a reason that does not pass, or patience ends.
    async fn insist(&self, settlements: &[Settlement], ctxs: &[Ctx], patience: Patience) -> Insisted {
        let (started, mut refusals, mut tries) = (Instant::now(), 0, 0);
        let is_batch = settlements.len() > 1;
        loop {
            let (error, is_passing) = match self.attempt(settlements, ctxs).await {
                Ok(answers) => {
                    self.board.success(Part::Settler);
                    return Insisted::Answered(answers);
                }
                Err(failed) => failed,
            };
            tries += 1;
            refusals += u32::from(!is_passing);
            let failures = self.board.failure(Part::Settler, &error);
            if refusals >= if is_batch { 1 } else { REFUSALS_MAX } {
                return Insisted::Refused;
            }
            let is_over = if is_batch { tries >= BATCH_TRIES } else { started.elapsed() > LONE_PATIENCE };
            if is_over && patience == Patience::Short {
                return Insisted::Stuck;
            }
            tokio::time::sleep(backoff(failures)).await;
        }
    }

    /// Asks the store once. A failure comes with whether it may pass.
    async fn attempt(
        &self,
        settlements: &[Settlement],
        ctxs: &[Ctx],
    ) -> Result<Vec<Settled>, (String, bool)> {
        let (is_unknown, failed) = match AssertUnwindSafe(self.store.settle(settlements)).catch_unwind().await
        {
            Ok(Ok(answers)) => return Ok(answers),
            Ok(Err(error)) => {
                (error.kind() == StoreErrorKind::Unknown, (error.to_string(), error.is_transient()))
            }
            Err(panic) => {
                let text = panic_text(&*panic);
                self.board.restart(Part::Settler, &text);
                (true, (text, true))
            }
        };
        if is_unknown {
            ctxs.iter().for_each(|ctx| ctx.inner().is_perhaps_recorded.store(true, Ordering::Relaxed));
        }
        Err(failed)
    }

    /// One of a batch cannot be recorded: it must not keep the others from it.
    async fn one_by_one(&self, settlements: &[Settlement], ctxs: &[Ctx]) -> Vec<(Settlement, Ctx)> {
        let mut refused = Vec::new();
        for (settlement, ctx) in settlements.iter().zip(ctxs) {
            match self.insist(slice::from_ref(settlement), slice::from_ref(ctx), Patience::Endless).await {
                Insisted::Answered(answers) => {
                    refused.extend(self.conclude(slice::from_ref(ctx), answers).await);
                }
                Insisted::Refused | Insisted::Stuck => self.give_up(ctx),
            }
        }
        refused
    }

    fn give_up(&self, ctx: &Ctx) {
        tracing::error!(
            job.id = %ctx.id(), job.kind = %ctx.kind(),
            "the outcome cannot be recorded; the job is left to the reaper"
        );
        self.lease.retire(ctx.inner().landing.lease);
    }

    /// What the answers ask for: outputs that were refused are recorded as failures.
    async fn conclude(&self, ctxs: &[Ctx], answers: Vec<Settled>) -> Vec<(Settlement, Ctx)> {
        let (mut refused, mut doubtful) = (Vec::new(), Vec::new());
        for (ctx, answer) in ctxs.iter().zip(answers) {
            match answer {
                Settled::Applied(_) => {
                    if ctx.inner().within.get() == Completion::Returned {
                        tracing::warn!(job.id = %ctx.id(), job.kind = %ctx.kind(), "failed: {UNCOMMITTED}");
                    }
                }
                Settled::Fenced if has_completed_within(ctx) => {
                    tracing::debug!(job.id = %ctx.id(), job.kind = %ctx.kind(), "completed");
                }
                Settled::Fenced if ctx.inner().is_perhaps_recorded.load(Ordering::Relaxed) => {
                    doubtful.push(ctx);
                }
                Settled::Fenced => self.late(ctx),
                Settled::Refused(error) => {
                    refused.push((settlement(ctx, unfit(ctx, error)), ctx.clone()));
                }
            }
        }
        if !doubtful.is_empty() {
            self.look_after(&doubtful).await;
        }
        refused
    }

    /// The answer to an earlier report of these was lost, and a repeat is fenced: either that report was recorded, or
    /// they really are late. The jobs tell.
    async fn look_after(&self, ctxs: &[&Ctx]) {
        let ids: Vec<_> = ctxs.iter().map(|ctx| ctx.id()).collect();
        match self.store.get(&ids).await {
            Ok(records) => {
                for (ctx, record) in ctxs.iter().zip(records) {
                    let goes_on = |record: &JobRecord| {
                        record.fence != ctx.fence().number || record.state == State::Running
                    };
                    // One that is gone had ended, and its queue keeps none.
                    if record.is_some_and(|record| goes_on(&record)) {
                        self.late(ctx);
                    } else {
                        tracing::debug!(
                            job.id = %ctx.id(), job.kind = %ctx.kind(), fence = %ctx.fence(),
                            "an outcome was recorded by a report whose answer was lost"
                        );
                    }
                }
            }
            Err(error) => {
                tracing::info!(%error, jobs = ids.len(), "whether outcomes were recorded cannot be seen at present");
            }
        }
    }

    fn late(&self, ctx: &Ctx) {
        self.fenced.fetch_add(1, Ordering::Relaxed);
        tracing::warn!(
            job.id = %ctx.id(), job.kind = %ctx.kind(), fence = %ctx.fence(),
            "an outcome came too late: the job had gone to another attempt"
        );
    }
}

/// Whether an attempt that was fenced has fenced itself, by the commit of the transaction that it completed in.
pub(crate) fn has_completed_within(ctx: &Ctx) -> bool {
    matches!(ctx.inner().within.get(), Completion::Begun | Completion::Returned)
}

fn unfit(ctx: &Ctx, error: TooLarge) -> Outcome {
    let text = StoreError::TooLarge { id: ctx.id(), error }.to_string();
    Outcome::Fail { failure: Failure { cause: Cause::Codec, text } }
}
