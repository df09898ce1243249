//! Holds the lease of a worker until the worker ends.
//!
//! A renewal that fails means nothing until the local deadline: the instant at which the last successful one was *sent*,
//! plus the lease, minus a margin. Then, or when the store says so, the lease is lost: attempts are stopped, what they
//! come to is dropped, a new lease is opened, and the worker goes on.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::{Instant, timeout};
use windlass_core::backoff::with_retries;
use windlass_core::store::StoreResult;
use windlass_core::{LeaseId, Store, StoreError};

use super::{Config, End, Held, Lease};
use crate::attempts::Attempts;
use crate::health::Part;
use crate::observe::Observe;
use crate::retries::endless;
use crate::supervise::Board;

/// How long closing a lease may take.
const CLOSE_MAX: Duration = Duration::from_secs(3);
/// After how many times its length a lease is retired, so that whatever hangs on it by mistake is found.
const OLD_AFTER: u32 = 20;
/// How often it is looked whether a retired lease can be closed.
const RETIRED_INTERVAL: Duration = Duration::from_millis(50);

/// Opens, renews, retires and closes the leases of a worker.
pub(crate) struct Keeper {
    pub(super) config: Config,
    pub(super) store: Arc<dyn Store>,
    pub(super) lease: Arc<Lease>,
    pub(super) attempts: Arc<Attempts>,
    pub(super) board: Arc<Board>,
    pub(super) observe: Observe,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Summary {
    /// A lease was opened or renewed just now.
    Held,
    /// The store did not answer; the lease is as it was.
    Failed,
    /// The lease is gone.
    Lost,
}

/// Why the current lease is not renewed any more.
enum Over {
    Ended(End),
    Retired,
    Old,
}

impl Keeper {
    pub(crate) fn new(
        config: Config,
        store: Arc<dyn Store>,
        lease: Arc<Lease>,
        attempts: Arc<Attempts>,
        (board, observe): (Arc<Board>, Observe),
    ) -> Self {
        Self { config, store, lease, attempts, board, observe }
    }

    /// Opens a lease, or renews the one that is held: one store call.
    #[cfg(test)]
    pub(crate) async fn run_once(self: &Arc<Self>) -> Summary {
        let held = *self.lease.held();
        let Some(mut held) = held else {
            return if self.open_once().await.is_ok() { Summary::Held } else { Summary::Failed };
        };
        let (summary, _next) = self.renew_once(&mut held, &mut Vec::new()).await;
        if summary == Summary::Lost {
            self.lose(held.id);
        }
        summary
    }

    /// Holds a lease until [`Lease::end`] is called. Runs on the lease thread.
    pub(crate) async fn run(self: &Arc<Self>) {
        loop {
            let known = *self.lease.held();
            let held = match known {
                Some(held) => held,
                None => match self.open().await {
                    Some(held) => held,
                    None => return self.until_retired().await,
                },
            };
            let over = async {
                tokio::select! {
                    end = self.lease.ending() => Over::Ended(end),
                    () = self.lease.until_retired(held.id) => Over::Retired,
                    () = self.until_old() => Over::Old,
                }
            };
            let end = match self.renew_until(held, over).await {
                Some((Over::Ended(end), _)) => Some(end),
                Some((Over::Retired, held)) => {
                    tracing::warn!(lease = %held.id, "the lease may have jobs that do not run here: opening another one");
                    self.retire(held).await
                }
                Some((Over::Old, held)) => self.retire(held).await,
                None => {
                    self.lose(held.id);
                    None
                }
            };
            if let Some(end) = end {
                *self.lease.held() = None;
                self.board.expect_within(Part::Lease, None);
                self.close(held.id, end).await;
                return self.until_retired().await;
            }
        }
    }

    /// Opens a lease, however often it takes. Nothing comes back when the worker ends first.
    async fn open(self: &Arc<Self>) -> Option<Held> {
        let pause = |_error: &StoreError, pause: Duration| async move {
            tokio::select! {
                () = tokio::time::sleep(pause) => true,
                _ = self.lease.ending() => false,
            }
        };
        let mut retries = endless().refusals_max(u32::MAX);
        tokio::select! {
            opened = with_retries(&mut retries, || self.open_once(), pause) => opened.ok(),
            _ = self.lease.ending() => None,
        }
    }

    async fn open_once(self: &Arc<Self>) -> StoreResult<Held> {
        // A fresh id each time: one whose answer was lost runs out unused.
        let id = LeaseId::new();
        let (new, sent) = (self.config.new_lease(id), Instant::now());
        let store = Arc::clone(&self.store);
        let opened = owned(async move { store.open(&new).await }).await;
        opened.inspect_err(|error| {
            self.board.failure(Part::Lease, &error.to_string());
        })?;
        let held = Held { id, deadline: self.local_deadline(sent) };
        *self.lease.held() = Some(held);
        self.lease.was_away.store(false, Ordering::Relaxed);
        self.lease.opened.send_modify(|opened| {
            opened.count += 1;
            if self.lease.lost() > opened.lost_before {
                opened.lost_before = self.lease.lost();
                opened.after_loss = Some(Instant::now());
            }
        });
        self.attempts.slots().lease_opened(id);
        self.board.success(Part::Lease);
        tracing::info!(lease = %id, worker = self.config.worker, "opened a lease");
        self.attempts.wakers.fetcher.notify_one();
        self.attempts.wakers.reaper.notify_one();
        Ok(held)
    }

    /// Waits until the lease is old, and no other one is retired.
    async fn until_old(&self) {
        tokio::time::sleep(self.config.ttl.saturating_mul(OLD_AFTER)).await;
        let _ = self.lease.retiring.subscribe().wait_for(Vec::is_empty).await;
    }

    /// Opens another lease in the place of this one, and keeps this one beside it until all of its known jobs are
    /// recorded. Until then jobs are claimed under this one. Answers how to end, if the worker ends before.
    async fn retire(self: &Arc<Self>, held: Held) -> Option<End> {
        let id = held.id;
        // Kept without a gap: the reconciler asks whether it is.
        self.lease.retiring.send_modify(|leases| leases.push(id));
        let opened = self.renew_until(held, self.open()).await;
        let Some((Some(_next), held)) = opened else {
            self.lease.retiring.send_modify(|leases| leases.retain(|lease| *lease != id));
            if opened.is_some() {
                return Some(self.lease.ending().await);
            }
            self.lose(id);
            return None;
        };
        let keeper = Arc::clone(self);
        tokio::spawn(async move {
            let kept = AssertUnwindSafe(keeper.keep_retired(held)).catch_unwind().await;
            // A panic means that it is not renewed any more.
            kept.unwrap_or_else(|_panic| keeper.lose(id));
            keeper.lease.retiring.send_modify(|leases| leases.retain(|lease| *lease != id));
            keeper.attempts.wakers.reaper.notify_one();
        });
        None
    }

    async fn keep_retired(self: &Arc<Self>, held: Held) {
        let recorded = async {
            while self.attempts.slots().holds(held.id) {
                tokio::time::sleep(RETIRED_INTERVAL).await;
            }
            // Also what is repeated in the background: it may be of this lease.
            self.attempts.settler.run_once().await;
            while self.attempts.settler.has_background() {
                self.attempts.settler.run_once().await;
            }
        };
        let over = async {
            tokio::select! {
                () = recorded => End::Close,
                end = self.lease.ending() => end,
            }
        };
        match self.renew_until(held, over).await {
            Some((end, _)) => self.close(held.id, end).await,
            None => self.lose(held.id),
        }
    }

    /// Waits for retired leases to be closed at the end.
    async fn until_retired(&self) {
        let mut retiring = self.lease.retiring.subscribe();
        let _ = timeout(CLOSE_MAX, retiring.wait_for(Vec::is_empty)).await;
    }

    async fn close(&self, id: LeaseId, end: End) {
        if end == End::Leave {
            return;
        }
        let store = Arc::clone(&self.store);
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

/// Runs a store call to its end, also when its caller goes away.
pub(super) async fn owned<T: Send + 'static>(
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
