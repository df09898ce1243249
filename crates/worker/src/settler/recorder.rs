//! What all modes of the drawing in [`super`] use: one store call, pauses, and how it is going.

use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::backoff::Transient;
use windlass_core::batch::{Limits, WEIGHT_MAX};
use windlass_core::store::{Right, StoreResult};
use windlass_core::{LeaseId, Store, StoreError, StoreErrorKind};

use super::background::Background;
use super::batch::{Batch, Entry};
use super::in_flight::InFlight;
use crate::backoff::Backoff;
use crate::health::Part;
use crate::lanes::{Flush, Origin};
use crate::lease::Lease;
use crate::observe::{Call, Observe};
use crate::retries::panic_text;
use crate::settling::{Answered, write_followed, write_plain};
use crate::supervise::Board;
use crate::trace::Settling;

/// How often an outcome is written anew because something of it was refused.
const REFUSALS_MAX: u32 = 3;

/// Writes outcomes to the store.
pub(super) struct Recorder {
    pub(super) store: Arc<dyn Store>,
    pub(super) board: Arc<Board>,
    pub(super) lease: Arc<Lease>,
    /// When attempts that fail are tried again.
    pub(super) backoff: Backoff,
    /// Its copies count outcomes that are not recorded.
    pub(super) unsettled: Arc<()>,
    /// Its copies count marks in lanes.
    pub(super) marks: Arc<()>,
    pub(super) fenced: AtomicU64,
    pub(super) observe: Observe,
    pub(super) background: Background,
    in_flight: InFlight,
    /// Lanes and background that have trouble.
    pub(super) troubles: AtomicUsize,
}

/// A call failed.
pub(super) struct Failed {
    pub(super) text: String,
    /// It may go through later; otherwise the store has refused it.
    pub(super) is_transient: bool,
}

impl Transient for Failed {
    fn is_transient(&self) -> bool {
        self.is_transient
    }
}

/// As long as this lives, something is wrong, whatever goes through elsewhere.
pub(super) struct Trouble<'a>(&'a AtomicUsize);

impl Drop for Trouble<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Flush for Recorder {
    type Item = Entry;
    type Answer = ();
    const LIMITS: Limits = Limits { waiting: 4_000, items: 1_000, weight: WEIGHT_MAX };

    fn weight(entry: &Entry) -> usize {
        entry.weight()
    }

    async fn flush(self: &Arc<Self>, origin: Origin<Self>, entries: Vec<Entry>) -> Vec<()> {
        let answers = vec![(); entries.len()];
        let outcomes = entries.into_iter().filter_map(|entry| match entry {
            Entry::Settle { settlement, unsettled } => Some((settlement, unsettled)),
            Entry::Mark { .. } => None,
        });
        let batch: Batch = outcomes.collect();
        for part in batch.by_follow_ups() {
            self.record_guarded(&origin, part).await;
        }
        answers
    }
}

impl Recorder {
    pub(super) fn new(
        store: Arc<dyn Store>,
        board: Arc<Board>,
        lease: Arc<Lease>,
        (backoff, observe): (Backoff, Observe),
    ) -> Self {
        Self {
            store,
            in_flight: InFlight::new(Arc::clone(&board)),
            board,
            lease,
            backoff,
            unsettled: Arc::default(),
            marks: Arc::default(),
            fenced: AtomicU64::default(),
            observe,
            background: Background::default(),
            troubles: AtomicUsize::default(),
        }
    }

    /// Records outcomes; a panic around that ends no lane.
    async fn record_guarded(self: &Arc<Self>, origin: &Origin<Self>, batch: Batch) {
        let _flush = self.in_flight.begin();
        let mut leases: Vec<LeaseId> = batch.attempts().iter().map(|ctx| ctx.inner().claimed.lease).collect();
        leases.dedup();
        let recorded = AssertUnwindSafe(self.record(origin, batch)).catch_unwind().await;
        if let Err(panic) = recorded {
            self.panicked(&panic_text(&*panic));
            // Which of them were recorded is not known.
            leases.into_iter().for_each(|lease| self.lease.retire(lease));
        }
    }

    /// Records outcomes, and then failures for those whose output or follow-ups are refused.
    async fn record(self: &Arc<Self>, origin: &Origin<Self>, batch: Batch) {
        let mut parts = vec![batch];
        // A completion may be refused, then the job that follows its failure; a failure alone is not.
        for _ in 0..REFUSALS_MAX {
            let mut refused = Batch::default();
            for part in mem::take(&mut parts) {
                refused.append(match origin {
                    Origin::Shared(queues) => self.write_together(queues, part).await,
                    Origin::Queue => self.write_queue(part).await,
                });
            }
            if refused.is_empty() {
                return;
            }
            parts = refused.by_follow_ups();
        }
        parts.iter().flat_map(Batch::attempts).for_each(|attempt| self.give_up(attempt));
    }

    /// Writes a batch by one store call.
    pub(super) async fn write_once(&self, batch: &Batch) -> Result<Vec<Answered>, Failed> {
        self.write_by(Right::Fence, batch).await.map_err(|error| {
            self.mark_unknown(batch, &error);
            Failed { text: error.to_string(), is_transient: error.is_transient() }
        })
    }

    /// Writes a batch by one store call, by the fence or late.
    pub(super) async fn write_by(&self, right: Right, batch: &Batch) -> StoreResult<Vec<Answered>> {
        let span = Settling::begin(batch.attempts().iter().map(|attempt| &**attempt));
        let written = self.write_batch(right, batch).await;
        span.end(written.is_err());
        written
    }

    async fn write_batch(&self, right: Right, batch: &Batch) -> StoreResult<Vec<Answered>> {
        if let Some(items) = batch.followed() {
            let written = self.guarded(write_followed(&*self.store, right, items)).await?;
            return Ok(written.into_iter().zip(batch.ids()).map(Answered::from).collect());
        }
        let settled = self.guarded(write_plain(&*self.store, right, batch.settlements())).await?;
        Ok(settled.into_iter().zip(batch.ids()).map(Answered::from).collect())
    }

    /// When an answer was lost, the outcomes may have been recorded.
    pub(super) fn mark_unknown(&self, batch: &Batch, error: &StoreError) {
        if error.kind() == StoreErrorKind::Unknown {
            self.lease.note_failure(error);
            let attempts = batch.attempts().iter();
            attempts.for_each(|ctx| ctx.inner().is_perhaps_recorded.store(true, Ordering::Relaxed));
        }
    }

    /// A store call; a panic in it is a lost answer.
    pub(super) async fn guarded<T>(
        &self,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        self.observe.call(Call::Settle, self.board.guard(Part::Settler, call)).await
    }

    /// Waits after a failure, or until the store answers again: outcomes that wait for longer than a lease lives are urgent,
    /// and a lease that was opened since is the first sign.
    pub(super) async fn pause(&self, pause: Duration, openings: u64) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = self.lease.opened_since(openings) => {}
        }
    }

    /// The store has answered.
    pub(super) async fn answered(&self, batch: Batch, answers: Vec<Answered>) -> Batch {
        self.success();
        self.handle_answers(batch, answers).await
    }

    /// Something went through. The board hears of it when nothing else has trouble.
    pub(super) fn success(&self) {
        if self.troubles.load(Ordering::Relaxed) == 0 {
            self.board.success(Part::Settler);
        }
    }

    /// Outcomes of one queue were not recorded.
    pub(super) fn failure(&self, batch: &Batch, failed: &Failed) {
        let Some(first) = batch.attempts().first() else { return };
        self.board.failure(Part::Settler, &format!("queue {}: {}", first.queue(), failed.text));
    }

    pub(super) fn trouble(&self) -> Trouble<'_> {
        self.troubles.fetch_add(1, Ordering::Relaxed);
        Trouble(&self.troubles)
    }

    pub(super) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    fn panicked(&self, text: &str) {
        self.board.restart(Part::Settler, text);
        self.board.failure(Part::Settler, text);
    }
}
