//! The lease: proof that this worker lives. The [`Keeper`] holds it, on a thread of its own with a runtime of its own, so
//! that no handler can starve it; other parts ask for it here.
//!
//! When an outcome cannot be recorded, or the lease is lost in one of its queues, the lease is *retired*: new jobs are
//! claimed under a new one, the old one is kept until all of its known jobs are recorded, and then closed, so that the
//! rest can be taken back. The same is done when the store was away, and when the lease is old: a server that loses what
//! it has answered (its disk lags behind, a replica takes over) has the jobs of the last moments running under a lease
//! whose worker is done with them.

mod keeper;
mod renew;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot, watch};
use tokio::time::Instant;
use windlass_core::store::NewLease;
use windlass_core::{LeaseId, Name, StoreError};

pub(crate) use self::keeper::Keeper;
#[cfg(test)]
pub(crate) use self::keeper::Summary;
use crate::error::ConfigError;
use crate::health::Part;
use crate::retries::panic_text;
use crate::supervise::Board;
use crate::watchdog::Watchdog;
use crate::worker::at_least_long;

/// What the lease of a worker says, and how long it lives without a renewal.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The worker's name.
    pub(crate) worker: String,
    pub(crate) queues: Vec<Name>,
    pub(crate) kinds: Vec<Name>,
    pub(crate) ttl: Duration,
}

impl Config {
    /// A lease to open.
    pub(crate) fn new_lease(&self, id: LeaseId) -> NewLease {
        let Self { worker, queues, kinds, ttl } = self.clone();
        NewLease { id, worker, ttl, queues, kinds }
    }

    /// Below `least` renewals would come too late on a busy machine.
    pub(crate) fn check(&self, least: Duration) -> Result<(), ConfigError> {
        at_least_long("lease", self.ttl, least.max(Duration::from_millis(10)))
    }
}

/// What other parts may ask of the lease thread.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    held: Mutex<Option<Held>>,
    lost: AtomicU64,
    opened: watch::Sender<Opened>,
    verify_now: Notify,
    /// The lease that is to be retired.
    retired: watch::Sender<Option<LeaseId>>,
    /// Whether the store was away since the lease was opened, and may have lost what it answered before.
    was_away: AtomicBool,
    /// Retired leases that are still kept.
    retiring: watch::Sender<Vec<LeaseId>>,
    end: watch::Sender<End>,
}

/// Leases that were opened.
#[derive(Debug, Clone, Copy, Default)]
struct Opened {
    count: u64,
    /// How many had been lost when one was last opened after a loss.
    lost_before: u64,
    /// When one was last opened after another was lost.
    after_loss: Option<Instant>,
}

/// A lease, and when it is to be taken for lost.
#[derive(Debug, Clone, Copy)]
struct Held {
    id: LeaseId,
    deadline: Instant,
}

/// How the thread should end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum End {
    /// Not yet.
    #[default]
    No,
    /// Close the lease, so that nothing has to wait for it.
    Close,
    /// Leave it to run out.
    Leave,
}

/// How long workers have to record what they did before lost jobs are taken back.
const RECOVERY: Duration = Duration::from_secs(1);
/// How long claims wait for outcomes at most. Longer than recording takes; one outcome that cannot be recorded must not
/// hold up work without end.
const RECORDING: Duration = Duration::from_secs(5);

impl Lease {
    /// For how long a renewal has been due, which comes after a third of the time that a lease lives; its whole time where no
    /// lease is held.
    #[cfg(feature = "metrics")]
    pub(crate) fn renew_lag(&self, ttl: Duration) -> Duration {
        let Some(held) = *self.held() else { return ttl };
        // The deadline is nine tenths of the time after the last renewal.
        let left = held.deadline.saturating_duration_since(Instant::now());
        (ttl - ttl / 10).saturating_sub(left).saturating_sub(ttl / 3)
    }

    /// How many leases have been lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Until when nothing should be reaped. A store that was away for longer than leases live finds all of them lost
    /// when it is back: what their workers have done meanwhile should be recorded before it is taken back.
    pub(crate) fn recovers_until(&self) -> Option<Instant> {
        self.opened.borrow().after_loss.map(|at| at + RECOVERY)
    }

    /// Until when nothing should be claimed while there are outcomes to record: the jobs that would be claimed may be
    /// those that have been done.
    pub(crate) fn records_until(&self) -> Option<Instant> {
        self.opened.borrow().after_loss.map(|at| at + RECORDING)
    }

    /// How many leases have been opened.
    pub(crate) fn openings(&self) -> u64 {
        self.opened.borrow().count
    }

    /// Waits until more leases have been opened: the store answers again.
    pub(crate) async fn opened_since(&self, openings: u64) {
        let mut opened = self.opened.subscribe();
        if opened.wait_for(|opened| opened.count > openings).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The store did not know this lease: renew it at once.
    pub(crate) fn verify(&self, lease: LeaseId) {
        if self.is_current(lease) {
            self.verify_now.notify_one();
        }
    }

    /// This lease may have jobs that do not run here: claim under another one.
    pub(crate) fn retire(&self, lease: LeaseId) {
        if self.is_current(lease) {
            self.retired.send_replace(Some(lease));
        }
    }

    /// A call has failed. If the store was away, the lease is retired when it answers again.
    pub(crate) fn note_failure(&self, error: &StoreError) {
        if error.is_transient() {
            self.was_away.store(true, Ordering::Relaxed);
        }
    }

    /// Waits until this lease is to be retired.
    async fn until_retired(&self, lease: LeaseId) {
        let mut retired = self.retired.subscribe();
        if retired.wait_for(|retired| *retired == Some(lease)).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Ends the thread. The first call counts.
    pub(crate) fn end(&self, end: End) {
        self.end.send_if_modified(|now| {
            let is_first = *now == End::No;
            *now = if is_first { end } else { *now };
            is_first
        });
    }

    /// Whether this lease is renewed: jobs are claimed under it, or it is retired.
    pub(crate) fn is_kept(&self, lease: LeaseId) -> bool {
        self.is_current(lease) || self.retiring.borrow().contains(&lease)
    }

    /// Whether another lease may take its place. One is retired at a time: long attempts keep it, and so does an outcome
    /// that cannot be recorded; there must not be many of them.
    fn may_retire(&self, lease: LeaseId) -> bool {
        self.is_current(lease) && self.retiring.borrow().is_empty()
    }

    /// Whether jobs are claimed under this lease.
    fn is_current(&self, lease: LeaseId) -> bool {
        self.held().is_some_and(|held| held.id == lease)
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ending(&self) -> End {
        let mut end = self.end.subscribe();
        end.wait_for(|end| *end != End::No).await.map_or(End::Leave, |end| *end)
    }
}

/// Starts the thread of the keeper and the watchdog. What comes back is answered when it has ended; `ended` is told first.
pub(crate) fn spawn(
    keeper: Arc<Keeper>,
    watchdog: Arc<Watchdog>,
    board: Arc<Board>,
    ended: watch::Sender<bool>,
) -> oneshot::Receiver<()> {
    let (gone, end) = oneshot::channel();
    let keep = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime with only a timer needs nothing that could fail");
        let watched = || async {
            tokio::select! {
                () = keeper.run() => {}
                () = watchdog.run() => {}
            }
            // The lease ends last.
            ended.send_replace(true);
        };
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| runtime.block_on(watched()))) {
            let text = panic_text(&*panic);
            board.restart(Part::Lease, &text);
            board.failure(Part::Lease, &text);
            std::thread::sleep(Duration::from_millis(20));
        }
        runtime.shutdown_background();
        let _ = gone.send(());
    };
    std::thread::Builder::new()
        .name("windlass-lease".into())
        .spawn(keep)
        .expect("the system has room for one more thread");
    end
}
