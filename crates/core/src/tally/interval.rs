//! How long the minutes of tallies are kept apart. A store keeps what it counts by the minute, by ten minutes and by the hour
//! side by side, each for its time, so nothing is computed anew when the finer ones go.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// How long a row of tallies is. The codes are stored and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Interval {
    /// A minute, kept for six hours.
    Minute,
    /// Ten minutes, kept for two days.
    TenMinutes,
    /// An hour, kept for ninety days.
    Hour,
}

impl Interval {
    /// All of them, the shortest first.
    pub const ALL: [Self; 3] = [Self::Minute, Self::TenMinutes, Self::Hour];

    /// How many minutes it has; stores keep it by this number.
    pub const fn minutes(self) -> i64 {
        match self {
            Self::Minute => 1,
            Self::TenMinutes => 10,
            Self::Hour => 60,
        }
    }

    /// The one that has so many minutes.
    pub fn of_minutes(minutes: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|interval| interval.minutes() == minutes)
    }

    /// How long it is.
    pub const fn span(self) -> Duration {
        Duration::from_secs(60 * self.minutes().unsigned_abs())
    }

    /// How long rows of it are kept, at least.
    pub const fn kept(self) -> Duration {
        const HOUR: u64 = 3_600;
        Duration::from_secs(match self {
            Self::Minute => 6 * HOUR,
            Self::TenMinutes => 48 * HOUR,
            Self::Hour => 90 * 24 * HOUR,
        })
    }

    /// When the one began that an instant is in.
    pub const fn floor(self, at: Timestamp) -> Timestamp {
        let span = self.minutes() * MINUTE_MICROS;
        Timestamp::from_micros(at.as_micros() - at.as_micros().rem_euclid(span))
    }

    /// The shortest whose rows are kept of the whole hour that an instant is in.
    pub fn kept_at(at: Timestamp, now: Timestamp) -> Self {
        let hour = Self::Hour.floor(at);
        let is_kept = |interval: &Self| now.since(hour) <= interval.kept();
        Self::ALL.into_iter().find(is_kept).unwrap_or(Self::Hour)
    }

    /// How long before now rows of it are removed: what is read is kept, and a clock that is set back an hour loses none.
    pub const fn removed_after(self) -> Duration {
        self.kept().saturating_add(Duration::from_secs(2 * 3_600))
    }

    /// Rows of it that began before this instant are not read any more.
    pub fn oldest(self, now: Timestamp) -> Timestamp {
        Self::Hour.floor(now.minus(self.kept()))
    }
}

const MINUTE_MICROS: i64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(minute: i64) -> Timestamp {
        Timestamp::from_micros(minute * MINUTE_MICROS)
    }

    #[test]
    fn instants_are_in_one_interval_of_each_length() {
        let at = Timestamp::from_micros(minute(79).as_micros() + 59_999_999);
        assert_eq!(Interval::ALL.map(|interval| interval.floor(at)), [minute(79), minute(70), minute(60)]);
        assert_eq!(Interval::Hour.floor(Timestamp::from_micros(-1)), minute(-60));
        for interval in Interval::ALL {
            assert_eq!(Interval::of_minutes(interval.minutes()), Some(interval));
        }
        assert_eq!(Interval::of_minutes(2), None);
    }

    #[test]
    fn what_is_read_is_kept() {
        let now = minute(100_000_030);
        for ago in 0..20_000 {
            let at = Timestamp::from_micros(now.as_micros() - ago * 17 * MINUTE_MICROS);
            let interval = Interval::kept_at(at, now);
            assert!(interval == Interval::Hour || interval.floor(at) >= interval.oldest(now), "{ago}");
        }
        let kept_at = |hours: u64| Interval::kept_at(now.minus(Duration::from_secs(3_600 * hours)), now);
        assert_eq!(
            [0, 5, 6, 47, 48].map(kept_at),
            [Interval::Minute, Interval::Minute, Interval::TenMinutes, Interval::TenMinutes, Interval::Hour]
        );
    }
}
