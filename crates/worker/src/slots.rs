//! The arithmetic of slots, pure: who may start, and how many more.
//!
//! A queue fills the slots reserved for it first, then takes from those that all share, up to its own limit.
//! Nothing else may use a reserved slot, so a noisy queue cannot starve one that has some.

use crate::worker::Config;

/// The slots of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Slots {
    lines: Vec<Share>,
    /// Shared slots that are free.
    shared_free: usize,
}

#[derive(Debug, Clone, Copy)]
struct Share {
    used: usize,
    reserved: usize,
    limit: usize,
}

impl Slots {
    /// All slots free, one line per queue of the worker.
    pub(crate) fn new(config: &Config) -> Self {
        let lines = config.queues.iter().map(|slots| (slots.reserved, slots.limit));
        Self::of(config.concurrency, lines)
    }

    fn of(total: usize, lines: impl IntoIterator<Item = (usize, usize)>) -> Self {
        let lines: Vec<_> =
            lines.into_iter().map(|(reserved, limit)| Share { used: 0, reserved, limit }).collect();
        let reserved: usize = lines.iter().map(|share| share.reserved).sum();
        Self { lines, shared_free: total.saturating_sub(reserved) }
    }

    /// How many more attempts of this line may start.
    pub(crate) fn free(&self, line: usize) -> usize {
        let share = self.lines[line];
        let open = share.reserved.saturating_sub(share.used) + self.shared_free;
        open.min(share.limit.saturating_sub(share.used))
    }

    /// How many reserved slots of this line are free.
    pub(crate) fn reserved_free(&self, line: usize) -> usize {
        let share = self.lines[line];
        share.reserved.saturating_sub(share.used)
    }

    /// How many more attempts may start in all.
    pub(crate) fn free_total(&self) -> usize {
        let reserved: usize = (0..self.lines.len()).map(|line| self.reserved_free(line)).sum();
        self.shared_free + reserved
    }

    /// Takes a slot for this line, if it may have one.
    pub(crate) fn take(&mut self, line: usize) -> bool {
        if self.free(line) == 0 {
            return false;
        }
        let share = &mut self.lines[line];
        if share.used >= share.reserved {
            self.shared_free -= 1;
        }
        share.used += 1;
        true
    }

    /// Gives a slot back that this line took.
    pub(crate) fn give_back(&mut self, line: usize) {
        let share = &mut self.lines[line];
        debug_assert!(share.used > 0, "a slot is given back once");
        share.used = share.used.saturating_sub(1);
        if share.used >= share.reserved {
            self.shared_free += 1;
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
        let mut slots = Slots::of(4, [(0, 4), (2, 4)]);
        assert!(slots.take(NOISY) && slots.take(NOISY) && !slots.take(NOISY));
        assert_eq!((slots.free(NOISY), slots.free(QUIET), slots.free_total()), (0, 2, 2));
        assert!(slots.take(QUIET) && slots.take(QUIET) && !slots.take(QUIET));
    }

    #[test]
    fn reserved_slots_are_used_first_and_given_back_last() {
        let mut slots = Slots::of(3, [(0, 3), (1, 3)]);
        assert!(slots.take(QUIET) && slots.take(QUIET));
        assert_eq!((slots.shared_free, slots.reserved_free(QUIET)), (1, 0));
        slots.give_back(QUIET);
        assert_eq!((slots.shared_free, slots.reserved_free(QUIET)), (2, 0));
        slots.give_back(QUIET);
        assert_eq!((slots.shared_free, slots.reserved_free(QUIET)), (2, 1));
    }

    #[test]
    fn a_queue_keeps_its_limit() {
        let mut slots = Slots::of(10, [(0, 2)]);
        assert!(slots.take(0) && slots.take(0) && !slots.take(0));
        assert_eq!(slots.free_total(), 8);
    }

    #[test]
    fn any_order_of_taking_and_giving_back_keeps_the_sums() {
        let mut slots = Slots::of(8, [(0, 5), (2, 8), (1, 1)]);
        let mut used = [0usize; 3];
        for _ in 0..20_000 {
            let line = fastrand::usize(..3);
            if fastrand::bool() {
                used[line] += usize::from(slots.take(line));
            } else if used[line] > 0 {
                slots.give_back(line);
                used[line] -= 1;
            }
            let total: usize = used.iter().sum();
            assert_eq!(slots.free_total(), 8 - total);
            assert!(used[0] <= 5 && used[2] <= 1, "limits: {used:?}");
            assert!(used[0] + used[1].saturating_sub(2) <= 5, "reserved slots stay reserved: {used:?}");
        }
    }
}
