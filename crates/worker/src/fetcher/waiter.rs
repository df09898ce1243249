//! A worker, as the bell sees it: how much room it has, how it is woken, and what it claims on its own.

use std::sync::Arc;

use windlass_core::Name;
use windlass_core::bell::{Claiming, Waiter};

use super::Fetcher;

/// Wakes this fetcher.
pub(super) struct SlotWaiter(pub(super) Arc<Fetcher>);

impl Waiter for SlotWaiter {
    fn room(&self, queue: &Name) -> u32 {
        u32::try_from(self.0.attempts.slots().room(queue)).unwrap_or(u32::MAX)
    }

    fn wake(&self, queue: Option<&Name>) {
        match queue {
            Some(queue) => self.0.attempts.slots().hint_in(queue),
            None => self.0.attempts.slots().hint(),
        }
        self.0.attempts.wakers.fetcher.notify_one();
    }

    fn claim(&self, queue: &Name) -> Option<Box<dyn Claiming>> {
        Some(Box::new(self.0.claim_called(queue)?))
    }
}
