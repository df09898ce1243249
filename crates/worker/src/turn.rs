//! Whether a handler gives its thread back. An async handler has its thread in turns, one per poll; while a turn
//! lasts, nothing on that thread can stop it, not even its own timeout. [`TurnPart`] is how the lease thread
//! sees that from outside.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ctx::control::Stop;

/// The turn of one attempt's handler, and what was done about it.
#[derive(Debug, Default)]
pub(crate) struct TurnPart {
    /// When the turn began; 0 while the handler waits.
    since: AtomicU64,
    /// When it was first seen that the attempt is told to stop; 0 before.
    told: AtomicU64,
    /// A warning has named it.
    is_named: AtomicBool,
    /// Its attempt is being ended without it.
    is_taken: AtomicBool,
    /// Its attempt has ended without it.
    is_left: AtomicBool,
}

/// What the stamps count from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An instant as a number above 0.
fn stamp(at: Instant) -> u64 {
    let since = at.saturating_duration_since(*START);
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros()) + 1
}

impl TurnPart {
    /// The handler has the thread.
    pub(crate) fn begin(&self, now: Instant) {
        self.since.store(stamp(now), Ordering::Relaxed);
    }

    /// The handler has given the thread back.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// For how long the handler has had the thread; nothing while it waits.
    pub(crate) fn held(&self, now: Instant) -> Option<Duration> {
        let since = self.since.load(Ordering::Relaxed);
        (since > 0).then(|| Duration::from_micros(stamp(now).saturating_sub(since)))
    }

    /// Whether the handler has kept the thread for all of its grace after its attempt was told to stop. Only
    /// what the caller has seen counts: the first look at a word to stop starts the grace.
    pub(crate) fn is_overdue(&self, reason: Stop, now: Instant, grace: Duration) -> bool {
        let (now, since) = (stamp(now), self.since.load(Ordering::Relaxed));
        if reason == Stop::No || since == 0 {
            return false;
        }
        let told = match self.told.load(Ordering::Relaxed) {
            0 => {
                self.told.store(now, Ordering::Relaxed);
                now
            }
            told => told,
        };
        u128::from(now.saturating_sub(told.max(since))) >= grace.as_micros()
    }

    /// Whether the caller is the first to name it.
    pub(crate) fn name(&self) -> bool {
        !self.is_named.swap(true, Ordering::Relaxed)
    }

    /// Whether the caller is the first to end its attempt without it.
    pub(crate) fn take(&self) -> bool {
        !self.is_taken.swap(true, Ordering::AcqRel)
    }

    /// Its attempt has ended; the slot stays occupied until the handler returns.
    pub(crate) fn leave(&self) {
        self.is_left.store(true, Ordering::Release);
    }

    /// Whether its attempt has ended and the handler has not.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_turn_that_outlasts_its_grace_is_overdue() {
        let (turn, start) = (TurnPart::default(), *START);
        assert_eq!(turn.held(start), None);
        turn.begin(start);
        assert_eq!(turn.held(start + 7 * SECOND), Some(7 * SECOND));
        let overdue = |reason, seconds| turn.is_overdue(reason, start + seconds * SECOND, 3 * SECOND);
        assert!(!overdue(Stop::No, 100), "nothing has told it to stop");
        assert!(!overdue(Stop::Timeout, 101), "its grace begins when that is first seen");
        assert!(!overdue(Stop::Timeout, 103));
        assert!(overdue(Stop::Timeout, 104));
        turn.end();
        assert!(!overdue(Stop::Timeout, 200), "it waits, and can be dropped where it stands");
        turn.begin(start + 300 * SECOND);
        assert!(!overdue(Stop::Timeout, 302), "this turn has its grace too");
        assert!(overdue(Stop::Timeout, 303));
    }

    #[test]
    fn it_is_named_and_taken_once() {
        let turn = TurnPart::default();
        assert_eq!((turn.name(), turn.name()), (true, false));
        assert_eq!((turn.take(), turn.take()), (true, false));
        assert!(!turn.is_left());
        turn.leave();
        assert!(turn.is_left());
    }
}
