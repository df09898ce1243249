//! What queues permit and what they hold.

use std::ops::Bound::{Excluded, Unbounded};

use async_trait::async_trait;
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord, Removed, check_rules};
use windlass_core::store::{Queues, StoreResult};
use windlass_core::{Name, State};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::table::Table;

#[async_trait]
impl Queues for MemoryStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        config.check()?;
        self.write(|table, _| {
            check_rules(queue, table.rules(queue))?;
            table.define(queue, config);
            Ok(())
        })
    }

    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool> {
        config.check()?;
        self.write(|table, _| {
            check_rules(queue, table.rules(queue))?;
            let is_same = table.config(queue) == before || table.has(Bug::RedefineBlindly);
            if is_same {
                table.define(queue, config);
            }
            Ok(is_same)
        })
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        Ok(self.read(|_, now| now))
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let start = after.map_or(Unbounded, Excluded);
        Ok(self.read(|table, now| {
            let queues = table.queues.range::<Name, _>((start, Unbounded)).take(limit as usize);
            queues
                .map(|(name, queue)| QueueRecord {
                    name: name.clone(),
                    config: queue.config.clone(),
                    counts: queue.counts,
                    permits: match queue.config.rate.filter(|_| table.has(Bug::ShowUnspent)) {
                        Some(rate) => Some(rate.permits([], now)),
                        None => queue.permits(now),
                    },
                    unreadable: None,
                })
                .collect()
        }))
    }

    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        self.write(|table, _| {
            check_rules(queue, table.rules(queue))?;
            Ok(table.remove_queue(queue))
        })
    }
}

impl MemoryStore {
    /// Defines a queue as a program does that knows this rule. For tests of what programs do that know fewer.
    #[doc(hidden)]
    pub fn use_rule(&self, queue: &Name, rule: u32) {
        self.write(|table, _| {
            table.define(queue, &QueueConfig::default());
            table.queues.get_mut(queue).expect("it was just defined").rules = rule;
        });
    }
}

impl Table {
    fn define(&mut self, queue: &Name, config: &QueueConfig) {
        let defined = self.queues.entry(queue.clone()).or_default();
        if defined.config.rate != config.rate {
            defined.spent.clear();
        }
        let rate_of_keys = |config: &QueueConfig| config.keys.as_ref().and_then(|keys| keys.rate);
        if rate_of_keys(&defined.config) != rate_of_keys(config) {
            defined.gates.forget_spent();
        }
        defined.gates.hasten();
        let rules = config.rules_after(defined.rules);
        (defined.config, defined.rules, defined.is_defined) = (config.clone(), rules, true);
        self.ring(Rings::entered(State::Ready, queue));
    }

    /// Forgets a queue if it holds no job. Leases name it still, and a job that comes makes it anew.
    fn remove_queue(&mut self, name: &Name) -> Removed {
        let Some(queue) = self.queues.get(name) else { return Removed::Missing };
        let ignores_ends = self.has(Bug::RemoveWithEnds) && queue.counts.open() == 0;
        let counts = if ignores_ends { Counts::default() } else { queue.counts };
        let removed = Removed::of(counts, queue.is_defined);
        if removed != Removed::Done || self.has(Bug::KeepDefinition) {
            return removed;
        }
        self.keys.forget(name);
        if queue.counts.total() == 0 {
            self.queues.remove(name);
        } else if let Some(queue) = self.queues.get_mut(name) {
            // With the bug: its jobs stay, and it has no definition.
            (queue.config, queue.rules, queue.is_defined) = (QueueConfig::default(), 0, false);
        }
        removed
    }
}
