//! What the counts of a queue do not say: how long its jobs wait, how many are overdue, and which workers serve it. Jobs
//! become ready when a worker asks for them, so a queue without one shows none.

use std::time::SystemTime;

use windlass::Client;
use windlass::worker::Backlog;
use windlass_core::State;
use windlass_core::clock::Timestamp;
use windlass_core::queue::QueueRecord;

use crate::command::known::LEASES_MAX;
use crate::output::text;

/// Workers that a table names.
const NAMED_MAX: usize = 3;

/// What was seen of a queue.
#[derive(Debug)]
pub(crate) struct Look {
    /// What waits in it.
    pub(crate) backlog: Backlog,
    /// The labels of the workers that live and serve it.
    pub(crate) workers: Vec<String>,
    /// When it was looked at.
    at: Timestamp,
}

impl Look {
    /// How long the oldest job waits, as people read it; longer than that where not all were looked at.
    pub(crate) fn oldest(&self) -> String {
        let has_more = self.backlog.has_more_ready || self.backlog.has_more_scheduled;
        let Some(since) = self.backlog.oldest else {
            return if has_more { "?".to_owned() } else { String::new() };
        };
        let more = if has_more { ">" } else { "" };
        format!("{more}{}", text::duration(text::coarse(self.at.since(since))))
    }

    /// How many are overdue, as people read it.
    pub(crate) fn overdue(&self) -> String {
        let more = if self.backlog.has_more_scheduled { "+" } else { "" };
        format!("{}{more}", self.backlog.overdue)
    }

    /// The workers, as people read them.
    pub(crate) fn workers(&self) -> String {
        let named = self.workers.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(" ");
        match self.workers.len().saturating_sub(NAMED_MAX) {
            0 => named,
            more => format!("{named} and {more} more"),
        }
    }

    /// Whether jobs of the queue wait for a worker that is not there.
    pub(crate) fn lacks_workers(&self, queue: &QueueRecord) -> bool {
        let may_be_overdue = self.backlog.overdue > 0 || self.backlog.has_more_scheduled;
        self.workers.is_empty() && (may_be_overdue || queue.counts.of(State::Ready) > 0)
    }
}

/// Looks at each of the queues.
pub(crate) async fn at_all(client: &Client, queues: &[QueueRecord]) -> anyhow::Result<Vec<Look>> {
    let leases = client.workers(LEASES_MAX).await?;
    // The store's clock decides what is due; this one is near enough to show it.
    let at = Timestamp::from(SystemTime::now());
    let mut looks = Vec::with_capacity(queues.len());
    for queue in queues {
        // A queue that could not be asked has no counts, and is not asked again.
        let waits = [State::Ready, State::Scheduled].iter().any(|state| queue.counts.of(*state) > 0);
        let backlog = if waits { client.queue(&queue.name)?.backlog(at).await? } else { Backlog::default() };
        let serving = leases.iter().filter(|lease| !lease.is_lost && lease.queues.contains(&queue.name));
        let mut workers: Vec<String> = serving.map(|lease| lease.worker.clone()).collect();
        workers.sort_unstable();
        // A worker that changes its lease has two for a while.
        workers.dedup();
        looks.push(Look { backlog, workers, at });
    }
    Ok(looks)
}
