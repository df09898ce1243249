//! What queues permit and what they hold.

use std::ops::Bound::{Excluded, Unbounded};

use async_trait::async_trait;
use windlass_core::Name;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord, Removed};
use windlass_core::store::{Queues, StoreResult};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::table::Table;

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

    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        Ok(self.write(|table, _| table.remove_queue(queue)))
    }
}

impl Table {
    /// Forgets a queue if it holds no job. Leases name it still, and a job that comes makes it anew.
    fn remove_queue(&mut self, name: &Name) -> Removed {
        let Some(queue) = self.queues.get(name) else { return Removed::Missing };
        let ignores_ends = self.has(Bug::RemoveWithEnds) && queue.counts.open() == 0;
        let counts = if ignores_ends { Counts::default() } else { queue.counts };
        let removed = Removed::of(counts, queue.is_defined);
        if removed != Removed::Done || self.has(Bug::KeepDefinition) {
            return removed;
        }
        if queue.counts.total() == 0 {
            self.queues.remove(name);
        } else if let Some(queue) = self.queues.get_mut(name) {
            // With the bug: its jobs stay, and it has no definition.
            (queue.config, queue.is_defined) = (QueueConfig::default(), false);
        }
        removed
    }
}
