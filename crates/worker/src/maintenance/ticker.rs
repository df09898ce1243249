//! Puts back ticks of schedules that are lost: deleted or cancelled by hand, pruned, or dead. What a schedule says and how far it
//! is stands in its record, so nothing else is lost with a tick.

use std::sync::{Mutex, PoisonError};

use windlass_core::record::{RecordKey, Version};
use windlass_core::store::{Duty, StoreResult};
use windlass_core::{JobId, State, StoreError};

use super::{Round, Sweep};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::health::Part;
use crate::schedules::{ScheduleView, index, rearm};

/// Schedules that one round looks at. The next round goes on after them, so however many there are, a round is short.
const PAGE: u32 = 500;

/// Looks through the schedules, some in each round.
pub struct Ticker {
    client: Client,
    after: Mutex<Option<RecordKey>>,
}

/// What one round of a [`Ticker`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TickSummary {
    /// Schedules that were looked at.
    pub looked: u64,
    /// Ticks that were put back.
    pub put_back: u64,
}

impl Ticker {
    /// A ticker for the store of this client.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), after: Mutex::default() }
    }

    /// Looks at the next schedules, and gives those a tick that should have one.
    ///
    /// # Errors
    /// The store's; what was put back until then stays so.
    pub async fn run_once(&self) -> Result<TickSummary> {
        if self.client.store().records().is_none() {
            return Ok(TickSummary::default());
        }
        let after = self.after.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (entries, next) = index::page(&self.client, after.as_ref(), PAGE).await?;
        let views = index::views(&self.client, &entries).await?;
        let mut summary = TickSummary { looked: views.len() as u64, put_back: 0 };
        for (view, version) in self.lost(views).await? {
            if rearm(&self.client, &view, version).await? {
                summary.put_back += 1;
                tracing::warn!(
                    schedule = view.id, job.queue = %view.queue,
                    "put back the tick of a schedule, which was lost"
                );
            }
        }
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(summary)
    }

    /// Those that should have a tick, and whose tick is gone or has ended.
    async fn lost(&self, views: Vec<(ScheduleView, Version)>) -> Result<Vec<(ScheduleView, Version)>> {
        let is_waiting = |view: &ScheduleView| {
            let state = &view.record.state;
            !view.record.is_paused && (state.next.is_some() || !state.waiting.is_empty())
        };
        let waiting: Vec<_> = views.into_iter().filter(|(view, _)| is_waiting(view)).collect();
        let ticks: Vec<JobId> = waiting.iter().filter_map(|(view, _)| view.record.tick).collect();
        let states = match ticks.is_empty() {
            true => Vec::new(),
            false => self.client.store().states(ticks.into()).await?,
        };
        let mut states = states.into_iter();
        let mut is_lost = |view: &ScheduleView| match view.record.tick {
            None => true,
            Some(_) => states.next().flatten().is_none_or(State::is_terminal),
        };
        Ok(waiting.into_iter().filter(|(view, _)| is_lost(view)).collect())
    }
}

impl Sweep for Ticker {
    const PART: Part = Part::Ticker;
    // With the pruner: the worker that removes jobs looks after what may be removed too much.
    const DUTY: Duty = Duty::Prune;

    async fn sweep(&self) -> StoreResult<Round> {
        match self.run_once().await {
            Ok(_) => Ok(Round::Whole),
            Err(Error::Store(error)) => Err(error),
            Err(error) => Err(StoreError::Internal { what: error.to_string(), source: None }),
        }
    }
}
