//! The part that keeps a store in order, in bounded steps.

use async_trait::async_trait;

use super::StoreResult;
use crate::bell::{Rings, Topic};

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
}

/// What a promotion moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Promotion {
    /// Jobs that are ready now.
    pub promoted: u32,
    /// Jobs that are dead now, because they were not started in time.
    pub expired: u32,
}

impl Promotion {
    /// The rings that it owes: for workers that do not know when jobs are due, and for callers that wait for an end.
    pub fn rings(&self) -> Rings {
        let work = (self.promoted > 0).then_some(Topic::Work);
        work.into_iter().chain((self.expired > 0).then_some(Topic::Finish)).collect()
    }
}
