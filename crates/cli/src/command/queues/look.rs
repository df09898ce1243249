//! What the counts of a queue do not say: how many of its scheduled jobs are overdue, and whether a worker lives that
//! serves it. Jobs become ready when a worker asks for them, so a queue without one shows none.

use std::time::SystemTime;

use windlass::Client;
use windlass_core::clock::Timestamp;
use windlass_core::queue::QueueRecord;
use windlass_core::store::{Filter, LeaseRecord};
use windlass_core::{Name, State};

/// Jobs that one store call answers; each comes with its payload.
const PAGE: u32 = 100;
/// Store calls for one queue. What lies beyond is not counted, and the answer says so.
const CALLS_MAX: usize = 10;
/// Leases that are looked at.
const LEASES_MAX: u32 = 1_000;

/// What was seen of a queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Look {
    /// Scheduled jobs whose time has come.
    pub(crate) overdue: u64,
    /// Whether there may be more of them than were looked at.
    pub(crate) has_more: bool,
    /// Workers that live and serve the queue.
    pub(crate) workers: u64,
}

impl Look {
    /// How many are overdue, as people read it.
    pub(super) fn overdue(&self) -> String {
        let more = if self.has_more && self.overdue > 0 { "+" } else { "" };
        format!("{}{more}", self.overdue)
    }

    /// Whether jobs of the queue wait for a worker that is not there.
    pub(super) fn is_forsaken(&self, queue: &QueueRecord) -> bool {
        self.workers == 0 && (self.overdue > 0 || queue.counts.of(State::Ready) > 0)
    }
}

/// Looks at each of the queues.
pub(super) async fn at_all(client: &Client, queues: &[QueueRecord]) -> anyhow::Result<Vec<Look>> {
    let leases = client.store().leases(LEASES_MAX).await?;
    // The store's clock decides what is due; this one is near enough to show it.
    let now = Timestamp::from(SystemTime::now());
    let mut looks = Vec::with_capacity(queues.len());
    for queue in queues {
        let (overdue, has_more) = overdue(client, queue, now).await?;
        looks.push(Look { overdue, has_more, workers: serving(&leases, &queue.name) });
    }
    Ok(looks)
}

fn serving(leases: &[LeaseRecord], queue: &Name) -> u64 {
    leases.iter().filter(|lease| !lease.is_lost && lease.queues.contains(queue)).map(|_| 1).sum()
}

/// How many scheduled jobs of a queue are overdue, and whether there may be more.
async fn overdue(client: &Client, queue: &QueueRecord, now: Timestamp) -> anyhow::Result<(u64, bool)> {
    if queue.counts.of(State::Scheduled) == 0 {
        return Ok((0, false));
    }
    let filter =
        Filter { queue: Some(queue.name.clone()), state: Some(State::Scheduled), ..Filter::default() };
    let (mut overdue, mut next) = (0, None);
    for _ in 0..CALLS_MAX {
        let page = client.store().list(&filter, next.as_ref(), PAGE).await?;
        overdue += page.jobs.iter().filter(|job| job.due_at <= now).map(|_| 1).sum::<u64>();
        next = page.next;
        if next.is_none() {
            return Ok((overdue, false));
        }
    }
    Ok((overdue, true))
}
