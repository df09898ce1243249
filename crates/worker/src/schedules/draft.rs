//! The builder behind `client.schedule("nightly").cron(..)`: says more, and ends with the job.

use std::time::{Duration, SystemTime};

use windlass_core::schedule::{CatchUp, Fold, Gap, Overlap, Schedule, ScheduleRecord, Template};
use windlass_core::{Bytes, NewJob, Options};

use super::{ScheduleAnswer, calendars, write};
use crate::client::Client;
use crate::error::Result;
use crate::job::{IntoJob, With};

/// A schedule on its way: say more about it, then say which job it [makes](ScheduleDraft::enqueue).
#[derive(Debug)]
#[must_use = "a schedule is set when its job is said and that is awaited"]
pub struct ScheduleDraft {
    client: Client,
    id: String,
    schedule: Schedule,
    owner: Option<String>,
}

impl ScheduleDraft {
    pub(super) fn new(client: Client, id: String, schedule: Schedule) -> Self {
        Self { client, id, schedule, owner: None }
    }

    fn with(mut self, change: impl FnOnce(Schedule) -> Schedule) -> Self {
        self.schedule = change(self.schedule);
        self
    }

    /// The time zone of cron fields and exceptions, as `Europe/Madrid`; UTC by default.
    pub fn tz(self, name: impl Into<String>) -> Self {
        self.with(|schedule| schedule.tz(name))
    }

    /// What becomes of fixed times that the clock leaves out.
    pub fn gap(self, gap: Gap) -> Self {
        self.with(|schedule| schedule.gap(gap))
    }

    /// What becomes of fixed times that come twice.
    pub fn fold(self, fold: Fold) -> Self {
        self.with(|schedule| schedule.fold(fold))
    }

    /// Moves the grid of an interval.
    pub fn offset(self, by: Duration) -> Self {
        self.with(|schedule| schedule.offset(by))
    }

    /// No slot before this instant.
    pub fn from(self, start: impl Into<SystemTime>) -> Self {
        self.with(|schedule| schedule.from(start))
    }

    /// No slot after this instant.
    pub fn until(self, end: impl Into<SystemTime>) -> Self {
        self.with(|schedule| schedule.until(end))
    }

    /// At most so many jobs in all.
    pub fn count(self, jobs: u64) -> Self {
        self.with(|schedule| schedule.count(jobs))
    }

    /// Days without slots; see [`Schedule::except`].
    pub fn except<T: Into<String>>(self, days: impl IntoIterator<Item = T>) -> Self {
        self.with(|schedule| schedule.except(days))
    }

    /// No slots on the days of this [calendar](Client::calendar), which must be there.
    pub fn calendar(self, name: impl Into<String>) -> Self {
        self.with(|schedule| schedule.calendar(name))
    }

    /// What becomes of slots that came while no worker was there; one job for all of them by default.
    pub fn catch_up(self, catch_up: CatchUp) -> Self {
        self.with(|schedule| schedule.catch_up(catch_up))
    }

    /// Slots that are later than this are not made up.
    pub fn max_late(self, late: Duration) -> Self {
        self.with(|schedule| schedule.max_late(late))
    }

    /// What happens when a slot comes and the job of an earlier one has not ended; both run by default.
    pub fn overlap(self, overlap: Overlap) -> Self {
        self.with(|schedule| schedule.overlap(overlap))
    }

    /// Jobs start within this time after their slot, always as long after it; see [`Schedule::spread`].
    pub fn spread(self, window: Duration) -> Self {
        self.with(|schedule| schedule.spread(window))
    }

    /// Whose it is; see [`Worker::schedule_owner`](crate::Worker::schedule_owner).
    pub(super) fn owner(mut self, owner: Option<String>) -> Self {
        self.owner = owner;
        self
    }

    /// Makes this job for each slot. Sets the schedule: makes it, or changes the one that has its id, which moves its next
    /// slot; what is said again changes nothing. The job may be given [with](crate::Job::with) options, as for its queue.
    ///
    /// # Errors
    /// When something of the schedule or its job makes no sense, with the name of the field; else the store's.
    pub async fn enqueue<I: IntoJob>(self, job: I) -> Result<ScheduleAnswer> {
        let With { job, id: _, options } = job.into_job();
        let job = self.client.new_job(job, None, options).await?;
        self.set(&job).await
    }

    /// As [`enqueue`](Self::enqueue), for callers that do not have the job's Rust type.
    ///
    /// # Errors
    /// As there.
    pub async fn enqueue_raw(
        self,
        kind: &str,
        payload: impl Into<Bytes>,
        options: Options,
    ) -> Result<ScheduleAnswer> {
        let job = self.client.new_raw_job(kind, payload.into(), options).await?;
        self.set(&job).await
    }

    pub(super) async fn set(self, job: &NewJob) -> Result<ScheduleAnswer> {
        let Self { client, id, schedule, owner } = self;
        schedule.recurrence()?;
        let mut record = ScheduleRecord::new(schedule, Template::of(job)?, owner);
        record.days = calendars::days_of(&client, &record.schedule.calendars).await?;
        record.check_size()?;
        write::set(&client, &job.queue, &id, record).await
    }
}
