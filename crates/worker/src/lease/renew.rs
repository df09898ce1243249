//! Renewals, what they tell, and what is done when they come too late.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use windlass_core::bell::Cancels;
use windlass_core::store::Renewal;
use windlass_core::{Fence, JobId, LeaseId, Name, Outcome};

use super::Held;
use super::keeper::{Keeper, Summary, owned};
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::health::Part;
use crate::observe::Call;
use crate::retries::backoff;

/// The least time between renewals that cancel requests ask for.
const RING_GAP: Duration = Duration::from_millis(5);
/// A cancel request whose job was not found here is asked for again.
const MISSED_AGAIN: Duration = Duration::from_millis(100);

impl Keeper {
    /// Renews until `over` says why not to, and answers that with the lease as it is then; nothing comes back when the
    /// lease is lost before.
    pub(super) async fn renew_until<T>(
        self: &Arc<Self>,
        mut held: Held,
        over: impl Future<Output = T>,
    ) -> Option<(T, Held)> {
        let mut cancels = self.store.bell().listen_for_cancels();
        // At once, for a cancel request that came before this listened.
        let mut next = Instant::now();
        // A store names a queue each time once the lease is lost there.
        let mut lost_before = Vec::new();
        tokio::pin!(over);
        loop {
            self.board.expect_within(Part::Lease, Some(self.config.ttl / 3));
            let last = Instant::now();
            tokio::select! {
                biased;
                () = sleep_until(held.deadline) => return None,
                over = &mut over => return Some((over, held)),
                () = sleep_until(next) => {}
                () = self.lease.verify_now.notified(), if self.lease.is_current(held.id) => {}
                () = self.asked_to_stop(&mut cancels) => sleep_until(last + RING_GAP).await,
            }
            let summary;
            (summary, next) = self.renew_once(&mut held, &mut lost_before).await;
            if summary == Summary::Lost {
                return None;
            }
        }
    }

    /// One renewal, and when the next one is due.
    pub(super) async fn renew_once(
        self: &Arc<Self>,
        held: &mut Held,
        lost_before: &mut Vec<Name>,
    ) -> (Summary, Instant) {
        let (sent, ttl) = (Instant::now(), self.config.ttl);
        let (store, id, limit) = (Arc::clone(&self.store), held.id, self.attempts.slots().held_max());
        let renewed = tokio::select! {
            biased;
            renewed = self.observe.call(Call::Renew, owned(async move { store.renew(id, ttl, limit).await })) => renewed,
            () = sleep_until(held.deadline) => return (Summary::Lost, sent),
        };
        match renewed {
            Ok(Renewal::Renewed { cancel, mut lost }) => {
                held.deadline = self.local_deadline(sent);
                self.note_renewal(*held);
                if self.lease.may_retire(id) && self.lease.was_away.swap(false, Ordering::Relaxed) {
                    self.lease.retire(id);
                }
                lost.retain(|queue| !lost_before.contains(queue));
                self.lose_queues(held.id, &lost);
                lost_before.append(&mut lost);
                let is_missed = !self.cancel(&cancel);
                let next = sent + if is_missed { MISSED_AGAIN.min(ttl / 3) } else { ttl / 3 };
                (Summary::Held, next)
            }
            Ok(Renewal::Lost) => (Summary::Lost, sent),
            Err(error) => {
                self.lease.note_failure(&error);
                let failures = self.board.failure(Part::Lease, &error.to_string());
                (Summary::Failed, Instant::now() + backoff(failures).min(ttl / 10))
            }
        }
    }

    /// Waits until a job of this worker is asked to stop.
    async fn asked_to_stop(&self, cancels: &mut Cancels) {
        loop {
            let jobs = cancels.rung().await;
            if self.attempts.slots().is_asked_to_stop(&jobs) {
                return;
            }
        }
    }

    /// Until when a lease that was last renewed by a call sent then is surely alive.
    pub(super) fn local_deadline(&self, sent: Instant) -> Instant {
        sent + self.config.ttl - self.config.ttl / 10
    }

    fn note_renewal(&self, renewed: Held) {
        self.board.success(Part::Lease);
        let mut held = self.lease.held();
        if held.is_some_and(|held| held.id == renewed.id) {
            *held = Some(renewed);
        }
    }

    /// Tells attempts that their jobs are to be cancelled, and answers whether all of them were found.
    fn cancel(self: &Arc<Self>, requests: &[(JobId, Fence)]) -> bool {
        let mut found_all = true;
        for (id, fence) in requests {
            let mut slots = self.attempts.slots();
            let is_it = |ctx: &&Ctx| ctx.id() == *id && ctx.fence() == *fence;
            if let Some(ctx) = slots.running().find(is_it) {
                ctx.inner().control.stop(Stop::Requested);
            } else if let Some(ctx) = slots.take(*id) {
                let settler = Arc::clone(&self.attempts.settler);
                // Not here: a full lane must not keep the lease from being renewed.
                let cancelled = async move { settler.settle(&ctx, Outcome::Cancelled).await };
                self.attempts.runtime.spawn(cancelled);
            } else {
                found_all = false;
            }
        }
        found_all
    }

    /// Lets go of the jobs of queues where the lease is lost. Their next jobs are claimed under another lease; what came
    /// from the other queues stays under this one.
    fn lose_queues(&self, id: LeaseId, queues: &[Name]) {
        if queues.is_empty() {
            return;
        }
        for queue in queues {
            tracing::error!(lease = %id, %queue, "lost the lease in a queue: stopping its attempts from there");
            self.attempts.slots().lease_lost_in(id, queue);
        }
        self.lease.retire(id);
    }

    /// Lets go of all jobs of a lost lease.
    pub(super) fn lose(self: &Arc<Self>, id: LeaseId) {
        tracing::error!(lease = %id, "lost the lease: stopping its attempts");
        if self.lease.held().take_if(|held| held.id == id).is_some() {
            self.lease.lost.fetch_add(1, Ordering::Relaxed);
        }
        self.board.failure(Part::Lease, "the lease was lost");
        self.attempts.slots().lease_lost(id);
        // If the store still takes it for alive, others need not wait until it has run out.
        let keeper = Arc::clone(self);
        tokio::spawn(async move {
            let closed = keeper.store.close(id).await;
            closed.unwrap_or_else(|error| tracing::debug!(%error, "could not close the lost lease"));
            keeper.attempts.wakers.reaper.notify_one();
        });
    }
}
