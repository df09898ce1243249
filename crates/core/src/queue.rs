//! What a queue keeps and permits, and what it holds.

mod aging;
mod defaults;
mod keys;
mod pause;
mod rate;
mod retention;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::StoreError;
use crate::job::JobInvalid;
use crate::name::Name;
use crate::size::{CAP_MAX, Caps};
use crate::state::State;
use crate::stored;

pub use crate::unique::Unique;
pub use aging::{Aged, LEVEL_WORTH_MAX, LEVEL_WORTH_MIN, LEVELS_LOOKED_MAX};
pub use defaults::JobDefaults;
pub use keys::{GATES_LOOKED_MAX, KEYS_NAMED_MAX, KeyRules, PASSED_MAX, TURN_COST, WEIGHT_MAX};
pub use pause::{Pause, Pauses};
pub use rate::{Permits, Rate, RateInvalid, Shape, Spent};
pub use retention::{Excess, Keep, Retention};

/// The newest rule for queues that this library knows. A rule is what a program must heed to use a queue (a pause, a limit)
/// and gets a number when it comes. A store keeps with each definition the newest rule that it uses; a program that does
/// not know this one stays out of the queue.
///
/// | number | rules |
/// |---|---|
/// | 1 | pauses of a queue and of kinds, the concurrency and the rate of a queue; aging, which came later and which a program that does not know it may leave aside |
/// | 2 | keys of jobs, pauses of keys, the capacity of a queue |
pub const RULES: u32 = 2;

/// The rule that a queue uses from its first definition with keys on. It stays until the queue is removed: its jobs may stand
/// behind gates.
pub const RULE_OF_KEYS: u32 = 2;

/// Fails when a queue uses a rule that this library does not know.
pub fn check_rules(queue: &Name, rules: u32) -> Result<(), StoreError> {
    if rules > RULES {
        Err(StoreError::UnknownRules { queue: queue.clone(), rules, known: RULES })
    } else {
        Ok(())
    }
}

/// The definition of a queue. A queue without one has the default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueConfig {
    /// How long finished jobs stay.
    pub retention: Retention,
    /// How large payloads, outputs and errors may be.
    pub caps: Caps,
    /// What of it is not handed out.
    #[serde(skip_serializing_if = "Pauses::is_empty")]
    pub pauses: Pauses,
    /// How many of its jobs may run at once, over all workers; at least one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many of its jobs may start in a time, over all workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// How many of its jobs may wait; at least one. An enqueue that would make it more is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<u64>,
    /// What a level of priority is worth; nothing where the higher level always goes first. Among its ready jobs, and among those
    /// of each key, nothing waits behind work that came more than the difference of levels times this later. Whole
    /// microseconds, from [`LEVEL_WORTH_MIN`] to [`LEVEL_WORTH_MAX`].
    #[serde(with = "aging::micros", skip_serializing_if = "Option::is_none")]
    pub aging: Option<Duration>,
    /// What holds for each key of its jobs. Only a queue that has this takes jobs with a key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keys: Option<KeyRules>,
    /// What holds for jobs that say nothing themselves.
    #[serde(skip_serializing_if = "JobDefaults::is_empty")]
    pub defaults: JobDefaults,
    /// Whether the HTTP API shows contents of its jobs (payload, output, progress, errors, log lines) only to those who ask to
    /// reveal them. No store and no worker heeds it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub masked: bool,
}

impl QueueConfig {
    /// What holds for a queue whose definition does not read: the default sizes, and nothing is removed, since the
    /// definition may have asked for that.
    pub fn unreadable() -> Self {
        let retention = Retention { completed: Keep::FOREVER, dead: Keep::FOREVER, cancelled: Keep::FOREVER };
        Self { retention, ..Self::default() }
    }

    /// A definition as stores keep it.
    pub fn text(&self) -> String {
        serde_json::to_string(self).expect("numbers and durations have a text")
    }

    /// What [`text`](Self::text) says of the rate; two definitions with the same rate say the same. Nothing for none.
    pub fn rate_text(&self) -> Option<String> {
        let rate = serde_json::to_string(&self.rate?).expect("numbers have a text");
        Some(format!("\"rate\":{rate}"))
    }

    /// A definition that was stored. One that does not read is [`unreadable`](Self::unreadable), and it is said why.
    pub fn read(stored: &[u8]) -> (Self, Option<String>) {
        match stored::parsed("queue definition", stored) {
            Ok(config) => (config, None),
            Err(why) => (Self::unreadable(), Some(why)),
        }
    }

    /// The newest rule that it uses.
    pub fn rules(&self) -> u32 {
        let Self {
            retention: _,
            caps: _,
            defaults: _,
            masked: _,
            pauses,
            concurrency,
            rate,
            capacity,
            aging,
            keys,
        } = self;
        if keys.is_some() || capacity.is_some() || !pauses.keys.is_empty() {
            RULE_OF_KEYS
        } else {
            u32::from(!pauses.is_empty() || concurrency.is_some() || rate.is_some() || aging.is_some())
        }
    }

    /// The newest rule that a queue uses from now on which used this one before.
    pub fn rules_after(&self, before: u32) -> u32 {
        if before >= RULE_OF_KEYS { self.rules().max(before) } else { self.rules() }
    }

    /// Whether it has a concurrency or a rate, for itself or for keys. Then it gives no jobs to wait for a slot: they would
    /// hold places and permits that others could use at once.
    pub fn limits(&self) -> bool {
        self.concurrency.is_some() || self.rate.is_some() || self.keys.as_ref().is_some_and(KeyRules::limit)
    }

    /// Fails when the queue has no room for more jobs, while so many wait.
    ///
    /// # Errors
    /// [`StoreError::QueueFull`].
    pub fn check_room(&self, queue: &Name, waiting: u64, more: u64) -> Result<(), StoreError> {
        match self.capacity {
            Some(capacity) if waiting.saturating_add(more) > capacity => {
                Err(StoreError::QueueFull { queue: queue.clone(), capacity, waiting })
            }
            _ => Ok(()),
        }
    }

    /// How many more jobs its limits leave while so many run; nothing for any number. Pauses are not looked at.
    pub fn room(&self, running: u64, permits: Option<Permits>) -> Option<u64> {
        room(self.concurrency, running, permits)
    }

    /// Fails when it makes no sense, or a cap is above what a store can hold.
    pub fn check(&self) -> Result<(), QueueInvalid> {
        if self.concurrency == Some(0) {
            return Err(QueueInvalid::NoConcurrency);
        }
        if let Some(rate) = self.rate {
            rate.check().map_err(QueueInvalid::Rate)?;
        }
        if self.capacity == Some(0) {
            return Err(QueueInvalid::NoCapacity);
        }
        self.check_aging()?;
        if self.pauses.keys.len() > KEYS_NAMED_MAX {
            return Err(QueueInvalid::KeysNamed { count: self.pauses.keys.len() });
        }
        if let Some(keys) = &self.keys {
            keys.check()?;
        }
        self.defaults.check()?;
        let Caps { payload, output, error } = self.caps;
        for (what, bytes) in [("payload", payload), ("output", output), ("error", error)] {
            if bytes > CAP_MAX {
                return Err(QueueInvalid::Cap { what, bytes });
            }
        }
        Ok(())
    }
}

/// What is wanted, as far as there is room for it; nothing for any number.
pub fn within(wanted: u32, room: Option<u64>) -> u32 {
    room.map_or(wanted, |room| wanted.min(u32::try_from(room).unwrap_or(u32::MAX)))
}

/// How many more jobs a concurrency and a rate leave while so many run.
fn room(concurrency: Option<u32>, running: u64, permits: Option<Permits>) -> Option<u64> {
    let free = concurrency.map(|most| u64::from(most).saturating_sub(running));
    [free, permits.map(|permits| permits.jobs)].into_iter().flatten().min()
}

/// A queue definition that no store takes.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueueInvalid {
    /// A cap above what a store can hold.
    #[error("{what} cap of {bytes} bytes: at most {CAP_MAX} is possible")]
    Cap {
        /// What it is the cap of.
        what: &'static str,
        /// How large it would be.
        bytes: usize,
    },
    /// No job may run.
    #[error("a concurrency of 0: pause the queue instead")]
    NoConcurrency,
    /// A rate that makes no sense.
    #[error("{0}")]
    Rate(RateInvalid),
    /// No job of a key may run.
    #[error("a concurrency of 0 for each key: pause the queue, or single keys, instead")]
    NoKeyConcurrency,
    /// A weight that makes no sense.
    #[error("a weight of {weight} for key {key}: give 1 to {WEIGHT_MAX}")]
    Weight {
        /// The key.
        key: Name,
        /// What was given.
        weight: u32,
    },
    /// Too many keys that are named.
    #[error("{count} keys with a weight or a pause: at most {KEYS_NAMED_MAX} are possible")]
    KeysNamed {
        /// How many were given.
        count: usize,
    },
    /// Defaults for jobs that make no sense.
    #[error("defaults of its jobs: {0}")]
    Defaults(Box<JobInvalid>),
    /// A worth of levels that makes no sense.
    #[error("an aging of {worth:?}: a level is worth 1ms to 24h; none for the higher level always first")]
    LevelWorth {
        /// What was given.
        worth: Duration,
    },
    /// No job may wait.
    #[error("a capacity of 0: pause the queue, or remove it, instead")]
    NoCapacity,
}

/// How many jobs a queue holds, by state. Kept up to date with every change, never counted by a scan.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts([u64; State::ALL.len()]);

impl Counts {
    /// The number of jobs in a state.
    pub fn of(&self, state: State) -> u64 {
        self.0[usize::from(state.code())]
    }

    /// Sets the number of jobs in a state.
    pub fn set(&mut self, state: State, count: u64) {
        self.0[usize::from(state.code())] = count;
    }

    /// All jobs, finished ones included.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Jobs that wait: blocked, scheduled and ready ones.
    pub fn waiting(&self) -> u64 {
        State::ALL.into_iter().filter(|state| state.is_waiting()).map(|state| self.of(state)).sum()
    }

    /// Jobs that have not come to their end.
    pub fn open(&self) -> u64 {
        State::ALL.into_iter().filter(|state| !state.is_terminal()).map(|state| self.of(state)).sum()
    }
}

/// A queue as anyone can look at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QueueRecord {
    /// Its name.
    pub name: Name,
    /// Its definition.
    pub config: QueueConfig,
    /// What it holds.
    pub counts: Counts,
    /// What its rate permits now; nothing where it has none, or could not be asked.
    pub permits: Option<Permits>,
    /// Why its definition does not read, if so; then [`QueueConfig::unreadable`] holds for it.
    pub unreadable: Option<String>,
}

/// What came of removing a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removed {
    /// It is gone, and its definition with it.
    Done,
    /// It holds these jobs, so it stays as it is.
    NotEmpty(Counts),
    /// It was not there: it has no definition and holds no job.
    Missing,
}

impl Removed {
    /// What becomes of a queue that holds these jobs.
    pub fn of(counts: Counts, is_defined: bool) -> Self {
        match (counts.total(), is_defined) {
            (0, true) => Self::Done,
            (0, false) => Self::Missing,
            _ => Self::NotEmpty(counts),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_reads_back_and_may_leave_things_out() {
        let config = QueueConfig {
            retention: Retention { completed: Keep::count(10), ..Retention::default() },
            ..QueueConfig::default()
        };
        assert_eq!(QueueConfig::read(config.text().as_bytes()), (config, None));
        assert_eq!(QueueConfig::read(b"{}"), (QueueConfig::default(), None));
    }

    #[test]
    fn the_text_of_a_rate_is_part_of_the_whole() {
        let rate = |jobs| Some(Rate::new(jobs, Duration::from_secs(1)));
        let config = QueueConfig { rate: rate(5), ..QueueConfig::default() };
        assert!(config.text().contains(&config.rate_text().unwrap()));
        let other = QueueConfig { rate: rate(50), ..QueueConfig::default() };
        assert!(!other.text().contains(&config.rate_text().unwrap()));
        assert_eq!(QueueConfig::default().rate_text(), None);
    }

    #[test]
    fn a_definition_that_does_not_read_removes_nothing() {
        let (config, why) = QueueConfig::read(b"[7]");
        assert_eq!(config, QueueConfig::unreadable());
        assert!(why.is_some_and(|why| why.starts_with("a queue definition does not read back: ")));
    }

    #[test]
    fn absurd_caps_are_refused() {
        let config =
            QueueConfig { caps: Caps { output: CAP_MAX + 1, ..Caps::default() }, ..QueueConfig::default() };
        assert!(config.check().unwrap_err().to_string().starts_with("output cap of 67108865 bytes"));
    }
}
