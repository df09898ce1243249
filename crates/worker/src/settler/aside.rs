//! Outcomes that do not go through while others do: each is tried by itself, and holds up nothing.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::{LeaseId, Name};

use super::batch::Batch;
use super::recorder::Recorder;
use crate::ctx::Ctx;
use crate::lease::Lease;

/// How many outcomes of one queue are tried aside at the same time; further ones are given up.
const ASIDES_MAX: usize = 64;
/// How often an outcome that the store refuses for no passing reason is tried before it is given up.
const REFUSALS_MAX: u32 = 5;
/// How often they are tried at least while they are waited for.
const HURRY_INTERVAL: Duration = Duration::from_secs(1);
/// Leases are retired for outcomes that were given up no more often than this: a queue that refuses everything must not
/// keep the worker from claiming for others.
const RETIRE_INTERVAL: Duration = Duration::from_secs(5);

/// Those that are tried.
#[derive(Default)]
pub(super) struct Asides {
    queues: Mutex<HashMap<Name, usize>>,
    count: watch::Sender<usize>,
    /// Ends their pauses.
    hurry: Notify,
    /// The lease that was last retired or will be next, and when.
    retired: Mutex<Option<(LeaseId, Instant)>>,
}

/// One that is tried, as long as this lives.
struct Aside {
    recorder: Arc<Recorder>,
    queue: Name,
}

impl Aside {
    /// Nothing if there are enough of the queue.
    fn enter(recorder: &Arc<Recorder>, queue: &Name) -> Option<Self> {
        if !recorder.asides.enter(queue) {
            return None;
        }
        // From here on, not from when its task first runs: between the two nothing must look well.
        recorder.ailing.fetch_add(1, Ordering::Relaxed);
        Some(Self { recorder: Arc::clone(recorder), queue: queue.clone() })
    }
}

impl Asides {
    /// Has them tried now and then until none is left.
    pub(super) async fn ended(&self) {
        let mut count = self.count.subscribe();
        loop {
            self.hurry.notify_waiters();
            if timeout(HURRY_INTERVAL, count.wait_for(|count| *count == 0)).await.is_ok() {
                return;
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self, queue: &Name) -> usize {
        ASIDES_MAX - self.queues().get(queue).copied().unwrap_or(0)
    }

    /// Whether there was room.
    fn enter(&self, queue: &Name) -> bool {
        let mut queues = self.queues();
        let count = queues.entry(queue.clone()).or_default();
        if *count >= ASIDES_MAX {
            return false;
        }
        *count += 1;
        self.count.send_modify(|count| *count += 1);
        true
    }

    fn leave(&self, queue: &Name) {
        let mut queues = self.queues();
        if let Some(count) = queues.get_mut(queue) {
            *count -= 1;
            if *count == 0 {
                queues.remove(queue);
            }
        }
        self.count.send_modify(|count| *count -= 1);
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        self.recorder.ailing.fetch_sub(1, Ordering::Relaxed);
        self.recorder.asides.leave(&self.queue);
    }
}

impl Recorder {
    /// Whether all of these, which are of one queue, can go aside.
    pub(super) fn has_room_aside(&self, batch: &Batch) -> bool {
        let first = batch.attempts().first();
        first.is_some_and(|ctx| batch.len() <= self.asides.room(ctx.queue()))
    }

    /// Tries each of these outcomes by itself; those that there is no room for are given up.
    pub(super) fn aside(self: &Arc<Self>, batch: Batch) {
        for (settlement, attempt) in batch {
            let Some(place) = Aside::enter(self, &settlement.queue) else {
                self.give_up(&attempt);
                continue;
            };
            tracing::warn!(
                job.id = %attempt.id(), job.kind = %attempt.kind(), job.queue = %settlement.queue,
                "something is in the way of the outcome"
            );
            let recorder = Arc::clone(self);
            tokio::spawn(async move {
                let is_recorded = recorder.insist(Batch::one(settlement, attempt)).await;
                drop(place);
                if is_recorded {
                    recorder.success();
                }
            });
        }
    }

    /// Tries until the store answers, or has refused too often; tells whether it is recorded.
    async fn insist(&self, mut one: Batch) -> bool {
        let (mut refusals, mut openings) = (0, self.lease.openings());
        for tries in 1.. {
            tokio::select! {
                () = self.rest(tries, openings) => {}
                () = self.asides.hurry.notified() => {}
            }
            openings = self.lease.openings();
            match self.attempt(&one).await {
                Ok(answers) => {
                    one = self.conclude(one, answers).await;
                    if one.is_empty() {
                        return true;
                    }
                }
                Err(failed) => {
                    self.failure(&one, &failed);
                    refusals += u32::from(!failed.is_passing);
                    if refusals >= REFUSALS_MAX {
                        break;
                    }
                }
            }
        }
        one.attempts().iter().for_each(|attempt| self.give_up(attempt));
        false
    }

    /// The job is left to the reaper, which comes by it when its lease is gone.
    pub(super) fn give_up(&self, ctx: &Ctx) {
        tracing::error!(
            job.id = %ctx.id(), job.kind = %ctx.kind(), job.queue = %ctx.queue(),
            "the outcome cannot be recorded; the job is left to the reaper"
        );
        self.retire(ctx.inner().landing.lease);
    }

    /// Retires a lease, at once or when the interval since the last one has passed.
    fn retire(&self, id: LeaseId) {
        let now = Instant::now();
        let mut retired = self.asides.retired.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match *retired {
            // It is waited for already.
            Some((last, at)) if last == id && at > now => return,
            Some((_, at)) => now.max(at + RETIRE_INTERVAL),
            None => now,
        };
        *retired = Some((id, at));
        if at <= now {
            self.lease.retire(id);
        } else {
            tokio::spawn(retire_at(Arc::clone(&self.lease), id, at));
        }
    }
}

async fn retire_at(lease: Arc<Lease>, id: LeaseId, at: Instant) {
    tokio::time::sleep_until(at).await;
    lease.retire(id);
}
