//! How many items of a worker wait for their batches, so that they do not wait for others that cannot come: every slot
//! that these could start in has an item that waits as well.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use windlass_core::Name;

use crate::slots;

/// The slots of a worker, as seen by items that wait. Shared by all batch handlers of a worker.
#[derive(Default)]
pub(crate) struct Room {
    counts: Mutex<Counts>,
    slow_poll: OnceLock<Duration>,
}

#[derive(Default)]
struct Counts {
    /// Slots in all, and items that wait in them.
    slots: usize,
    waiting: usize,
    queues: Vec<QueueRoom>,
}

struct QueueRoom {
    queue: Name,
    slots: usize,
    waiting: usize,
}

impl Room {
    /// Says how many slots there are, and how long a call may hold a thread without a warning.
    pub(crate) fn set(&self, slots: &slots::Config, slow_poll: Duration) {
        let queue = |name: &Name| {
            let slots = usable_slots(slots, name);
            QueueRoom { queue: name.clone(), slots, waiting: 0 }
        };
        let queues = slots.queues.iter().map(|of| queue(&of.queue)).collect();
        *self.lock() = Counts { slots: slots.concurrency, waiting: 0, queues };
        self.slow_poll.get_or_init(|| slow_poll);
    }

    pub(super) fn slow_poll(&self) -> Duration {
        self.slow_poll.get().copied().unwrap_or(Duration::MAX)
    }

    /// An item of this queue waits from now on, until its place is dropped. Answers also whether no slot is left that
    /// another item could start in. Slots that several queues share count for each of them: where those are all taken
    /// by items of different queues, the linger ends the wait.
    pub(super) fn wait_in(self: &Arc<Self>, queue: &Name) -> (Place, bool) {
        let mut counts = self.lock();
        counts.waiting += 1;
        let mut is_full = counts.waiting >= counts.slots;
        let index = counts.queues.iter().position(|room| room.queue == *queue);
        if let Some(room) = index.map(|index| &mut counts.queues[index]) {
            room.waiting += 1;
            is_full |= room.waiting >= room.slots;
        }
        (Place { room: Arc::clone(self), queue: index }, is_full)
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The slots that jobs of one queue can have at a time.
pub(crate) fn usable_slots(config: &slots::Config, queue: &Name) -> usize {
    let (own, others): (Vec<_>, Vec<_>) = config.queues.iter().partition(|of| of.queue == *queue);
    let reserved: usize = others.iter().map(|of| of.reserved).sum();
    let limit = own.first().map_or(config.concurrency, |of| of.limit);
    limit.min(config.concurrency.saturating_sub(reserved))
}

/// The slot of an item that waits.
pub(super) struct Place {
    room: Arc<Room>,
    queue: Option<usize>,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.room.lock();
        counts.waiting -= 1;
        if let Some(room) = self.queue.map(|index| &mut counts.queues[index]) {
            room.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slots::QueueSlots;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    fn config() -> slots::Config {
        let of = |queue, reserved, limit| QueueSlots { queue: name(queue), reserved, limit, weight: 1 };
        slots::Config {
            concurrency: 4,
            queues: vec![of("rows", 0, 2), of("login", 1, 4), of("mail", 0, 4)],
            prefetch_max: 0,
        }
    }

    #[test]
    fn slots_that_a_queue_cannot_have_do_not_count() {
        let usable = |queue| usable_slots(&config(), &name(queue));
        assert_eq!(usable("rows"), 2, "its own limit");
        assert_eq!(usable("login"), 4);
        assert_eq!(usable("mail"), 3, "one is another queue's");
    }

    #[test]
    fn no_more_can_come_when_every_slot_has_an_item_that_waits() {
        let room = Arc::new(Room::default());
        room.set(&config(), Duration::MAX);
        let wait = |queue| room.wait_in(&name(queue));
        let (first, is_full) = wait("rows");
        assert!(!is_full);
        let (second, is_full) = wait("rows");
        assert!(is_full, "the queue has two slots");
        drop(first);
        let (third, is_full) = wait("mail");
        assert!(!is_full);
        let (fourth, is_full) = wait("login");
        assert!(!is_full);
        let (_fifth, is_full) = wait("login");
        assert!(is_full, "the worker has four");
        drop((second, third, fourth));
        let (_sixth, is_full) = wait("rows");
        assert!(!is_full);
    }
}
