//! How many slots a worker has, and which queue may use how many of them.

use windlass_core::Name;

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
    /// Slots that it may use at most.
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

    /// The most jobs that a lease of this worker can hold.
    pub(crate) fn held_max(&self) -> u32 {
        let jobs = self.concurrency.saturating_add(self.prefetch_max).saturating_mul(2);
        u32::try_from(jobs).unwrap_or(u32::MAX)
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let concurrency = self.concurrency;
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
