//! How long finished jobs stay.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::state::State;

/// How long finished jobs of a queue stay, by state. [`Keep::NONE`] for a state makes its ends leave nothing:
/// the write that would store them removes the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retention {
    /// For completed jobs; a day by default.
    pub completed: Keep,
    /// For dead jobs; 90 days by default.
    pub dead: Keep,
    /// For cancelled jobs; a week by default.
    pub cancelled: Keep,
}

/// How long and how many. Whichever says "too old" or "too many" first wins; nothing set keeps for ever.
///
/// What is too old or too many goes with the next prune. A count of 0 keeps none: a job that comes to such an
/// end under a worker, or is reaped to it, is removed at once with its attempts, instead of being stored. Ends
/// that come otherwise (a waiting job is cancelled or expires, retention is lowered later) are left to prune.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Keep {
    /// Older than this goes.
    pub age: Option<Duration>,
    /// The oldest above this number go.
    pub count: Option<u64>,
}

impl Keep {
    /// Keeps everything.
    pub const FOREVER: Self = Self { age: None, count: None };

    /// Keeps nothing, not even until the next prune.
    pub const NONE: Self = Self::count(0);

    /// Keeps by age.
    pub const fn age(age: Duration) -> Self {
        Self { age: Some(age), count: None }
    }

    /// Keeps the newest.
    pub const fn count(count: u64) -> Self {
        Self { age: None, count: Some(count) }
    }

    /// Whether it keeps no job at all, whatever its age.
    pub const fn is_none(&self) -> bool {
        matches!(self.count, Some(0))
    }

    /// What is too much of `count` finished jobs of one queue and state.
    pub fn excess(&self, count: u64, now: Timestamp) -> Excess {
        Excess {
            surplus: self.count.map_or(0, |kept| count.saturating_sub(kept)),
            older_than: self.age.map(|age| now.minus(age)),
        }
    }
}

/// Which finished jobs of a queue and state retention no longer keeps. They are asked for in the order in
/// which prune removes them: by the instant of their end, then by acceptance. The first that stays is
/// followed by none that goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// So many of them, the first in order, whenever they ended.
    pub surplus: u64,
    /// Those that ended before this instant, however many.
    pub older_than: Option<Timestamp>,
}

impl Excess {
    /// Whether nothing can go, so that there is nothing to look for.
    pub fn is_nothing(&self) -> bool {
        self.surplus == 0 && self.older_than.is_none()
    }

    /// Whether the job at this place of the order, counted from 0, goes.
    pub fn takes(&self, place: u64, finished_at: Timestamp) -> bool {
        place < self.surplus || self.older_than.is_some_and(|oldest_kept| finished_at < oldest_kept)
    }
}

impl Default for Retention {
    fn default() -> Self {
        const DAY: Duration = Duration::from_secs(24 * 60 * 60);
        Self {
            completed: Keep::age(DAY),
            dead: Keep::age(DAY.saturating_mul(90)),
            cancelled: Keep::age(DAY.saturating_mul(7)),
        }
    }
}

impl Retention {
    /// The rule for a terminal state; nothing for any other.
    pub fn of(&self, state: State) -> Option<Keep> {
        match state {
            State::Completed => Some(self.completed),
            State::Dead => Some(self.dead),
            State::Cancelled => Some(self.cancelled),
            _ => None,
        }
    }

    /// Whether a job that comes to this state stays at all. When it does not, `settle` and `reap` remove it in
    /// the write that would have stored its end.
    pub fn keeps(&self, state: State) -> bool {
        self.of(state).is_none_or(|keep| !keep.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_count_of_nothing_keeps_none() {
        let zero = Duration::ZERO;
        let retention = Retention {
            completed: Keep::NONE,
            dead: Keep { age: Some(zero), count: Some(0) },
            cancelled: Keep { age: Some(zero), count: Some(1) },
        };
        for state in State::ALL {
            let is_kept = !matches!(state, State::Completed | State::Dead);
            assert_eq!(retention.keeps(state), is_kept, "{state}");
        }
        assert!(State::ALL.into_iter().all(|state| Retention::default().keeps(state)));
        assert!(!Keep::FOREVER.is_none() && !Keep::age(zero).is_none());
    }

    #[test]
    fn what_is_too_old_or_too_many_goes() {
        let (now, age) = (Timestamp::from_micros(1_000), Duration::from_micros(100));
        let places = |keep: Keep| {
            let excess = keep.excess(4, now);
            let finished = [800, 899, 900, 999].map(Timestamp::from_micros);
            (0..).zip(finished).map(|(place, at)| excess.takes(place, at)).collect::<Vec<_>>()
        };
        assert_eq!(places(Keep::age(age)), [true, true, false, false], "as old as the age is kept");
        assert_eq!(places(Keep::count(1)), [true, true, true, false]);
        assert_eq!(places(Keep { age: Some(age), count: Some(3) }), [true, true, false, false]);
        assert_eq!(places(Keep::NONE), [true; 4]);
        assert_eq!(places(Keep::count(9)), [false; 4]);
        assert!(Keep::FOREVER.excess(4, now).is_nothing() && Keep::count(4).excess(4, now).is_nothing());
        assert!(!Keep::age(Duration::MAX).excess(4, now).is_nothing());
    }
}
