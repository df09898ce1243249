//! The part that knows queues.

use async_trait::async_trait;

use super::StoreResult;
use crate::clock::Timestamp;
use crate::name::Name;
use crate::queue::{QueueConfig, QueueRecord, Removed};

/// Queues: what they permit and what they hold.
#[async_trait]
pub trait Queues {
    /// Sets the definition of a queue, replacing the one it had. One that [`QueueConfig::check`] refuses is
    /// refused. New caps hold for what is written from now on, new retention for what has finished as well.
    /// Workers that wait are woken: there may be more to claim now. A rate that is not the one before begins anew: nothing
    /// counts as spent. Gates of
    /// keys that are closed open where the rules for their key have changed, and a queue that uses the [rule of keys](crate::queue::RULE_OF_KEYS) goes on to use it
    /// ([`QueueConfig::rules_after`]), whatever the new definition says.
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()>;

    /// Sets the definition of a queue as [`define`](Queues::define) does, if it is still the one that the caller has read:
    /// the default one for a queue that has none. Answers whether it was set. A queue that uses a rule which this program does
    /// not know is refused, also where the caller has read another definition.
    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool>;

    /// The present instant of the store's clock, by which everything is decided.
    async fn now(&self) -> StoreResult<Timestamp>;

    /// Queues that were defined or hold jobs, by name in byte order, after the given one, at most `limit`.
    /// The counts are exactly what [`Inspect::list`](super::Inspect::list) would find.
    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>>;

    /// One of these queues by its name; nothing if it was not defined and holds nothing. Enqueues ask for it, so a store
    /// whose list has to pass by empty queues answers it another way.
    async fn queue(&self, name: &Name) -> StoreResult<Option<QueueRecord>> {
        // The list is ordered by name, so it begins with this queue after the last name before it.
        let page = self.queues(name.before().as_ref(), 1).await?;
        Ok(page.into_iter().find(|queue| queue.name == *name))
    }

    /// Forgets a queue that holds no job at all, finished ones included, and its definition. One that holds jobs is
    /// refused with its counts. Workers that serve it may live: they notice nothing, and the queue comes back, with the
    /// default definition, when a job is enqueued there by any program.
    async fn remove(&self, queue: &Name) -> StoreResult<Removed>;
}
