//! What this process knows of the copies of one lease.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Name;

/// The copy of a lease beside the jobs of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseCopy {
    /// It was written or renewed at this time, to live for so long; or another process knows.
    Lives(Option<(Instant, Duration)>),
    /// It was never written: its server was away. The next renewal writes it.
    Missing,
    /// It has run out, or could not be renewed for longer than it lives. It does not come back.
    Lost,
}

/// The copies of one lease, by queue.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    known: Mutex<HashMap<Name, LeaseCopy>>,
}

impl Copies {
    pub(crate) fn of(&self, queue: &Name) -> LeaseCopy {
        self.known().get(queue).copied().unwrap_or(LeaseCopy::Lives(None))
    }

    /// The copy lives for so long from now; `began` is from before it was asked for, so it lives no shorter than this.
    pub(crate) fn lives(&self, queue: &Name, began: Instant, ttl: Duration) {
        self.put(queue, LeaseCopy::Lives(Some((began, ttl))));
    }

    pub(crate) fn missing(&self, queue: &Name) {
        self.put(queue, LeaseCopy::Missing);
    }

    pub(crate) fn lost(&self, queue: &Name) {
        self.put(queue, LeaseCopy::Lost);
    }

    /// It could not be renewed: lost, if that lasts for longer than it lives.
    pub(crate) fn not_renewed(&self, queue: &Name) -> LeaseCopy {
        let mut known = self.known();
        let copy = known.entry(queue.clone()).or_insert(LeaseCopy::Lives(None));
        if let LeaseCopy::Lives(Some((since, ttl))) = *copy
            && since.elapsed() > ttl
        {
            *copy = LeaseCopy::Lost;
        }
        *copy
    }

    fn put(&self, queue: &Name, copy: LeaseCopy) {
        self.known().insert(queue.clone(), copy);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Name, LeaseCopy>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_lost_when_it_could_not_be_renewed_for_longer_than_it_lives() {
        let (copies, queue) = (Copies::default(), Name::new("q").unwrap());
        assert_eq!(copies.not_renewed(&queue), LeaseCopy::Lives(None), "nobody knows since when");
        let (now, ttl) = (Instant::now(), Duration::from_secs(3_600));
        copies.lives(&queue, now, ttl);
        assert_eq!(copies.not_renewed(&queue), LeaseCopy::Lives(Some((now, ttl))));
        let long_ago = now.checked_sub(Duration::from_millis(2)).unwrap();
        copies.lives(&queue, long_ago, Duration::from_millis(1));
        assert_eq!((copies.not_renewed(&queue), copies.of(&queue)), (LeaseCopy::Lost, LeaseCopy::Lost));
        copies.missing(&queue);
        assert_eq!(copies.not_renewed(&queue), LeaseCopy::Missing, "what never lived is not lost");
    }
}
