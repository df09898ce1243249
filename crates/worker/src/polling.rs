//! Whether an async handler gives its runtime thread back. While one poll lasts, nothing on that thread can stop the
//! handler, not even its own timeout. [`PollState`] is how the watchdog sees that from another thread.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::ctx::control::Stop;

/// The poll of one attempt's handler, and what was done about it.
#[derive(Debug, Default)]
pub(crate) struct PollState {
    /// When the poll began; 0 while the handler waits.
    since: AtomicU64,
    /// The same for the call of the batch that it is an item of. The two are polled on their own.
    call: AtomicU64,
    /// When it was first seen that the attempt is told to stop; 0 before.
    told: AtomicU64,
    /// A warning has named it.
    has_warned: AtomicBool,
    /// Its attempt is being ended without it.
    is_ended: AtomicBool,
    /// Its attempt has ended without it.
    is_abandoned: AtomicBool,
}

/// What the stamps count from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// An instant as a number above 0.
fn stamp(at: Instant) -> u64 {
    let since = at.saturating_duration_since(*START);
    since.as_secs() * 1_000_000 + u64::from(since.subsec_micros()) + 1
}

impl PollState {
    /// The handler has the thread.
    pub(crate) fn begin(&self, now: Instant) {
        self.since.store(stamp(now), Ordering::Relaxed);
    }

    /// The handler has given the thread back.
    pub(crate) fn end(&self) {
        self.since.store(0, Ordering::Relaxed);
    }

    /// The call of its batch has a thread.
    pub(crate) fn begin_call(&self, now: Instant) {
        self.call.store(stamp(now), Ordering::Relaxed);
    }

    /// The call of its batch has given the thread back.
    pub(crate) fn end_call(&self) {
        self.call.store(0, Ordering::Relaxed);
    }

    fn since(&self) -> u64 {
        match self.since.load(Ordering::Relaxed) {
            0 => self.call.load(Ordering::Relaxed),
            since => since,
        }
    }

    /// For how long the handler has had the thread; nothing while it waits.
    pub(crate) fn held(&self, now: Instant) -> Option<Duration> {
        let since = self.since();
        (since > 0).then(|| Duration::from_micros(stamp(now).saturating_sub(since)))
    }

    /// Whether the handler has kept the thread for all of its grace after its attempt was told to stop. Only
    /// what the caller has seen counts: the grace starts when it first sees the stop signal.
    pub(crate) fn is_overdue(&self, reason: Stop, now: Instant, grace: Duration) -> bool {
        let (now, since) = (stamp(now), self.since());
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
    pub(crate) fn warn_once(&self) -> bool {
        !self.has_warned.swap(true, Ordering::Relaxed)
    }

    /// Whether the caller is the first to end its attempt without it.
    pub(crate) fn end_once(&self) -> bool {
        !self.is_ended.swap(true, Ordering::AcqRel)
    }

    /// Its attempt has ended; the slot stays occupied until the handler returns.
    pub(crate) fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
    }

    /// Whether its attempt has ended and the handler has not.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_turn_that_outlasts_its_grace_is_overdue() {
        let (poll, start) = (PollState::default(), *START);
        assert_eq!(poll.held(start), None);
        poll.begin(start);
        assert_eq!(poll.held(start + 7 * SECOND), Some(7 * SECOND));
        let overdue = |reason, seconds| poll.is_overdue(reason, start + seconds * SECOND, 3 * SECOND);
        assert!(!overdue(Stop::No, 100), "nothing has told it to stop");
        assert!(!overdue(Stop::Timeout, 101), "its grace begins when that is first seen");
        assert!(!overdue(Stop::Timeout, 103));
        assert!(overdue(Stop::Timeout, 104));
        poll.end();
        assert!(!overdue(Stop::Timeout, 200), "it waits, so it can be dropped");
        poll.begin(start + 300 * SECOND);
        assert!(!overdue(Stop::Timeout, 302), "this poll has its grace too");
        assert!(overdue(Stop::Timeout, 303));
    }

    #[test]
    fn a_call_holds_the_thread_for_all_of_its_items() {
        let (poll, start) = (PollState::default(), *START);
        poll.begin_call(start);
        poll.begin(start + SECOND);
        poll.end();
        assert_eq!(poll.held(start + 7 * SECOND), Some(7 * SECOND), "a poll of the attempt changes nothing");
        poll.end_call();
        assert_eq!(poll.held(start + 8 * SECOND), None);
    }

    #[test]
    fn it_has_warned_and_taken_once() {
        let poll = PollState::default();
        assert_eq!((poll.warn_once(), poll.warn_once()), (true, false));
        assert_eq!((poll.end_once(), poll.end_once()), (true, false));
        assert!(!poll.is_abandoned());
        poll.abandon();
        assert!(poll.is_abandoned());
    }
}
