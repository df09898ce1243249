//! The part that knows queues.

use async_trait::async_trait;

use super::StoreResult;
use crate::name::Name;
use crate::queue::{QueueConfig, QueueRecord};

/// Queues: what they permit and what they hold.
#[async_trait]
pub trait Queues {
    /// Sets the definition of a queue, replacing the one it had.
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()>;

    /// Queues that were defined or hold jobs, by name, after the given one, at most `limit`.
    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>>;
}
