//! Keys: jobs of one key (a tenant, an account, an API) take turns with those of other keys, and start only as the rules for
//! keys allow.
//!
//! The ready jobs of a key stand behind its *gate*. A store keeps a gate for each key that has ready jobs, with its turn; a
//! claim takes from the open gates in the order of their turns. The arithmetic of a claim is here, so that stores in Rust
//! share it and the others say it again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Permits, QueueInvalid, Rate, room, within};
use crate::name::Name;

/// What a turn of a key with a weight of one costs. A heavier key pays less, so its turn comes more often.
pub const TURN_COST: u64 = 1_000;
/// The heaviest weight of a key.
pub const WEIGHT_MAX: u32 = 1_000;
/// How many keys of a queue may have a weight or a pause of their own.
pub const KEYS_NAMED_MAX: usize = 1_000;
/// How many gates one claim looks at in a queue, at most.
pub const GATES_LOOKED_MAX: usize = 1_000;
/// How many more jobs behind a gate a claim looks at than it may take, because some may be of kinds that it was not asked for.
pub const PASSED_MAX: usize = 100;

/// What holds for each key of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct KeyRules {
    /// How many jobs of one key may run at once, over all workers; at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many jobs of one key may start in a time, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How much more often than others some keys have their turn; one for all others.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub weights: BTreeMap<Name, u32>,
}

impl KeyRules {
    /// The weight of a key.
    pub fn weight(&self, key: &Name) -> u32 {
        self.weights.get(key).copied().unwrap_or(1).max(1)
    }

    /// By how much the turn of a key moves for jobs that it gave.
    pub fn cost(&self, key: &Name, jobs: u64) -> u64 {
        jobs.saturating_mul(TURN_COST / u64::from(self.weight(key).min(WEIGHT_MAX)))
    }

    /// How many of the wanted jobs a gate may give in a round in which gates of this weight in all are asked: its part, and
    /// at least one.
    pub fn quota(&self, key: &Name, wanted: u32, weight_all: u64) -> u32 {
        let part = (u64::from(wanted) * u64::from(self.weight(key))).div_ceil(weight_all.max(1));
        u32::try_from(part).unwrap_or(u32::MAX).max(1)
    }

    /// How many more jobs of a key they leave while so many run; nothing for any number.
    pub fn room(&self, running: u64, permits: Option<Permits>) -> Option<u64> {
        room(self.concurrency, running, permits)
    }

    /// How many of these a gate leaves while so many jobs of its key run.
    pub fn leave(&self, quota: u32, running: u64, permits: Option<Permits>) -> u32 {
        within(quota, self.room(running, permits))
    }

    /// Whether they may keep jobs of a key from starting.
    pub fn limit(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some()
    }

    pub(super) fn check(&self) -> Result<(), QueueInvalid> {
        if self.concurrency == Some(0) {
            return Err(QueueInvalid::NoKeyConcurrency);
        }
        if let Some(rate) = self.rate {
            rate.check().map_err(QueueInvalid::Rate)?;
        }
        if self.weights.len() > KEYS_NAMED_MAX {
            return Err(QueueInvalid::KeysNamed { count: self.weights.len() });
        }
        match self.weights.iter().find(|(_, weight)| !(1..=WEIGHT_MAX).contains(*weight)) {
            Some((key, &weight)) => Err(QueueInvalid::Weight { key: key.clone(), weight }),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Name {
        Name::new(name).unwrap()
    }

    #[test]
    fn a_heavier_key_pays_less_and_may_give_more() {
        let rules = KeyRules { weights: [(name("big"), 4)].into(), ..KeyRules::default() };
        assert_eq!((rules.cost(&name("big"), 8), rules.cost(&name("small"), 8)), (2_000, 8_000));
        assert_eq!((rules.quota(&name("big"), 10, 5), rules.quota(&name("small"), 10, 5)), (8, 2));
        assert_eq!(rules.quota(&name("small"), 1, 500), 1, "each gate gives one at least");
        assert_eq!(rules.cost(&name("small"), u64::MAX), u64::MAX, "a turn does not overflow");
    }

    #[test]
    fn a_gate_leaves_what_both_of_its_rules_leave() {
        let rules = KeyRules { concurrency: Some(3), ..KeyRules::default() };
        let permits = |jobs| Some(Permits { jobs, more_at: None });
        assert_eq!(rules.leave(9, 1, None), 2);
        assert_eq!(rules.leave(9, 1, permits(1)), 1);
        assert_eq!(rules.leave(9, 5, permits(1)), 0, "more run than may");
        assert_eq!(KeyRules::default().leave(9, 100, None), 9);
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        let weight = |weight| KeyRules { weights: [(name("a"), weight)].into(), ..KeyRules::default() };
        assert_eq!(weight(1_000).check(), Ok(()));
        for bad in [weight(0), weight(1_001), KeyRules { concurrency: Some(0), ..KeyRules::default() }] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
    }
}
