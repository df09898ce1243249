//! The lease: proof that this worker lives, kept by a thread of its own with a runtime of its own, so that no
//! handler can starve it.
//!
//! A renewal that fails means nothing until the local deadline: the instant at which the last successful one
//! was *sent*, plus the lease, minus a margin. Then, or when the store says so, the lease is lost: attempts are
//! stopped, what they come to is dropped, a new lease is opened, and the worker goes on.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, sleep_until};
use windlass_core::bell::Topic;
use windlass_core::store::{NewLease, Renewal, StoreResult};
use windlass_core::{Fence, JobId, LeaseId, Outcome, StoreError};

use crate::ctx::control::Stop;
use crate::engine::Engine;
use crate::supervise::{Part, backoff, panic_text};

/// What other parts may ask of the lease thread.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    held: Mutex<Option<Held>>,
    lost: AtomicU64,
    doubt: Notify,
    end: watch::Sender<End>,
}

/// The lease that is held, and when it is to be taken for lost.
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

/// Renewals that cancel requests ask for are no closer than this.
const RING_GAP: Duration = Duration::from_millis(5);
/// A cancel request whose job was not found here is asked for again.
const MISSED_AGAIN: Duration = Duration::from_millis(100);
const CLOSE_MAX: Duration = Duration::from_secs(5);

impl Lease {
    /// How many leases have been lost.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// The store did not know this lease: look at once.
    pub(crate) fn doubt(&self, lease: LeaseId) {
        if self.held().is_some_and(|held| held.id == lease) {
            self.doubt.notify_one();
        }
    }

    /// Ends the thread.
    pub(crate) fn end(&self, end: End) {
        self.end.send_replace(end);
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
        while let Err(panic) = catch_unwind(AssertUnwindSafe(|| runtime.block_on(engine.keep_lease()))) {
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
                    None => return,
                },
            };
            match self.renew_until_lost(held).await {
                Some(end) => return self.close_lease(held.id, end).await,
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

    /// Renews until the worker ends, or, when nothing comes back, the lease is lost.
    async fn renew_until_lost(self: &Arc<Self>, mut held: Held) -> Option<End> {
        let ttl = self.config.lease;
        let mut cancels = self.store().bell().listen(Topic::Cancel);
        let mut next = Instant::now() + ttl / 3;
        loop {
            self.board.expect_within(Part::Lease, Some(ttl / 3));
            let last = Instant::now();
            tokio::select! {
                biased;
                () = sleep_until(held.deadline) => return None,
                end = self.lease.ending() => return Some(end),
                () = sleep_until(next) => {}
                () = self.lease.doubt.notified() => {}
                () = cancels.rung() => sleep_until(last + RING_GAP).await,
            }
            let sent = Instant::now();
            let (store, id, limit) = (Arc::clone(self.store()), held.id, self.config.held_max());
            let renewed = tokio::select! {
                biased;
                renewed = owned(async move { store.renew(id, ttl, limit).await }) => renewed,
                () = sleep_until(held.deadline) => return None,
            };
            match renewed {
                Ok(Renewal::Renewed { cancel }) => {
                    held.deadline = self.local_deadline(sent);
                    *self.lease.held() = Some(held);
                    self.board.success(Part::Lease);
                    let is_missed = !self.cancel(&cancel);
                    next = sent + if is_missed { MISSED_AGAIN.min(ttl / 3) } else { ttl / 3 };
                }
                Ok(Renewal::Lost) => return None,
                Err(error) => {
                    let failures = self.board.failure(Part::Lease, &error.to_string());
                    next = Instant::now() + backoff(failures).min(ttl / 10);
                }
            }
        }
    }

    /// Until when a lease that was last renewed by a call sent then is surely ours.
    fn local_deadline(&self, sent: Instant) -> Instant {
        sent + self.config.lease - self.config.lease / 10
    }

    /// Tells attempts that somebody asked for them to stop, and whether all of them were found.
    fn cancel(self: &Arc<Self>, requests: &[(JobId, Fence)]) -> bool {
        let mut found_all = true;
        for (id, fence) in requests {
            let mut floor = self.floor();
            let is_it = |ctx: &&crate::Ctx| ctx.id() == *id && ctx.fence() == *fence;
            if let Some(ctx) = floor.running().find(is_it) {
                ctx.inner().control.stop(Stop::Requested);
            } else if let Some(ctx) = floor.take(*id) {
                let engine = Arc::clone(self);
                // Not here: a full lane must not keep the lease from being renewed.
                self.runtime.spawn(async move { engine.settler.settle(&ctx, Outcome::Cancelled).await });
            } else {
                found_all = false;
            }
        }
        found_all
    }

    /// Lets go of everything that hung on a lost lease.
    fn lose_lease(self: &Arc<Self>, id: LeaseId) {
        tracing::error!(lease = %id, "lost the lease: stopping its attempts and opening a new one");
        *self.lease.held() = None;
        self.lease.lost.fetch_add(1, Ordering::Relaxed);
        self.board.failure(Part::Lease, "the lease was lost");
        self.floor().lease_lost();
        // If the store still takes it for alive, others need not wait until it has run out.
        let engine = Arc::clone(self);
        tokio::spawn(async move {
            let closed = engine.store().close(id).await;
            closed.unwrap_or_else(|error| tracing::debug!(%error, "could not close the lost lease"));
            engine.lost.notify_one();
        });
    }

    async fn close_lease(&self, id: LeaseId, end: End) {
        self.board.expect_within(Part::Lease, None);
        *self.lease.held() = None;
        if end == End::Leave {
            return;
        }
        let store = Arc::clone(self.store());
        match tokio::time::timeout(CLOSE_MAX, owned(async move { store.close(id).await })).await {
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
