//! One queue, as a program asks about it: what it holds, how long its jobs wait, and its definition.

use std::fmt;

use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, QueueConfig, QueueRecord, Removed};
use windlass_core::store::{Cursor, Filter, JobPage, Store};
use windlass_core::{Name, State};

use super::Client;
use crate::error::Result;

/// A queue of a store. [`Client::queue`] makes it; it need not exist yet.
#[derive(Clone)]
pub struct QueueHandle {
    client: Client,
    name: Name,
}

/// Jobs that one call reads; each comes with its payload.
pub(super) const PAGE: u32 = 100;
/// Calls for the jobs of one state.
pub(super) const CALLS_MAX: usize = 10;

/// What waits in a queue and could have started. [`QueueHandle::backlog`] looks at no more than 1,000 jobs of each state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Since when the job that waits longest could have started, among those that were looked at.
    pub oldest: Option<Timestamp>,
    /// Scheduled jobs whose time has come and that no worker has asked for, among those that were looked at.
    pub overdue: u64,
    /// There are more ready jobs than were looked at, so one may wait longer than [`Backlog::oldest`] says.
    pub has_more_ready: bool,
    /// There are more scheduled jobs than were looked at, so more of them may be overdue.
    pub has_more_scheduled: bool,
}

impl QueueHandle {
    pub(super) fn new(client: Client, name: Name) -> Self {
        Self { client, name }
    }

    pub(super) fn store(&self) -> &dyn Store {
        &**self.client.store()
    }

    /// The defaults of its jobs are read anew by the next enqueue of this client.
    pub(super) fn forget_defaults(&self) {
        self.client.forget_defaults(&self.name);
    }

    /// Its name.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Everything the store knows about the queue; nothing if it was never defined and holds no job.
    pub async fn record(&self) -> Result<Option<QueueRecord>> {
        Ok(self.client.store().queue(&self.name).await?)
    }

    /// How many jobs it holds, by state.
    pub async fn counts(&self) -> Result<Counts> {
        Ok(self.record().await?.map(|queue| queue.counts).unwrap_or_default())
    }

    /// What it keeps and permits: its definition, or the default where it has none. A stored definition that does not
    /// read is told by [`QueueRecord::unreadable`].
    pub async fn definition(&self) -> Result<QueueConfig> {
        Ok(self.record().await?.map(|queue| queue.config).unwrap_or_default())
    }

    /// Sets its definition, replacing the one it had.
    pub async fn define(&self, config: &QueueConfig) -> Result<()> {
        self.client.store().define(&self.name, config).await?;
        self.forget_defaults();
        Ok(())
    }

    /// Removes the queue and its definition if it holds no job at all, finished ones included; one that holds jobs stays,
    /// and the answer counts them. Workers that serve it go on, and it comes back, with the default definition, when a job
    /// is enqueued there.
    pub async fn remove(&self) -> Result<Removed> {
        Ok(self.client.store().remove(&self.name).await?)
    }

    /// A page of its jobs, the newest first: those in one state, or all with `None`. At most 1,000, and possibly fewer
    /// than `limit` although there are more: the list has ended when a page names no next one.
    ///
    /// The jobs come without their attempts; [`Client::job`] has those.
    pub async fn list(
        &self,
        state: impl Into<Option<State>>,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<JobPage> {
        let filter = Filter { queue: Some(self.name.clone()), state: state.into(), ..Filter::default() };
        self.client.list(&filter, after, limit).await
    }

    /// What could have started before `now` and still waits: `SystemTime::now()`, or the time of a test's clock. A
    /// job becomes ready when a worker asks for jobs, so scheduled jobs that are overdue count too.
    ///
    /// Stores list the newest jobs first and have no shorter way to the oldest. This makes up to ten calls for each of
    /// the two states, each of which looks at a bounded number of rows, and says whether there are more.
    pub async fn backlog(&self, now: impl Into<Timestamp>) -> Result<Backlog> {
        let now = now.into();
        let (ready, has_more_ready) = self.due(State::Ready).await?;
        let (scheduled, has_more_scheduled) = self.due(State::Scheduled).await?;
        let overdue: Vec<Timestamp> = scheduled.into_iter().filter(|due| *due <= now).collect();
        Ok(Backlog {
            oldest: ready.iter().chain(&overdue).min().copied(),
            overdue: u64::try_from(overdue.len()).unwrap_or(u64::MAX),
            has_more_ready,
            has_more_scheduled,
        })
    }

    /// The due instants of its newest jobs in this state, and whether there are more.
    async fn due(&self, state: State) -> Result<(Vec<Timestamp>, bool)> {
        let (mut due, mut next) = (Vec::new(), None);
        for _ in 0..CALLS_MAX {
            let page = self.list(state, next.as_ref(), PAGE).await?;
            due.extend(page.jobs.iter().map(|job| job.due_at));
            next = page.next;
            if next.is_none() {
                return Ok((due, false));
            }
        }
        Ok((due, true))
    }
}

impl fmt::Debug for QueueHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QueueHandle").field("name", &self.name).finish_non_exhaustive()
    }
}
