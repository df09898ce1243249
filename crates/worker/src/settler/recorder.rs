//! Records the outcomes of one lane after the other; see the drawing in [`super`].

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use futures_util::FutureExt;
use windlass_core::batch::{Limits, WEIGHT_MAX};
use windlass_core::store::{Settled, StoreResult};
use windlass_core::{LeaseId, Store, StoreError, StoreErrorKind};

use super::aside::Asides;
use super::batch::{Batch, Entry};
use super::flights::Flights;
use crate::lanes::{Flush, Origin, QueueLanes};
use crate::lease::Lease;
use crate::supervise::{Board, Part, backoff, panic_text};

pub(super) struct Recorder {
    pub(super) store: Arc<dyn Store>,
    pub(super) board: Arc<Board>,
    pub(super) lease: Arc<Lease>,
    /// Its copies count outcomes that are not recorded.
    pub(super) unsettled: Arc<()>,
    /// Its copies count marks in lanes.
    pub(super) marks: Arc<()>,
    pub(super) fenced: AtomicU64,
    pub(super) asides: Asides,
    flights: Flights,
    /// Lanes and asides that have trouble.
    pub(super) ailing: AtomicUsize,
}

/// A call failed.
pub(super) struct Failed {
    pub(super) text: String,
    /// It may pass; otherwise the store has refused it.
    pub(super) is_passing: bool,
}

/// As long as this lives, something is wrong, whatever goes through elsewhere.
pub(super) struct Ailing<'a>(&'a AtomicUsize);

impl Drop for Ailing<'_> {
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
        if !batch.is_empty() {
            let _flight = self.flights.begin();
            let mut leases: Vec<LeaseId> =
                batch.attempts().iter().map(|ctx| ctx.inner().landing.lease).collect();
            leases.dedup();
            let recorded = AssertUnwindSafe(self.record(origin, batch)).catch_unwind().await;
            if let Err(panic) = recorded {
                self.panicked(&panic_text(&*panic));
                // Which of them were recorded is not known.
                leases.into_iter().for_each(|lease| self.lease.retire(lease));
            }
        }
        answers
    }
}

impl Recorder {
    pub(super) fn new(store: Arc<dyn Store>, board: Arc<Board>, lease: Arc<Lease>) -> Self {
        Self {
            store,
            flights: Flights::new(Arc::clone(&board)),
            board,
            lease,
            unsettled: Arc::default(),
            marks: Arc::default(),
            fenced: AtomicU64::default(),
            asides: Asides::default(),
            ailing: AtomicUsize::default(),
        }
    }

    /// Records outcomes, and then failures for those whose output is refused.
    async fn record(self: &Arc<Self>, origin: Origin<Self>, batch: Batch) {
        let refused = match &origin {
            Origin::Shared(queues) => self.together(queues, batch).await,
            Origin::Queue => self.of_queue(batch).await,
        };
        if refused.is_empty() {
            return;
        }
        // Failures with short texts: none is refused again.
        match &origin {
            Origin::Shared(queues) => self.together(queues, refused).await,
            Origin::Queue => self.of_queue(refused).await,
        };
    }

    /// The shared lane: what fails, and fails again in halves, is left to the lanes of its queues.
    async fn together(self: &Arc<Self>, queues: &Arc<QueueLanes<Self>>, batch: Batch) -> Batch {
        let failed = match self.attempt(&batch).await {
            Ok(answers) => return self.recorded(batch, answers).await,
            Err(failed) => failed,
        };
        let failures = self.board.failure(Part::Settler, &failed.text);
        let mut refused = Batch::default();
        let parts = if batch.len() == 1 {
            vec![batch]
        } else {
            if failed.is_passing {
                tokio::time::sleep(backoff(failures.min(2))).await;
            }
            let mut rest = Vec::new();
            for half in batch.sorted().halves() {
                match self.attempt(&half).await {
                    Ok(answers) => refused.append(self.recorded(half, answers).await),
                    Err(_failed) => rest.push(half),
                }
            }
            rest
        };
        for (settlement, unsettled) in parts.into_iter().flatten() {
            let queue = settlement.queue.clone();
            if let Err(Entry::Settle { unsettled, .. }) =
                queues.take(&queue, Entry::Settle { settlement, unsettled })
            {
                self.give_up(&unsettled);
            }
        }
        refused
    }

    /// Asks the store once.
    pub(super) async fn attempt(&self, batch: &Batch) -> Result<Vec<Settled>, Failed> {
        match self.guarded(self.store.settle(batch.settlements())).await {
            Ok(answers) => Ok(answers),
            Err(error) => {
                self.doubt(batch, &error);
                Err(Failed { text: error.to_string(), is_passing: error.is_transient() })
            }
        }
    }

    /// When an answer was lost, the outcomes may have been recorded.
    pub(super) fn doubt(&self, batch: &Batch, error: &StoreError) {
        if error.kind() == StoreErrorKind::Unknown {
            let attempts = batch.attempts().iter();
            attempts.for_each(|ctx| ctx.inner().is_perhaps_recorded.store(true, Ordering::Relaxed));
        }
    }

    /// A store call; a panic in it is a lost answer.
    pub(super) async fn guarded<T>(
        &self,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|panic| {
            let what = panic_text(&*panic);
            self.board.restart(Part::Settler, &what);
            Err(StoreError::Unknown { what, source: None })
        })
    }

    /// Waits after a failure, or until the store is seen to be there: outcomes that wait for longer than a lease lives
    /// are in a hurry, and a lease that was opened since is the first sign of its return.
    pub(super) async fn rest(&self, failures: u32, openings: u64) {
        tokio::select! {
            () = tokio::time::sleep(backoff(failures)) => {}
            () = self.lease.opened_since(openings) => {}
        }
    }

    /// The store has answered.
    pub(super) async fn recorded(&self, batch: Batch, answers: Vec<Settled>) -> Batch {
        self.success();
        self.conclude(batch, answers).await
    }

    /// Something went through. The board hears of it when nothing else has trouble.
    pub(super) fn success(&self) {
        if self.ailing.load(Ordering::Relaxed) == 0 {
            self.board.success(Part::Settler);
        }
    }

    /// Outcomes of one queue were not recorded.
    pub(super) fn failure(&self, batch: &Batch, failed: &Failed) {
        let Some(first) = batch.attempts().first() else { return };
        self.board.failure(Part::Settler, &format!("queue {}: {}", first.queue(), failed.text));
    }

    pub(super) fn ail(&self) -> Ailing<'_> {
        self.ailing.fetch_add(1, Ordering::Relaxed);
        Ailing(&self.ailing)
    }

    pub(super) fn fenced(&self) -> u64 {
        self.fenced.load(Ordering::Relaxed)
    }

    fn panicked(&self, text: &str) {
        self.board.restart(Part::Settler, text);
        self.board.failure(Part::Settler, text);
    }
}
