//! A worker, as the bell sees it: how much room it has, and how it is woken.

use std::sync::Arc;

use windlass_core::Name;
use windlass_core::bell::Waiter;

use crate::attempts::Attempts;

/// Wakes the fetcher of these attempts.
pub(super) struct SlotWaiter(pub(super) Arc<Attempts>);

impl Waiter for SlotWaiter {
    fn room(&self, queue: &Name) -> u32 {
        u32::try_from(self.0.slots().room(queue)).unwrap_or(u32::MAX)
    }

    fn wake(&self, queue: Option<&Name>) {
        match queue {
            Some(queue) => self.0.slots().hint_in(queue),
            None => self.0.slots().hint(),
        }
        self.0.wakers.fetcher.notify_one();
    }
}
