//! Aged priority: each level is worth a time, so that a job of a low level waits behind later ones of higher levels, but not
//! for ever.
//!
//! The order is made by the claim, from the heads of the levels: nothing is stored for it, and it changes with the definition.
//! The arithmetic is here, so that stores in Rust share it and the others say it again.

use std::cmp::Reverse;
use std::time::Duration;

use super::{QueueConfig, QueueInvalid};
use crate::clock::Timestamp;
use crate::stored;

/// The least that a level may be worth.
pub const LEVEL_WORTH_MIN: Duration = Duration::from_millis(1);
/// The most that a level may be worth: the ranks of all levels are then whole numbers that every store can hold.
pub const LEVEL_WORTH_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How many levels of one line a claim looks at, at most.
pub const LEVELS_LOOKED_MAX: usize = 100;

/// The order in which one claim goes through the ready jobs of a queue with aged priority.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::clock::Timestamp;
/// use windlass_core::queue::QueueConfig;
///
/// let mail = QueueConfig { aging: Some(Duration::from_secs(10)), ..QueueConfig::default() };
/// let order = mail.aged(0).expect("it is aged");
/// let came = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
/// assert!(order.rank(3, came(29)) < order.rank(0, came(0)), "three levels are worth 30 s");
/// assert!(order.rank(3, came(31)) > order.rank(0, came(0)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Aged {
    /// Microseconds.
    worth: i64,
    offset: i32,
}

impl Aged {
    /// What a level is worth, in microseconds.
    pub const fn worth(&self) -> i64 {
        self.worth
    }

    /// Where a job stands: lower ranks first; of one rank the higher priority, then in the order of acceptance.
    pub fn rank(&self, priority: i16, due_at: Timestamp) -> i64 {
        due_at.as_micros().saturating_sub(self.worth * i64::from(priority))
    }

    /// The whole order, with the number of acceptance.
    pub fn place<S>(&self, priority: i16, due_at: Timestamp, seq: S) -> (i64, Reverse<i16>, S) {
        (self.rank(priority, due_at), Reverse(priority), seq)
    }

    /// From which level down a claim looks at a line with this highest level; after the lowest one comes the highest. It
    /// matters only where a line has more than [`LEVELS_LOOKED_MAX`] levels: then it differs from claim to claim, and is often
    /// near the highest.
    pub fn start(&self, highest: i16) -> i32 {
        i32::from(highest) - self.offset
    }
}

impl QueueConfig {
    /// The order of a claim with this nonce, where priority is aged.
    pub fn aged(&self, nonce: u64) -> Option<Aged> {
        let offset = (nonce >> 16 & 0xffff) >> ((nonce >> 8 & 0xff) % 17);
        let offset = i32::try_from(offset).expect("it has 16 bits");
        self.aging.map(|worth| Aged { worth: stored::micros(worth), offset })
    }

    pub(super) fn check_aging(&self) -> Result<(), QueueInvalid> {
        match self.aging {
            Some(worth) if !(LEVEL_WORTH_MIN..=LEVEL_WORTH_MAX).contains(&worth) => {
                Err(QueueInvalid::LevelWorth { worth })
            }
            _ => Ok(()),
        }
    }
}

/// A worth as whole microseconds.
pub(super) mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::stored;

    #[expect(clippy::ref_option, reason = "serde asks for it")]
    pub(in super::super) fn serialize<S: Serializer>(
        worth: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        worth.map(stored::micros).serialize(to)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<i64>::deserialize(from)?.map(stored::span))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worth(worth: Duration) -> QueueConfig {
        QueueConfig { aging: Some(worth), ..QueueConfig::default() }
    }

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn nothing_waits_behind_what_came_later_than_levels_are_worth() {
        let order = worth(Duration::from_secs(10)).aged(0).unwrap();
        let places = |priority, seconds: i64, seq| order.place(priority, at(seconds * 1_000_000), seq);
        assert!(places(3, 29, 2) < places(0, 0, 1) && places(3, 31, 2) > places(0, 0, 1));
        assert!(places(3, 30, 2) < places(0, 0, 1), "of one rank the higher priority");
        assert!(places(-2, 0, 2) < places(0, 21, 1));
        assert!(places(1, 5, 1) < places(1, 5, 2), "of one level and instant in the order of acceptance");
    }

    #[test]
    fn ranks_are_whole_numbers_that_a_double_can_hold() {
        let order = worth(LEVEL_WORTH_MAX).aged(0).unwrap();
        let late = at(4_102_444_800_000_000);
        for rank in [order.rank(i16::MIN, late), order.rank(i16::MAX, at(0))] {
            assert!(rank.unsigned_abs() < 1 << 53, "{rank}");
        }
        assert_eq!(order.rank(i16::MAX, at(i64::MIN)), i64::MIN, "it stops at the end of its range");
    }

    #[test]
    fn claims_begin_at_different_levels_and_often_near_the_highest() {
        let start = |nonce: u64| worth(LEVEL_WORTH_MIN).aged(nonce).unwrap().start(9);
        assert_eq!(start(0xffff_0100), 9 - 0x7fff);
        assert_eq!(start(0xffff_0000), 9 - 0xffff);
        assert_eq!(start(0xffff_1000), 9, "all bits are shifted out");
        assert_eq!(start(0xffff_1100), 9 - 0xffff, "17 is 0 again");
        assert_eq!(start(0xffff_ffff_0003_0e07), 9, "other bits do not count");
    }

    #[test]
    fn a_worth_is_kept_in_whole_microseconds_and_has_its_range() {
        let config = worth(Duration::from_millis(1_500));
        assert!(config.text().contains("\"aging\":1500000"), "{}", config.text());
        assert_eq!(QueueConfig::read(config.text().as_bytes()), (config, None));
        assert!(!QueueConfig::default().text().contains("aging"));
        let refused = |span| worth(span).check().unwrap_err().to_string();
        let zero = refused(Duration::ZERO);
        assert!(zero.starts_with("an aging of 0ns: a level is worth 1ms to 24h"), "{zero}");
        refused(LEVEL_WORTH_MAX + Duration::from_nanos(1));
        assert!(worth(LEVEL_WORTH_MIN).check().is_ok() && worth(LEVEL_WORTH_MAX).check().is_ok());
    }

    #[test]
    fn it_is_a_rule_that_programs_of_before_may_not_know() {
        let config = worth(LEVEL_WORTH_MIN);
        assert_eq!(config.rules(), 1);
        assert!(!config.limits());
    }
}
