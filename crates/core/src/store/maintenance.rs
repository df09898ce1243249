//! The part that keeps a store in order, in bounded steps.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreResult;
use crate::bell::Rings;
use crate::clock::Timestamp;
use crate::id::HolderId;
use crate::name::Name;

/// Work that no job asks for.
#[async_trait]
pub trait Maintenance {
    /// Moves jobs of any queue whose time has come to `ready` and those whose expiry has passed to `dead`,
    /// at most `limit` of each; which of them first is the store's choice. Claims do this for their own
    /// queues; this is for queues without workers.
    async fn promote(&self, limit: u32) -> StoreResult<Promotion>;

    /// Removes finished jobs that their queue's retention no longer keeps, at most `limit`, and answers how
    /// many. When it answers `limit` there may be more. Too old is what ended more than the age ago; too
    /// many are those that ended first, and of those that ended together the ones accepted first. Ends that
    /// `settle` and `reap` did not store, because their queue keeps none, are not there to prune.
    async fn prune(&self, limit: u32) -> StoreResult<u32>;

    /// Housekeeping of the store's own: folds counters, forgets calls that are no longer repeated, finishes what
    /// another program has begun. At most `limit` items of each kind; answers how many in all. It moves no job and
    /// removes none. A store that keeps itself in order within its other calls has nothing to do here.
    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        let _ = limit;
        Ok(0)
    }

    /// Takes a duty for `ttl` from now, or keeps it: by the store's clock, one holder has it at a time. A duty that has
    /// run out goes to the next that asks, and so does one that would last longer than `ttl`: its holder has longer
    /// pauses, or the clock was set.
    ///
    /// It saves work and is never a right: sweeps stay correct when several run at once. A store that keeps no duties
    /// gives each to every holder.
    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        let _ = (duty, holder, ttl);
        Ok(Shift::Own)
    }

    /// Gives a duty back, so that the next holder need not wait until it runs out. Another holder's stays as it is.
    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        let _ = (duty, holder);
        Ok(())
    }
}

/// Work that is enough to be done by one worker of a fleet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Duty {
    /// Takes lost jobs back.
    Reap,
    /// Promotes in queues without workers, and tidies.
    Promote,
    /// Removes what is no longer kept.
    Prune,
    /// Looks after jobs that died.
    Redrive,
}

impl Duty {
    /// Every duty.
    pub const ALL: [Self; 4] = [Self::Reap, Self::Promote, Self::Prune, Self::Redrive];

    /// The name that a store keeps it under.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reap => "reap",
            Self::Promote => "promote",
            Self::Prune => "prune",
            Self::Redrive => "redrive",
        }
    }
}

/// Who has a duty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shift {
    /// The holder that asked.
    Own,
    /// Another one, and it runs out after so long unless that one keeps it.
    Other(Duration),
}

impl Shift {
    /// Whose a duty is that another holder has until some instant: its own until then, and the asker's from then on.
    pub fn of_other(until: Timestamp, now: Timestamp, ttl: Duration) -> Self {
        let left = until.since(now);
        if left.is_zero() || left > ttl { Self::Own } else { Self::Other(left) }
    }
}

/// What a promotion moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    /// Jobs that are ready now.
    pub promoted: u32,
    /// Jobs that are dead now, because they were not started in time.
    pub expired: u32,
}

impl Promotion {
    /// The rings that it owes where it was about one queue: for workers that do not know when jobs are due, and for
    /// callers that wait for an end.
    pub fn rings(&self, queue: &Name) -> Rings {
        let mut rings = Rings::NONE;
        if self.promoted > 0 {
            rings.add_work(queue, None, self.promoted);
        }
        if self.expired > 0 {
            rings.add_ends();
        }
        rings
    }
}
