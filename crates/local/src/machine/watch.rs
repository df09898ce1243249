//! Conditions that can be awaited. A condition that held for a moment counts, even if it no longer holds when the
//! one who waits gets to run.

use std::task::Waker;

use super::Failure;

/// What can be waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Nothing waits.
    Empty,
    /// Nothing waits and nothing runs.
    Idle,
    /// Nothing runs.
    NoneRunning,
    /// Fewer than so many wait.
    SizeBelow(usize),
    /// The rate holds work back, or never will.
    RateLimited,
    /// The rate does not.
    RateCleared,
    /// Producers may go on.
    Open,
    /// Something fails from now on, or nothing ever can.
    Failure,
}

/// What conditions are judged by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sight {
    pub(crate) waiting: usize,
    pub(crate) running: usize,
    pub(crate) is_rate_limited: bool,
    pub(crate) is_flooded: bool,
    pub(crate) is_over: bool,
}

impl Condition {
    pub(crate) fn holds(self, sight: Sight) -> bool {
        match self {
            Self::Empty => sight.waiting == 0,
            Self::Idle => sight.waiting == 0 && sight.running == 0,
            Self::NoneRunning => sight.running == 0,
            Self::SizeBelow(size) => sight.waiting < size,
            Self::RateLimited => sight.is_rate_limited || sight.is_over,
            Self::RateCleared => !sight.is_rate_limited,
            Self::Open => !sight.is_flooded,
            Self::Failure => sight.is_over,
        }
    }

    /// It can hold only while fewer than so many wait.
    fn bound(self) -> usize {
        match self {
            Self::Empty | Self::Idle | Self::Failure => 1,
            Self::SizeBelow(size) => size,
            Self::NoneRunning | Self::RateLimited | Self::RateCleared | Self::Open => usize::MAX,
        }
    }
}

/// Those who wait.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    watchers: Vec<Watcher>,
    numbers: u64,
    /// No condition can hold unless fewer than so many wait, so most changes need no look.
    bound: usize,
}

#[derive(Debug)]
struct Watcher {
    number: u64,
    condition: Condition,
    has_held: bool,
    failure: Option<Failure>,
    waker: Waker,
}

impl Watch {
    pub(crate) fn is_empty(&self) -> bool {
        self.watchers.is_empty()
    }

    /// Whether some condition could hold while so many wait.
    #[inline]
    pub(crate) fn wants(&self, waiting: usize) -> bool {
        waiting < self.bound
    }

    pub(crate) fn add(&mut self, condition: Condition, waker: Waker) -> u64 {
        let number = self.numbers;
        self.numbers += 1;
        self.watchers.push(Watcher { number, condition, has_held: false, failure: None, waker });
        self.find_bound();
        number
    }

    /// Whether the condition has held since; if not, remembers whom to wake. Who was to be woken before is answered
    /// in `stale`, to be dropped without the lock.
    pub(crate) fn has_held(
        &mut self,
        number: u64,
        waker: &Waker,
        stale: &mut Option<Waker>,
    ) -> Option<Option<Failure>> {
        let watcher = self.watchers.iter_mut().find(|watcher| watcher.number == number)?;
        if watcher.has_held {
            return Some(watcher.failure);
        }
        if !watcher.waker.will_wake(waker) {
            *stale = Some(std::mem::replace(&mut watcher.waker, waker.clone()));
        }
        None
    }

    /// Forgets one who waited, and answers whom to wake no more, to be dropped without the lock.
    pub(crate) fn remove(&mut self, number: u64) -> Option<Waker> {
        let position = self.watchers.iter().position(|watcher| watcher.number == number)?;
        let watcher = self.watchers.remove(position);
        self.find_bound();
        Some(watcher.waker)
    }

    fn find_bound(&mut self) {
        let open = self.watchers.iter().filter(|watcher| !watcher.has_held);
        self.bound = open.map(|watcher| watcher.condition.bound()).max().unwrap_or(0);
    }

    /// Notes all conditions that hold now, and hands out whom to wake.
    pub(crate) fn look(&mut self, sight: Sight, mut wake: impl FnMut(Waker)) {
        for watcher in &mut self.watchers {
            if !watcher.has_held && watcher.condition.holds(sight) {
                watcher.has_held = true;
                wake(watcher.waker.clone());
            }
        }
        self.find_bound();
    }

    /// Something has failed.
    pub(crate) fn fail(&mut self, failure: Failure, mut wake: impl FnMut(Waker)) {
        for watcher in &mut self.watchers {
            if !watcher.has_held && watcher.condition == Condition::Failure {
                watcher.has_held = true;
                watcher.failure = Some(failure);
                wake(watcher.waker.clone());
            }
        }
    }
}
