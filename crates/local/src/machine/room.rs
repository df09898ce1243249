//! Who waits for room, in the order of their coming. A place that becomes free is promised to the first of them,
//! and counts as taken until that one has used it or gone away; so no later caller can overtake.

use std::collections::VecDeque;
use std::task::Waker;

/// The line of those who wait.
#[derive(Debug, Default)]
pub(crate) struct Room {
    line: VecDeque<(u64, Option<Waker>)>,
    tickets: u64,
    /// Places that are promised and not used yet.
    promised: usize,
}

impl Room {
    /// Whether a caller waits.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.line.is_empty()
    }

    pub(crate) fn promised(&self) -> usize {
        self.promised
    }

    /// Promises a place to a caller that did not have to wait.
    pub(crate) fn promise(&mut self) {
        self.promised += 1;
    }

    /// A place that was promised is used, or given up.
    pub(crate) fn redeem(&mut self) {
        self.promised -= 1;
    }

    /// Joins the line.
    pub(crate) fn join(&mut self) -> u64 {
        let ticket = self.tickets;
        self.tickets += 1;
        self.line.push_back((ticket, None));
        ticket
    }

    /// Whether a place was promised to this ticket; if not, remembers whom to wake. Who was to be woken before is
    /// answered in `stale`, to be dropped without the lock.
    pub(crate) fn is_promised(&mut self, ticket: u64, waker: &Waker, stale: &mut Option<Waker>) -> bool {
        let Ok(position) = self.line.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else {
            return true;
        };
        let kept = &mut self.line[position].1;
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *stale = kept.replace(waker.clone());
        }
        false
    }

    /// Promises a place to the first in the line, who is to be woken.
    pub(crate) fn admit(&mut self) -> Option<Waker> {
        let (_, waker) = self.line.pop_front()?;
        self.promised += 1;
        waker
    }

    /// Leaves the line, or gives the promised place up. Answers whom to wake no more, to be dropped without the lock.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let Ok(position) = self.line.binary_search_by_key(&ticket, |(ticket, _)| *ticket) else {
            self.redeem();
            return None;
        };
        self.line.remove(position).and_then(|(_, waker)| waker)
    }
}
