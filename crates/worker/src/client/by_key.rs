//! What the keys of a queue hold, for people who ask why a customer's jobs wait. By a bounded look at the newest jobs.

use std::collections::BTreeMap;

use windlass_core::clock::Timestamp;
use windlass_core::{Name, State};

use super::QueueHandle;
use super::queue::{CALLS_MAX, PAGE};
use crate::error::Result;

/// What a queue holds by key. [`QueueHandle::by_key`] looks at no more than 1,000 jobs of each state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ByKey {
    /// The keys with ready or running jobs among those that were looked at; the one that waits longest first.
    pub keys: Vec<KeyBacklog>,
    /// There are more ready jobs than were looked at: there may be more keys, and longer waits.
    pub has_more_ready: bool,
    /// There are more running jobs than were looked at.
    pub has_more_running: bool,
}

/// What a queue holds of one key, among the jobs that were looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyBacklog {
    /// The key.
    pub key: Name,
    /// Jobs that could start.
    pub ready: u64,
    /// Jobs that run.
    pub running: u64,
    /// Since when the one that waits longest could have started.
    pub oldest: Option<Timestamp>,
}

impl QueueHandle {
    /// How many jobs of each key are ready and run, and how long they wait. A bounded look, as
    /// [`backlog`](Self::backlog) is.
    pub async fn by_key(&self) -> Result<ByKey> {
        let mut found: BTreeMap<Name, KeyBacklog> = BTreeMap::new();
        let has_more_ready = self.add_by_key(State::Ready, &mut found).await?;
        let has_more_running = self.add_by_key(State::Running, &mut found).await?;
        let mut keys: Vec<KeyBacklog> = found.into_values().collect();
        keys.sort_by_key(|key| (key.oldest.is_none(), key.oldest));
        Ok(ByKey { keys, has_more_ready, has_more_running })
    }

    /// Adds the jobs of a state. Answers whether there are more than were looked at.
    async fn add_by_key(&self, state: State, found: &mut BTreeMap<Name, KeyBacklog>) -> Result<bool> {
        let mut next = None;
        for _ in 0..CALLS_MAX {
            let page = self.list(state, next.as_ref(), PAGE).await?;
            for (key, due_at) in page.jobs.into_iter().filter_map(|job| Some((job.key?, job.due_at))) {
                let empty = KeyBacklog { key: key.clone(), ready: 0, running: 0, oldest: None };
                let of_key = found.entry(key).or_insert(empty);
                if state == State::Ready {
                    of_key.ready += 1;
                    of_key.oldest = Some(of_key.oldest.map_or(due_at, |oldest| oldest.min(due_at)));
                } else {
                    of_key.running += 1;
                }
            }
            next = page.next;
            if next.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
