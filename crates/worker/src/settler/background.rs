//! Mode BACKGROUND of the drawing in [`super`]: outcomes that fail while others go through. Each is repeated in a task of
//! its own, and holds up nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};
use windlass_core::backoff::with_retries;
use windlass_core::{LeaseId, Name};

use super::batch::Batch;
use super::recorder::Recorder;
use crate::ctx::Ctx;
use crate::lease::Lease;
use crate::retries::{backoff, endless};

/// How many outcomes of one queue are in the background at the same time; further ones are given up.
const BACKGROUND_MAX: usize = 64;
/// How often an outcome that the store refuses for no passing reason is tried before it is given up.
const REFUSALS_MAX: u32 = 5;
/// How often they are tried at least while they are waited for.
const HURRY_INTERVAL: Duration = Duration::from_secs(1);
/// Leases are retired for outcomes that were given up no more often than this: a queue that refuses everything must not
/// keep the worker from claiming for others.
const RETIRE_INTERVAL: Duration = Duration::from_secs(5);

/// The outcomes in the background.
#[derive(Default)]
pub(super) struct Background {
    queues: Mutex<HashMap<Name, usize>>,
    count: watch::Sender<usize>,
    /// Ends their pauses.
    hurry: Notify,
    /// The lease that was last retired or will be next, and when.
    retired: Mutex<Option<(LeaseId, Instant)>>,
}

/// One outcome in the background, as long as this lives.
struct BackgroundWrite {
    recorder: Arc<Recorder>,
    queue: Name,
}

impl BackgroundWrite {
    /// Nothing if there are enough of the queue.
    fn enter(recorder: &Arc<Recorder>, queue: &Name) -> Option<Self> {
        if !recorder.background.enter(queue) {
            return None;
        }
        // From here on, not from when its task first runs: between the two nothing must look well.
        recorder.troubles.fetch_add(1, Ordering::Relaxed);
        Some(Self { recorder: Arc::clone(recorder), queue: queue.clone() })
    }
}

impl Background {
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

    pub(super) fn has_any(&self) -> bool {
        *self.count.borrow() > 0
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Name, usize>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn room(&self, queue: &Name) -> usize {
        BACKGROUND_MAX - self.queues().get(queue).copied().unwrap_or(0)
    }

    /// Whether there was room.
    fn enter(&self, queue: &Name) -> bool {
        let mut queues = self.queues();
        let count = queues.entry(queue.clone()).or_default();
        if *count >= BACKGROUND_MAX {
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

impl Drop for BackgroundWrite {
    fn drop(&mut self) {
        self.recorder.troubles.fetch_sub(1, Ordering::Relaxed);
        self.recorder.background.leave(&self.queue);
    }
}

impl Recorder {
    /// Whether there is room for all of these, which are of one queue.
    pub(super) fn has_background_room(&self, batch: &Batch) -> bool {
        let first = batch.attempts().first();
        first.is_some_and(|ctx| batch.len() <= self.background.room(ctx.queue()))
    }

    /// Repeats each of these outcomes in a task of its own; those without room are given up.
    pub(super) fn write_in_background(self: &Arc<Self>, batch: Batch) {
        for (settlement, attempt) in batch {
            let Some(place) = BackgroundWrite::enter(self, &settlement.queue) else {
                self.give_up(&attempt);
                continue;
            };
            tracing::warn!(
                job.id = %attempt.id(), job.kind = %attempt.kind(), job.queue = %settlement.queue,
                "the outcome cannot be recorded yet; it is repeated in the background"
            );
            let recorder = Arc::clone(self);
            tokio::spawn(async move {
                let is_recorded = recorder.write_until_answered(Batch::one(settlement, attempt)).await;
                drop(place);
                if is_recorded {
                    recorder.success();
                }
            });
        }
    }

    /// Tries until the store answers, or has refused too often; tells whether it is recorded.
    async fn write_until_answered(&self, mut one: Batch) -> bool {
        let mut retries = endless().refusals_max(REFUSALS_MAX);
        let openings = AtomicU64::new(self.lease.openings());
        let openings = &openings;
        let pause = |pause: Duration| async move {
            tokio::select! {
                () = self.pause(pause, openings.load(Ordering::Relaxed)) => true,
                () = self.background.hurry.notified() => true,
            }
        };
        // It has failed just now, in its lane.
        pause(backoff(1)).await;
        while !one.is_empty() {
            let write = || async {
                openings.store(self.lease.openings(), Ordering::Relaxed);
                self.write_once(&one).await.inspect_err(|failed| self.failure(&one, failed))
            };
            match with_retries(&mut retries, write, |_failed, wait| pause(wait)).await {
                Ok(answers) => one = self.handle_answers(one, answers).await,
                Err(_failed) => {
                    one.attempts().iter().for_each(|attempt| self.give_up(attempt));
                    return false;
                }
            }
        }
        true
    }

    /// The job is left to the reaper, which finds it when its lease is gone.
    pub(super) fn give_up(&self, ctx: &Ctx) {
        tracing::error!(
            job.id = %ctx.id(), job.kind = %ctx.kind(), job.queue = %ctx.queue(),
            "the outcome cannot be recorded; the job is left to the reaper"
        );
        self.retire(ctx.inner().claimed.lease);
    }

    /// Retires a lease, at once or when the interval since the last one has passed.
    fn retire(&self, id: LeaseId) {
        let now = Instant::now();
        let mut retired = self.background.retired.lock().unwrap_or_else(PoisonError::into_inner);
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
