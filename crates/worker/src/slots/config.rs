//! How many slots a worker has, which may change, and which queue may use how many of them.

use windlass_core::Name;

use super::Slots;
use crate::error::ConfigError;

/// The slots of a worker.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// Slots in all.
    pub(crate) concurrency: usize,
    pub(crate) queues: Vec<QueueSlots>,
    /// Jobs that may be claimed ahead of their start.
    pub(crate) prefetch_max: usize,
}

/// What one queue may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueSlots {
    pub(crate) queue: Name,
    /// Slots that only it may use.
    pub(crate) reserved: usize,
    /// Slots that it may use at most; may be more than there are.
    pub(crate) limit: usize,
    /// How many turns it has to one of a queue whose weight is 1.
    pub(crate) weight: u32,
}

/// The most that a queue may weigh.
pub(crate) const WEIGHT_MAX: u32 = 1_000;

impl Config {
    /// The queues this worker serves.
    pub(crate) fn queue_names(&self) -> Vec<Name> {
        self.queues.iter().map(|slots| slots.queue.clone()).collect()
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let concurrency = self.concurrency;
        if concurrency == 0 {
            return Err(ConfigError::TooSmall { what: "concurrency", given: 0, least: 1 });
        }
        let reserved: usize = self.queues.iter().map(|slots| slots.reserved).sum();
        if reserved > concurrency {
            return Err(ConfigError::OverReserved { reserved, concurrency });
        }
        for QueueSlots { queue, reserved: own, limit, weight } in &self.queues {
            let queue = queue.to_string();
            if !(1..=WEIGHT_MAX).contains(weight) {
                return Err(ConfigError::Weight { queue, given: *weight, most: WEIGHT_MAX });
            }
            if own > limit {
                return Err(ConfigError::ReservedAboveLimit { queue, reserved: *own, slots: *limit });
            }
            if *own == 0 && reserved == concurrency {
                return Err(ConfigError::NoSlot { queue });
            }
        }
        Ok(())
    }
}

impl Slots {
    /// Changes the number of slots. Attempts that run go on; when there are more of them than slots, none starts until
    /// enough have ended.
    ///
    /// # Errors
    /// When the slots that are reserved would not fit.
    pub(crate) fn set_concurrency(&mut self, concurrency: usize) -> Result<(), ConfigError> {
        let config = Config { concurrency, ..self.config.clone() };
        config.check()?;
        self.config = config;
        self.shares.resize(concurrency);
        // Places are never taken away: how many are used is up to the shares.
        let places = self.occupied.len()..self.occupied.len().max(concurrency);
        self.free.extend(places.clone());
        self.occupied.extend(places.map(|_| None));
        Ok(())
    }

    /// How many slots there are.
    pub(crate) fn concurrency(&self) -> usize {
        self.config.concurrency
    }

    /// The most jobs that a lease of this worker can hold.
    pub(crate) fn held_max(&self) -> u32 {
        let jobs = self.occupied.len().saturating_add(self.config.prefetch_max).saturating_mul(2);
        u32::try_from(jobs).unwrap_or(u32::MAX)
    }
}
