//! One schedule, as callers ask about it and change it: `client.schedule("nightly")`.

use std::fmt;
use std::time::{Duration, SystemTime};

use windlass_core::clock::Timestamp;
use windlass_core::record::RecordKey;
use windlass_core::schedule::{Run, Schedule, ScheduleRecord};
use windlass_core::store::PAGE_MAX;
use windlass_core::{JobId, Name};

use super::index::{self, Entry};
use super::write::{self, Write, next_slot};
use super::{ScheduleDraft, ScheduleView};
use crate::client::Client;
use crate::error::{Error, Result};

/// Slots that a preview shows at most.
const PREVIEW_MAX: usize = 10_000;

/// A schedule of a store. [`Client::schedule`] makes it; it need not exist yet.
#[derive(Clone)]
pub struct ScheduleHandle {
    client: Client,
    id: String,
}

/// A page of schedules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulePage {
    /// The schedules, by id.
    pub schedules: Vec<ScheduleView>,
    /// After which id the next page begins; nothing at the end.
    pub next: Option<String>,
}

impl Client {
    /// A schedule, by its id: say when its jobs come and which, or ask about it. Asks the store nothing yet.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::sync::Arc;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_core::schedule::{CatchUp, Overlap};
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Report { kind: String }
    /// # impl windlass_worker::Job for Report { const KIND: &'static str = "report"; type Output = (); }
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// client
    ///     .schedule("nightly")
    ///     .cron("0 3 * * *")
    ///     .tz("Europe/Madrid")
    ///     .catch_up(CatchUp::Once)
    ///     .overlap(Overlap::Skip)
    ///     .enqueue(Report { kind: "sales".into() })
    ///     .await?;
    /// let nightly = client.schedule("nightly");
    /// assert_eq!(nightly.preview(3).await?.len(), 3);
    /// nightly.pause().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn schedule(&self, id: impl Into<String>) -> ScheduleHandle {
        ScheduleHandle { client: self.clone(), id: id.into() }
    }

    /// Schedules by id, after the given one, at most `limit` and 1,000.
    ///
    /// # Errors
    /// The store's.
    pub async fn schedules(&self, after: Option<&str>, limit: u32) -> Result<SchedulePage> {
        let after = after.map(RecordKey::new).transpose()?;
        let (entries, next) = index::page(self, after.as_ref(), limit.min(PAGE_MAX)).await?;
        let schedules = index::views(self, &entries).await?.into_iter().map(|(view, _)| view).collect();
        Ok(SchedulePage { schedules, next: next.map(|key| key.to_string()) })
    }
}

impl ScheduleHandle {
    /// Its id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Jobs by cron fields; see [`Schedule::cron`].
    pub fn cron(self, fields: impl Into<String>) -> ScheduleDraft {
        self.when(Schedule::cron(fields))
    }

    /// Jobs every so often; see [`Schedule::every`].
    pub fn every(self, period: Duration) -> ScheduleDraft {
        self.when(Schedule::every(period))
    }

    /// Jobs at these instants; see [`Schedule::at`].
    pub fn at<T: Into<SystemTime>>(self, times: impl IntoIterator<Item = T>) -> ScheduleDraft {
        self.when(Schedule::at(times))
    }

    /// Jobs by a schedule that was put together before.
    pub fn when(self, schedule: Schedule) -> ScheduleDraft {
        ScheduleDraft::new(self.client, self.id, schedule)
    }

    async fn place(&self) -> Result<Option<Entry>> {
        index::get(&self.client, &self.id).await
    }

    async fn queue(&self) -> Result<Name> {
        Ok(self.place().await?.ok_or_else(|| self.missing())?.queue)
    }

    fn missing(&self) -> Error {
        Error::NoSchedule { id: self.id.clone() }
    }

    /// The schedule as it is now, if there is one.
    ///
    /// # Errors
    /// The store's, and when what is stored does not read.
    pub async fn get(&self) -> Result<Option<ScheduleView>> {
        let Some(entry) = self.place().await? else { return Ok(None) };
        let found = write::read(&self.client, &entry.queue, &self.id).await?;
        Ok(found.map(|(record, _)| ScheduleView::of(&self.id, &entry.queue, record)))
    }

    /// Lets it rest: it makes no jobs until it is resumed. Slots of that time are not made up. Jobs that it made go on.
    ///
    /// # Errors
    /// The store's, and [`Error::NoSchedule`].
    pub async fn pause(&self) -> Result<ScheduleView> {
        self.change(|record, _queue, _now| {
            if record.is_paused {
                return Ok(Write::Nothing);
            }
            record.is_paused = true;
            Ok(Write::Tick)
        })
        .await
    }

    /// Lets it go on with the next slot from now, or with an earlier one that its spread has not started yet.
    ///
    /// # Errors
    /// The store's, and [`Error::NoSchedule`].
    pub async fn resume(&self) -> Result<ScheduleView> {
        self.change(|record, queue, now| {
            if !record.is_paused {
                return Ok(Write::Nothing);
            }
            record.is_paused = false;
            let recurrence = record.recurrence()?;
            let has_ended = record.schedule.count.is_some_and(|count| record.state.made >= count);
            let delay = record.schedule.start_delay(queue.as_str(), &self.id);
            record.state.next = next_slot(&recurrence, record, now, delay).filter(|_| !has_ended);
            Ok(Write::Tick)
        })
        .await
    }

    async fn change(
        &self,
        mut decide: impl FnMut(&mut ScheduleRecord, &Name, Timestamp) -> Result<Write>,
    ) -> Result<ScheduleView> {
        let queue = self.queue().await?;
        let changed =
            write::change(&self.client, &queue, &self.id, |record, now| decide(record, &queue, now));
        let record = changed.await?;
        record.map(|record| ScheduleView::of(&self.id, &queue, record)).ok_or_else(|| self.missing())
    }

    /// Makes a job now, beside those of its slots, whether it is paused or not and whatever runs. Its nominal time is now.
    ///
    /// # Errors
    /// The store's, and [`Error::NoSchedule`].
    pub async fn run_now(&self) -> Result<JobId> {
        let view = self.get().await?.ok_or_else(|| self.missing())?;
        let slot = self.client.store().now().await?;
        let job = view.record.job.of_slot(&view.queue, &self.id, Run { slot, is_made_up: false })?;
        let id = job.id;
        self.client.enqueue_new(job).await?;
        Ok(id)
    }

    /// Its next slots, without its spread: from the one that it waits for, or from now if it is paused.
    ///
    /// # Errors
    /// The store's, and [`Error::NoSchedule`].
    pub async fn preview(&self, count: usize) -> Result<Vec<SystemTime>> {
        let view = self.get().await?.ok_or_else(|| self.missing())?;
        let recurrence = view.record.recurrence()?;
        let mut slot = match view.record.state.next {
            Some(next) if !view.record.is_paused => Some(next),
            None if !view.record.is_paused => None,
            _ => recurrence.next_after(self.client.store().now().await?),
        };
        let mut slots = Vec::new();
        while let Some(at) = slot.filter(|_| slots.len() < count.min(PREVIEW_MAX)) {
            slots.push(at.into());
            slot = recurrence.next_after(at);
        }
        Ok(slots)
    }

    /// Removes it. Jobs that it made stay. Answers whether there was one.
    ///
    /// # Errors
    /// The store's.
    pub async fn delete(&self) -> Result<bool> {
        let Some(entry) = self.place().await? else { return Ok(false) };
        let was_there = write::remove(&self.client, &entry.queue, &self.id).await?;
        index::remove(&self.client, &self.id).await?;
        // One that was set meanwhile is not forgotten.
        if let Some((record, _)) = write::read(&self.client, &entry.queue, &self.id).await? {
            index::put(&self.client, &self.id, &Entry { owner: record.owner, ..entry }).await?;
        }
        Ok(was_there)
    }
}

impl fmt::Debug for ScheduleHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScheduleHandle").field("id", &self.id).finish_non_exhaustive()
    }
}
