//! A bounded look at the newest jobs of a queue: what its counts do not say.

use std::collections::BTreeMap;

use windlass_core::clock::Timestamp;
use windlass_core::job::Unreadable;
use windlass_core::outcome::Reason;
use windlass_core::queue::{Counts, QueueRecord};
use windlass_core::store::Filter;
use windlass_core::{JobId, JobRecord, Name, State};

use crate::client::Client;
use crate::error::Result;

/// Jobs that one call reads, and calls for one queue.
const PAGE: u32 = 100;
const CALLS_MAX: usize = 10;

/// What was seen of a queue's jobs.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// How many were seen, by state.
    pub(super) seen: Counts,
    /// Whether there are more.
    pub(super) has_more: bool,
    /// Whether the counts changed while the jobs were read, so that they cannot be compared.
    pub(super) is_moving: bool,
    /// Ready jobs by kind.
    pub(super) kinds: BTreeMap<Name, u64>,
    /// Since when the job that waits longest could have started.
    pub(super) oldest: Option<Timestamp>,
    /// Scheduled jobs whose time has come.
    pub(super) overdue: u64,
    /// When the first of them was due.
    pub(super) overdue_since: Option<Timestamp>,
    /// Jobs that this program cannot read, with one of them.
    pub(super) broken: u64,
    pub(super) newer: u64,
    pub(super) unreadable: Option<(JobId, String)>,
    /// Jobs that were lost with a worker and have not ended, and those that died of it.
    pub(super) stalled: u64,
    pub(super) dead_of_stalls: u64,
}

impl Rows {
    /// Looks at the newest jobs of a queue.
    pub(super) async fn of(client: &Client, queue: &QueueRecord, now: Timestamp) -> Result<Self> {
        let filter = Filter { queue: Some(queue.name.clone()), ..Filter::default() };
        let (mut rows, mut next) = (Self::default(), None);
        for _ in 0..CALLS_MAX {
            // With what the engine has there for itself: the counts have it, too.
            let page = client.store().list(&filter, next.as_ref(), PAGE).await?;
            page.jobs.iter().for_each(|job| rows.add(job, now));
            next = page.next;
            if next.is_none() {
                break;
            }
        }
        rows.has_more = next.is_some();
        rows.is_moving = client.queue(&queue.name)?.counts().await? != queue.counts;
        Ok(rows)
    }

    fn add(&mut self, job: &JobRecord, now: Timestamp) {
        self.seen.set(job.state, self.seen.of(job.state) + 1);
        match &job.unreadable {
            Some(Unreadable::Newer { .. }) => self.newer += 1,
            Some(Unreadable::Broken(_)) => self.broken += 1,
            None => {}
        }
        if let Some(why) = &job.unreadable {
            self.unreadable.get_or_insert_with(|| (job.id, why.to_string()));
        }
        let is_overdue = job.state == State::Scheduled && job.due_at <= now;
        if job.state == State::Ready {
            *self.kinds.entry(job.kind.clone()).or_default() += 1;
        }
        if is_overdue {
            self.overdue += 1;
            self.overdue_since = Some(self.overdue_since.map_or(job.due_at, |since| since.min(job.due_at)));
        }
        if is_overdue || job.state == State::Ready {
            self.oldest = Some(self.oldest.map_or(job.due_at, |oldest| oldest.min(job.due_at)));
        }
        self.stalled += u64::from(!job.state.is_terminal() && job.counters.stalls > 0);
        self.dead_of_stalls += u64::from(job.reason == Some(Reason::Stalled));
    }
}
