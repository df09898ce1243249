//! How many more attempts each queue may start: pure arithmetic.
//!
//! A queue uses the slots reserved for it first, then the shared ones, up to its own limit. No other queue may use a
//! reserved slot, so a noisy queue cannot starve one that has some.

use super::Config;

/// The slots of a worker, by queue.
#[derive(Debug, Clone)]
pub(crate) struct Shares {
    queues: Vec<Share>,
    /// Slots in all.
    total: usize,
    /// Slots that are reserved.
    reserved: usize,
    /// Slots that are taken.
    used: usize,
    /// Shared slots that are taken; more than there are when their number has fallen.
    shared_used: usize,
}

#[derive(Debug, Clone, Copy)]
struct Share {
    used: usize,
    reserved: usize,
    limit: usize,
}

impl Shares {
    /// All slots free, one share per queue of the worker.
    pub(crate) fn new(config: &Config) -> Self {
        let queues = config.queues.iter().map(|slots| (slots.reserved, slots.limit));
        Self::of(config.concurrency, queues)
    }

    fn of(total: usize, queues: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let queues: Vec<_> =
            queues.into_iter().map(|(reserved, limit)| Share { used: 0, reserved, limit }).collect();
        let reserved: usize = queues.iter().map(|share| share.reserved).sum();
        Self { queues, total, reserved, used: 0, shared_used: 0 }
    }

    /// Changes the number of slots. Those that are taken stay so; nothing can be taken until fewer are.
    pub(crate) fn resize(&mut self, total: usize) {
        self.total = total;
    }

    /// How many more attempts of this queue may start.
    pub(crate) fn free(&self, queue: usize) -> usize {
        let share = self.queues[queue];
        let open = share.reserved.saturating_sub(share.used) + self.shared_free();
        open.min(share.limit.saturating_sub(share.used)).min(self.total.saturating_sub(self.used))
    }

    /// How many reserved slots of this queue are free.
    pub(crate) fn reserved_free(&self, queue: usize) -> usize {
        let share = self.queues[queue];
        share.reserved.saturating_sub(share.used)
    }

    /// How many slots this queue has taken.
    pub(crate) fn used(&self, queue: usize) -> usize {
        self.queues[queue].used
    }

    /// Whether this queue has taken shared slots.
    pub(crate) fn uses_shared(&self, queue: usize) -> bool {
        self.queues[queue].used > self.queues[queue].reserved
    }

    /// Whether this queue has fewer slots than it may have.
    pub(crate) fn may_use_more(&self, queue: usize) -> bool {
        self.queues[queue].used < self.queues[queue].limit
    }

    /// How many shared slots are free.
    pub(crate) fn shared_free(&self) -> usize {
        self.total.saturating_sub(self.reserved).saturating_sub(self.shared_used)
    }

    /// How many more attempts may start in all.
    #[cfg(test)]
    fn free_total(&self) -> usize {
        let reserved: usize = (0..self.queues.len()).map(|queue| self.reserved_free(queue)).sum();
        self.shared_free() + reserved
    }

    /// Takes a slot for this queue, if it may have one.
    pub(crate) fn take(&mut self, queue: usize) -> bool {
        if self.free(queue) == 0 {
            return false;
        }
        let share = &mut self.queues[queue];
        self.shared_used += usize::from(share.used >= share.reserved);
        share.used += 1;
        self.used += 1;
        true
    }

    /// Gives a slot back that this queue took.
    pub(crate) fn give_back(&mut self, queue: usize) {
        let share = &mut self.queues[queue];
        debug_assert!(share.used > 0, "a slot is given back once");
        share.used = share.used.saturating_sub(1);
        self.used = self.used.saturating_sub(1);
        if share.used >= share.reserved {
            self.shared_used = self.shared_used.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOISY: usize = 0;
    const QUIET: usize = 1;

    #[test]
    fn a_noisy_queue_cannot_take_reserved_slots() {
        let mut slots = Shares::of(4, [(0, 4), (2, 4)]);
        assert!(slots.take(NOISY) && slots.take(NOISY) && !slots.take(NOISY));
        assert_eq!((slots.free(NOISY), slots.free(QUIET), slots.free_total()), (0, 2, 2));
        assert!(slots.take(QUIET) && slots.take(QUIET) && !slots.take(QUIET));
    }

    #[test]
    fn reserved_slots_are_used_first_and_given_back_last() {
        let mut slots = Shares::of(3, [(0, 3), (1, 3)]);
        assert!(slots.take(QUIET) && slots.take(QUIET));
        assert_eq!((slots.shared_free(), slots.reserved_free(QUIET)), (1, 0));
        slots.give_back(QUIET);
        assert_eq!((slots.shared_free(), slots.reserved_free(QUIET)), (2, 0));
        slots.give_back(QUIET);
        assert_eq!((slots.shared_free(), slots.reserved_free(QUIET)), (2, 1));
    }

    #[test]
    fn a_queue_keeps_its_limit() {
        let mut slots = Shares::of(10, [(0, 2)]);
        assert!(slots.take(0) && slots.take(0) && !slots.take(0));
        assert_eq!(slots.free_total(), 8);
    }

    #[test]
    fn slots_that_go_are_missed_when_they_are_given_back() {
        let mut slots = Shares::of(4, [(0, 9), (1, 9)]);
        assert!(slots.take(NOISY) && slots.take(NOISY) && slots.take(NOISY));
        slots.resize(2);
        assert_eq!((slots.free(NOISY), slots.free(QUIET)), (0, 0), "three of two are taken");
        slots.give_back(NOISY);
        assert_eq!((slots.free(NOISY), slots.free(QUIET)), (0, 0));
        slots.give_back(NOISY);
        assert_eq!((slots.free(NOISY), slots.free(QUIET)), (0, 1), "the reserved one is kept");
        slots.resize(5);
        assert_eq!((slots.free(NOISY), slots.free(QUIET)), (3, 4));
    }

    #[test]
    fn any_order_of_taking_and_giving_back_keeps_the_sums() {
        let mut slots = Shares::of(8, [(0, 5), (2, 8), (1, 1)]);
        let mut used = [0usize; 3];
        for _ in 0..20_000 {
            let queue = fastrand::usize(..3);
            if fastrand::bool() {
                used[queue] += usize::from(slots.take(queue));
            } else if used[queue] > 0 {
                slots.give_back(queue);
                used[queue] -= 1;
            }
            let total: usize = used.iter().sum();
            assert_eq!(slots.free_total(), 8 - total);
            assert!(used[0] <= 5 && used[2] <= 1, "limits: {used:?}");
            assert!(used[0] + used[1].saturating_sub(2) <= 5, "reserved slots stay reserved: {used:?}");
        }
    }
}
