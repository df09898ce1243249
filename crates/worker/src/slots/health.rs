//! What the health report reads: slots whose handler has outlived its attempt, and what they keep from running.

use std::time::{Duration, Instant};

use windlass_core::Name;

use super::Slots;
use super::shares::Shares;
use crate::health::Blocked;

impl Slots {
    /// Slots whose attempt has ended and whose handler has not.
    pub(crate) fn zombies(&self) -> usize {
        self.occupied.iter().flatten().filter(|occupied| occupied.ctx.is_zombie()).count()
    }

    /// Of each queue, how many attempts run and how many slots it may use.
    #[cfg(feature = "metrics")]
    pub(crate) fn per_queue(&self) -> Vec<(Name, usize, usize)> {
        let queues = self.config.queues.iter().enumerate();
        let running =
            |place| self.occupied.iter().flatten().filter(|occupied| occupied.queue == place).count();
        let slots = |limit: usize| limit.min(self.config.concurrency);
        queues.map(|(place, queue)| (queue.queue.clone(), running(place), slots(queue.limit))).collect()
    }

    /// Threads of blocking handlers that have outlived their attempt.
    pub(crate) fn zombie_threads(&self) -> usize {
        let threads = self.occupied.iter().flatten().map(|occupied| &occupied.ctx.inner().thread);
        threads.filter(|thread| thread.is_zombie() && !thread.is_in_batch()).count()
    }

    /// Whether a call of a batch goes on after all of its attempts, or some of them, have ended.
    pub(crate) fn has_calls(&self) -> bool {
        let mut threads = self.occupied.iter().flatten().map(|occupied| &occupied.ctx.inner().thread);
        threads.any(|thread| thread.is_in_batch() && thread.is_zombie())
    }

    /// Queues that can start nothing, however long they wait: every slot that they may use is a zombie's.
    pub(crate) fn starved(&self) -> Vec<Name> {
        if self.zombies() == 0 {
            return Vec::new();
        }
        let mut shares = Shares::new(&self.config);
        for occupied in self.occupied.iter().flatten().filter(|occupied| occupied.ctx.is_zombie()) {
            shares.take(occupied.queue);
        }
        let buffers = self.buffers.iter().enumerate().filter(|(buffer, _)| shares.free(*buffer) == 0);
        buffers.map(|(_, buffer)| buffer.queue.clone()).collect()
    }

    /// Whether an async handler has a thread of the runtime at present.
    pub(crate) fn is_held(&self) -> bool {
        let now = Instant::now();
        self.occupied.iter().flatten().any(|occupied| occupied.ctx.inner().poll.held(now).is_some())
    }

    /// Async handlers that have held their thread for at least `after`, and those whose attempt ended without them.
    pub(crate) fn blocked(&self, now: Instant, after: Duration) -> Vec<Blocked> {
        let holding = self.occupied.iter().flatten().filter_map(|occupied| {
            let (ctx, poll) = (&occupied.ctx, &occupied.ctx.inner().poll);
            let held = poll.held(now).filter(|held| *held >= after || poll.is_abandoned())?;
            Some(Blocked { kind: ctx.kind().clone(), id: ctx.id(), held })
        });
        holding.collect()
    }
}
