//! Puts back ticks of schedules that are lost: deleted or cancelled by hand, pruned, or dead. What a schedule says and how far it
//! is stands in its record, so nothing else is lost with a tick. It also lets schedules rest on the days that their calendars have
//! by now, where the one that set a calendar did not come so far.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use windlass_core::record::{RecordKey, Version};
use windlass_core::store::{Duty, StoreResult};
use windlass_core::{JobId, Name, State, StoreError};

use super::{Round, Sweep};
use crate::client::Client;
use crate::error::{Error, Result};
use crate::health::Part;
use crate::schedules::index::Entry;
use crate::schedules::{DaysOf, ScheduleView, index, rearm};

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
    /// Schedules that rested on other days than their calendars say.
    pub moved: u64,
}

impl Ticker {
    /// A ticker for the store of this client.
    pub fn new(client: &Client) -> Self {
        Self { client: client.clone(), after: Mutex::default() }
    }

    /// Looks at the next schedules, and gives those a tick that should have one.
    ///
    /// # Errors
    /// The store's, when it answers for no queue. What is wrong with one queue or one schedule is logged, and the others go on.
    pub async fn run_once(&self) -> Result<TickSummary> {
        if self.client.store().records().is_none() {
            return Ok(TickSummary::default());
        }
        let after = self.after.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (entries, next) = index::page(&self.client, after.as_ref(), PAGE).await?;
        // Whatever becomes of these, the next round goes on after them.
        *self.after.lock().unwrap_or_else(PoisonError::into_inner) = next;
        let mut by_queue: BTreeMap<Name, Vec<(String, Entry)>> = BTreeMap::new();
        for (id, entry) in entries {
            by_queue.entry(entry.queue.clone()).or_default().push((id, entry));
        }
        let (mut summary, mut failed) = (TickSummary::default(), None);
        let mut days = DaysOf::new(&self.client);
        for (queue, entries) in by_queue {
            // What is wrong with one queue keeps no other waiting.
            if let Err(error) = Box::pin(self.look(&entries, &mut days, &mut summary)).await {
                tracing::warn!(job.queue = %queue, %error, "the ticks of a queue were not looked at");
                failed.get_or_insert(error);
            }
        }
        match failed {
            Some(error) if summary.looked == 0 => Err(error),
            _ => Ok(summary),
        }
    }

    /// Looks at schedules of one queue.
    async fn look(
        &self,
        entries: &[(String, Entry)],
        days: &mut DaysOf,
        summary: &mut TickSummary,
    ) -> Result<()> {
        let found = index::views(&self.client, entries).await?;
        let looked = found.len() as u64;
        let mut views = Vec::with_capacity(found.len());
        for (view, version) in found {
            match self.has_moved(&view, days).await {
                // It has a new tick, too.
                true => summary.moved += 1,
                false => views.push((view, version)),
            }
        }
        let lost = self.lost(views).await?;
        summary.looked += looked;
        for (view, version) in lost {
            let (schedule, queue) = (&view.id, &view.queue);
            match rearm(&self.client, &view, version).await {
                Ok(false) => {}
                Ok(true) => {
                    summary.put_back += 1;
                    tracing::warn!(schedule, job.queue = %queue, "put back the tick of a schedule, which was lost");
                }
                Err(error) => {
                    tracing::warn!(schedule, job.queue = %queue, %error, "a lost tick was not put back");
                }
            }
        }
        Ok(())
    }

    /// Whether a schedule rested on other days than its calendars have, and rests on those now.
    async fn has_moved(&self, view: &ScheduleView, days: &mut DaysOf) -> bool {
        if view.record.schedule.calendars.is_empty() {
            return false;
        }
        let (schedule, queue) = (&view.id, &view.queue);
        match days.bring_up_to_date(view).await {
            Ok(is_moved) => is_moved,
            Err(error) => {
                tracing::warn!(schedule, job.queue = %queue, %error, "a schedule rests on the days of before");
                false
            }
        }
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
