//! The part that knows queues.

use async_trait::async_trait;

use super::StoreResult;
use crate::name::Name;
use crate::queue::{QueueConfig, QueueRecord};

/// Queues: what they permit and what they hold.
#[async_trait]
pub trait Queues {
    /// Sets the definition of a queue, replacing the one it had. One that [`QueueConfig::check`] refuses is
    /// refused. New caps hold for what is written from now on, new retention for what has finished as well.
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()>;

    /// Queues that were defined or hold jobs, by name in byte order, after the given one, at most `limit`.
    /// The counts are exactly what [`Inspect::list`](super::Inspect::list) would find.
    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>>;
}
