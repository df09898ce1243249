//! What queues permit and what they hold.

use std::ops::Bound::{Excluded, Unbounded};

use async_trait::async_trait;
use windlass_core::Name;
use windlass_core::queue::{QueueConfig, QueueRecord};
use windlass_core::store::{Queues, StoreResult};

use crate::MemoryStore;

#[async_trait]
impl Queues for MemoryStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        self.write(|table, _| {
            let queue = table.queues.entry(queue.clone()).or_default();
            queue.config = config.clone();
            queue.is_defined = true;
        });
        Ok(())
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let start = after.map_or(Unbounded, Excluded);
        Ok(self.read(|table, _| {
            let queues = table.queues.range::<Name, _>((start, Unbounded)).take(limit as usize);
            queues
                .map(|(name, queue)| QueueRecord {
                    name: name.clone(),
                    config: queue.config.clone(),
                    counts: queue.counts,
                    unreadable: None,
                })
                .collect()
        }))
    }
}
