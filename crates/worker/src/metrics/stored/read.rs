//! One look at a store: its queues, its workers, and the jobs that wait longest.

use std::collections::HashMap;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, QueueRecord};
use windlass_core::store::Filter;
use windlass_core::{Name, State};

use super::super::SERIES_MAX;
use super::super::capped::other;
use super::Snapshot;
use crate::client::Client;
use crate::error::Result;

/// Queues of one call.
const PAGE: u32 = 100;
/// Calls for queues of one look.
const PAGES_MAX: usize = 10;
/// Queues that are shown by name: each has a series for every state.
const QUEUES_MAX: usize = SERIES_MAX / State::ALL.len();
/// Leases that are looked at.
const LEASES_MAX: u32 = 1_000;
/// Queues whose ready jobs are looked at, and how many of each: they come with their payloads.
const LOOKS_MAX: usize = 50;
const READY_MAX: u32 = 10;

/// One queue, or all that are not shown by name.
pub(in super::super) struct Queue {
    pub(super) name: Name,
    pub(super) counts: Counts,
    pub(super) workers: u64,
    /// For how long the oldest ready job that was seen could have started.
    pub(super) oldest: Duration,
    /// There are older ones, perhaps.
    pub(super) is_partial: bool,
    pub(super) is_paused: bool,
    pub(super) concurrency: Option<u32>,
    pub(super) capacity: Option<u64>,
    pub(super) rate: Option<String>,
    /// It stands for several.
    pub(super) is_merged: bool,
}

/// Looks at the store. The calls have bounds; what they leave out is counted under `other`.
pub(super) async fn read(client: &Client) -> Result<Snapshot> {
    let now = client.store().now().await?;
    let leases = client.workers(LEASES_MAX).await?;
    let living = || leases.iter().filter(|lease| !lease.is_lost);
    let mut serving = HashMap::<Name, u64>::new();
    for queue in living().flat_map(|lease| &lease.queues) {
        *serving.entry(queue.clone()).or_default() += 1;
    }
    let (mut queues, mut rest, mut looks) = (Vec::new(), None::<Queue>, 0);
    for record in all(client).await? {
        let workers = serving.get(&record.name).copied().unwrap_or_default();
        let mut queue = Queue::new(record, workers, now);
        if queues.len() == QUEUES_MAX {
            rest.get_or_insert_with(Queue::others).add(&queue);
            continue;
        }
        if queue.counts.of(State::Ready) > 0 {
            queue.is_partial = true;
            if looks < LOOKS_MAX {
                looks += 1;
                queue.look(client, now).await?;
            }
        }
        queues.push(queue);
    }
    queues.extend(rest);
    Ok(Snapshot { scheme: client.about().scheme, queues, workers: living().count() as u64 })
}

/// The first queues by name.
async fn all(client: &Client) -> Result<Vec<QueueRecord>> {
    let mut all = Vec::<QueueRecord>::new();
    for _ in 0..PAGES_MAX {
        let after = all.last().map(|queue| queue.name.clone());
        let page = client.queues(after.as_ref(), PAGE).await?;
        let is_last = page.len() < PAGE as usize;
        all.extend(page);
        if is_last {
            break;
        }
    }
    Ok(all)
}

impl Queue {
    fn new(record: QueueRecord, workers: u64, now: Timestamp) -> Self {
        let QueueRecord { name, config, counts, .. } = record;
        let rate = config.rate.map(|rate| format!("{}/{:?}", rate.jobs, rate.per));
        Self {
            name,
            counts,
            workers,
            oldest: Duration::ZERO,
            is_partial: false,
            is_paused: config.pauses.queue.is_some_and(|pause| pause.holds(now)),
            concurrency: config.concurrency,
            capacity: config.capacity,
            rate,
            is_merged: false,
        }
    }

    fn others() -> Self {
        Self {
            name: other(),
            counts: Counts::default(),
            workers: 0,
            oldest: Duration::ZERO,
            is_partial: true,
            is_paused: false,
            concurrency: None,
            capacity: None,
            rate: None,
            is_merged: true,
        }
    }

    /// Whether it has ready jobs that nothing comes for.
    pub(super) fn is_unserved(&self) -> bool {
        self.counts.of(State::Ready) > 0 && self.workers == 0 && !self.is_paused && !self.is_merged
    }

    fn add(&mut self, more: &Self) {
        for state in State::ALL {
            self.counts.set(state, self.counts.of(state) + more.counts.of(state));
        }
        self.workers += more.workers;
    }

    /// Looks at some ready jobs. Stores list the newest first, so the oldest of many is not among them.
    async fn look(&mut self, client: &Client, now: Timestamp) -> Result<()> {
        let (queue, state) = (Some(self.name.clone()), Some(State::Ready));
        let filter = Filter { queue, state, ..Filter::default() };
        let page = client.store().list(&filter, None, READY_MAX).await?;
        let ages = page.jobs.iter().map(|job| now.since(job.due_at));
        self.oldest = ages.max().unwrap_or_default();
        self.is_partial = page.next.is_some();
        Ok(())
    }
}
