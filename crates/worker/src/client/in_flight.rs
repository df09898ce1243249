//! How many calls are on their way, so that a lone one is not sent through a lane: the task of the lane would cost it two
//! switches and give it nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug, Default)]
pub(super) struct InFlight {
    calls: AtomicUsize,
}

/// One call; over when this is dropped.
pub(super) struct Call<'a> {
    of: &'a InFlight,
}

impl InFlight {
    /// A call begins. True if no other is on its way.
    pub(super) fn enter(&self) -> (Call<'_>, bool) {
        // Only a hint: two calls that begin together may both be told the same.
        let is_alone = self.calls.fetch_add(1, Ordering::Relaxed) == 0;
        (Call { of: self }, is_alone)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.of.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_alone_until_another_begins_and_again_when_all_are_over() {
        let calls = InFlight::default();
        let (first, is_alone) = calls.enter();
        assert!(is_alone);
        let (second, is_alone) = calls.enter();
        assert!(!is_alone);
        drop(first);
        assert!(!calls.enter().1, "the second is on its way");
        drop(second);
        assert!(calls.enter().1);
    }
}
