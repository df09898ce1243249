//! The lease: proof that this worker lives, kept by a thread of its own with a runtime of its own, so that no
//! handler can starve it.
//!
//! A renewal that fails means nothing until the local deadline: the instant at which the last successful one
//! was *sent*, plus the lease, minus a margin. Then, or when the store says so, the lease is lost: attempts are
//! stopped, what they come to is dropped, a new lease is opened, and the worker goes on.
//!
//! When an outcome cannot be recorded, or the lease no longer lives in one of its queues, the lease is *retired*: new
//! jobs are claimed under a new one, the old one is kept until everything that we know to hang on it is recorded,
//! and then closed, so that the rest can be taken back.

mod renew;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout};
use windlass_core::store::{NewLease, StoreResult};
use windlass_core::{LeaseId, StoreError};

use crate::engine::Engine;
use crate::supervise::{Part, backoff, panic_text};

/// What other parts may ask of the lease thread.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    held: Mutex<Option<Held>>,
    lost: AtomicU64,
    opened: watch::Sender<Opened>,
    doubted: Notify,
    retired: Notify,
    /// Retired leases that are still kept.
    retiring: watch::Sender<Vec<LeaseId>>,
    end: watch::Sender<End>,
}

/// Leases that were opened.
#[derive(Debug, Clone, Copy, Default)]
struct Opened {
    count: u64,
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

/// Why the current lease is no longer renewed as such.
enum Over {
    Ended(End),
    Retired,
}

/// How long workers have to record what they did before lost jobs are taken back.
const RECOVERY: Duration = Duration::from_secs(1);
/// How long claims wait for outcomes at most. Longer than recording takes, since what is in the way of one outcome does
/// not hold up work for ever.
const RECORDING: Duration = Duration::from_secs(5);
const CLOSE_MAX: Duration = Duration::from_secs(3);
/// How often it is looked whether a retired lease can be closed.
const RETIRED_LOOK: Duration = Duration::from_millis(50);

impl Lease {
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

    /// Waits until more leases have been opened: the store is there again.
    pub(crate) async fn opened_since(&self, openings: u64) {
        let mut opened = self.opened.subscribe();
        if opened.wait_for(|opened| opened.count > openings).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The store did not know this lease: look at once.
    pub(crate) fn doubt(&self, lease: LeaseId) {
        if self.is_current(lease) {
            self.doubted.notify_one();
        }
    }

    /// Jobs that nobody runs may hang on this lease: claim under another one.
    pub(crate) fn retire(&self, lease: LeaseId) {
        if self.is_current(lease) {
            self.retired.notify_one();
        }
    }

    /// Ends the thread. The first word counts.
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

/// Starts the thread. What comes back is answered when it has ended.
pub(crate) fn spawn(engine: Arc<Engine>) -> oneshot::Receiver<()> {
    let (ended, end) = oneshot::channel();
    let keep = move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime with only a timer needs nothing that could fail");
        while let Err(panic) =
            catch_unwind(AssertUnwindSafe(|| runtime.block_on(engine.watching(engine.keep_lease()))))
        {
            let text = panic_text(&*panic);
            engine.board.restart(Part::Lease, &text);
            engine.board.failure(Part::Lease, &text);
            std::thread::sleep(Duration::from_millis(20));
        }
        runtime.shutdown_background();
        let _ = ended.send(());
    };
    std::thread::Builder::new()
        .name("windlass-lease".into())
        .spawn(keep)
        .expect("the system has room for one more thread");
    end
}

impl Engine {
    /// Holds a lease until the worker ends.
    async fn keep_lease(self: &Arc<Self>) {
        loop {
            let known = *self.lease.held();
            let held = match known {
                Some(held) => held,
                None => match self.open_lease().await {
                    Some(held) => held,
                    None => return self.until_retired().await,
                },
            };
            let over = async {
                tokio::select! {
                    end = self.lease.ending() => Over::Ended(end),
                    () = self.lease.retired.notified() => Over::Retired,
                }
            };
            match self.renew_until(held, over).await {
                Some(Over::Ended(end)) => {
                    *self.lease.held() = None;
                    self.board.expect_within(Part::Lease, None);
                    self.close_lease(held.id, end).await;
                    return self.until_retired().await;
                }
                Some(Over::Retired) => self.retire_lease(held.id),
                None => self.lose_lease(held.id),
            }
        }
    }

    /// Opens a lease, however often it takes. Nothing comes back when the worker ends first.
    async fn open_lease(self: &Arc<Self>) -> Option<Held> {
        loop {
            // A fresh id each time: one that was opened without our hearing of it runs out unused.
            let id = LeaseId::new();
            let (worker, ttl) = (self.config.name.clone(), self.config.lease);
            let lease = NewLease { id, worker, ttl, queues: self.config.queue_names() };
            let sent = Instant::now();
            let store = Arc::clone(self.store());
            let opened = tokio::select! {
                opened = owned(async move { store.open(&lease).await }) => opened,
                _ = self.lease.ending() => return None,
            };
            let error = match opened {
                Ok(()) => {
                    let held = Held { id, deadline: self.local_deadline(sent) };
                    *self.lease.held() = Some(held);
                    self.lease.opened.send_modify(|opened| {
                        opened.count += 1;
                        opened.after_loss = (self.lease.lost() > 0).then(Instant::now);
                    });
                    self.floor().lease_opened(id);
                    self.board.success(Part::Lease);
                    tracing::info!(lease = %id, worker = self.config.name, "opened a lease");
                    self.hungry.notify_one();
                    self.lost.notify_one();
                    return Some(held);
                }
                Err(error) => error,
            };
            let failures = self.board.failure(Part::Lease, &error.to_string());
            tokio::select! {
                () = tokio::time::sleep(backoff(failures)) => {}
                _ = self.lease.ending() => return None,
            }
        }
    }

    /// Keeps a lease beside the next one, until all that is known to hang on it is recorded.
    fn retire_lease(self: &Arc<Self>, id: LeaseId) {
        let mut current = self.lease.held();
        let Some(held) = *current else { return };
        // Kept without a gap: what looks after its jobs asks whether it is.
        self.lease.retiring.send_modify(|leases| leases.push(id));
        *current = None;
        drop(current);
        tracing::warn!(lease = %id, "jobs that nobody runs may hang on the lease: opening another one");
        self.floor().lease_retired();
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let kept = AssertUnwindSafe(engine.keep_retired(held)).catch_unwind().await;
            // A panic means that nobody renews it any more.
            kept.unwrap_or_else(|_panic| engine.lose_lease(held.id));
            engine.lease.retiring.send_modify(|leases| leases.retain(|lease| *lease != id));
            engine.lost.notify_one();
        });
    }

    async fn keep_retired(self: &Arc<Self>, held: Held) {
        let recorded = async {
            while self.floor().holds(held.id) {
                tokio::time::sleep(RETIRED_LOOK).await;
            }
            self.settler.flushed().await;
        };
        let over = async {
            tokio::select! {
                () = recorded => End::Close,
                end = self.lease.ending() => end,
            }
        };
        match self.renew_until(held, over).await {
            Some(end) => self.close_lease(held.id, end).await,
            None => self.lose_lease(held.id),
        }
    }

    /// Waits for retired leases to be closed at the end.
    async fn until_retired(&self) {
        let mut retiring = self.lease.retiring.subscribe();
        let _ = timeout(CLOSE_MAX, retiring.wait_for(Vec::is_empty)).await;
    }

    async fn close_lease(&self, id: LeaseId, end: End) {
        if end == End::Leave {
            return;
        }
        let store = Arc::clone(self.store());
        match timeout(CLOSE_MAX, owned(async move { store.close(id).await })).await {
            Ok(Ok(())) => tracing::info!(lease = %id, "closed the lease"),
            Ok(Err(error)) => {
                tracing::warn!(lease = %id, %error, "could not close the lease; it runs out by itself");
            }
            Err(_late) => {
                tracing::warn!(lease = %id, "closing the lease took too long; it runs out by itself");
            }
        }
    }
}

/// Runs a store call to its end, whether or not somebody still waits for it.
async fn owned<T: Send + 'static>(
    call: impl Future<Output = StoreResult<T>> + Send + 'static,
) -> StoreResult<T> {
    let called = tokio::spawn(AssertUnwindSafe(call).catch_unwind()).await;
    match called {
        Ok(Ok(answer)) => answer,
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_cancelled) => {
            Err(StoreError::Unavailable { what: "the lease thread is ending".into(), source: None })
        }
    }
}
