//! Schedules: when jobs come with the clock, and what happens where the clock and the workers disagree.
//!
//! Everything here is computation: the present is handed in, and zones come from the time zone database. A *slot* is an
//! instant at which a schedule makes a job. The worker keeps each schedule as a [`ScheduleRecord`], and a job of its own, the
//! *tick*, moves it from slot to slot by [`Recurrence::advance`].

mod calendar;
mod cron;
mod due;
mod except;
mod invalid;
mod overlap;
mod record;
mod recurrence;
mod simulate;
mod slots;
mod spread;
mod template;
#[cfg(test)]
mod tests;
mod zone;

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::clock::{Timestamp, whole_micros};
pub use calendar::{CALENDAR_NAME_MAX, Calendar, check_calendar};
pub use due::{FIRE_MAX, ON_TIME};
pub use invalid::ScheduleInvalid;
pub use overlap::{Advance, WAITING_MAX};
pub use record::{Run, SCHEDULE_ID_MAX, ScheduleRecord, ScheduleState, check_id};
pub use recurrence::Recurrence;
pub use simulate::{Simulated, Simulation, Verdict};
pub use spread::Spread;
pub use template::{MADE_UP, NOMINAL, SCHEDULE, Template, nominal_of};

/// When jobs come, and what happens when they cannot. Checked when it is [read](Schedule::recurrence) or stored.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::schedule::{CatchUp, Overlap, Schedule};
///
/// let nightly = Schedule::cron("0 3 * * *").tz("Europe/Madrid").catch_up(CatchUp::Once).overlap(Overlap::Skip);
/// assert!(nightly.recurrence().is_ok());
/// let error = Schedule::cron("0 25 * * *").recurrence().unwrap_err().to_string();
/// assert!(error.contains("hour") && error.contains("25"), "{error}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// What repeats.
    pub when: When,
    /// The time zone of cron fields and exceptions, by its IANA name; UTC if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tz: Option<String>,
    /// What becomes of times that the clock leaves out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub gap: Gap,
    /// What becomes of times that come twice.
    #[serde(default, skip_serializing_if = "is_default")]
    pub fold: Fold,
    /// No slot before this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// No slot after this instant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// At most so many jobs in all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Days without slots: `2026-12-25`, `12-25` for every year, `2026-12-24..2027-01-06`, or a weekday as `sat`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub except: Vec<String>,
    /// Calendars whose days are without slots as well, by name. Their days are kept apart, for they change by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calendars: Vec<String>,
    /// What becomes of slots that came while no worker was there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub catch_up: CatchUp,
    /// Slots that are later than this are not made up; without limit if nothing.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros")]
    pub max_late: Option<Duration>,
    /// What happens when a slot comes and the job of an earlier one has not ended.
    #[serde(default, skip_serializing_if = "is_default")]
    pub overlap: Overlap,
    /// Jobs start up to this long after their slot, always as long after it for one schedule.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "micros")]
    pub spread: Option<Duration>,
}

/// What repeats.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum When {
    /// Cron fields: minute, hour, day of month, month, day of week, and perhaps seconds before them; or an alias as `@daily`.
    Cron(String),
    /// Every so many microseconds since 1970, in UTC.
    Every {
        /// The distance of two slots.
        #[serde(rename = "micros")]
        period: u64,
        /// By how much all slots are later.
        #[serde(default, rename = "offset_micros")]
        offset: u64,
    },
    /// At these instants.
    At(Vec<Timestamp>),
}

/// What becomes of a fixed time that the clock leaves out, as 02:30 in the night in which summer time begins.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// It comes right after the gap, once for all times in it.
    #[default]
    Shift,
    /// It does not come.
    Skip,
}

/// What becomes of a fixed time that comes twice, as 02:30 in the night in which summer time ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// The first counts.
    #[default]
    First,
    /// The second counts.
    Last,
    /// Both count.
    Both,
}

/// What becomes of slots that came while no worker was there. A slot that is late by no more than a minute
/// ([`ON_TIME`]) was not missed, and always has its job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// They are left out.
    Skip,
    /// One job for all of them, for the newest, unless a slot that is on time comes with them.
    #[default]
    Once,
    /// A job for each, for the newest so many of them.
    All(u32),
}

/// What happens when a slot comes and the job of an earlier one has not ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Its job comes all the same.
    #[default]
    Allow,
    /// It has no job.
    Skip,
    /// One slot waits until that job has ended; others have no job meanwhile.
    WaitOne,
    /// Every slot waits until the job before it has ended, up to [`WAITING_MAX`].
    WaitAll,
    /// That job is cancelled, and the newest slot has its job when it has ended.
    CancelRunning,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Schedule {
    fn new(when: When) -> Self {
        Self {
            when,
            tz: None,
            gap: Gap::default(),
            fold: Fold::default(),
            from: None,
            until: None,
            count: None,
            except: Vec::new(),
            calendars: Vec::new(),
            catch_up: CatchUp::default(),
            max_late: None,
            overlap: Overlap::default(),
            spread: None,
        }
    }

    /// By cron fields, as `0 3 * * *`, `*/10 * * * * *` with seconds, or `@daily`. A pattern whose hour field begins with `*`
    /// is a cadence and follows real time; others name fixed times, for which [`Gap`] and [`Fold`] hold.
    pub fn cron(fields: impl Into<String>) -> Self {
        Self::new(When::Cron(fields.into()))
    }

    /// Every so often, on a grid that begins in 1970 and that no clock change moves; at least a second.
    pub fn every(period: Duration) -> Self {
        Self::new(When::Every { period: micros_of(period), offset: 0 })
    }

    /// At these instants, once each.
    pub fn at<T: Into<SystemTime>>(times: impl IntoIterator<Item = T>) -> Self {
        let mut times: Vec<_> = times.into_iter().map(|time| Timestamp::from(time.into())).collect();
        times.sort_unstable();
        times.dedup();
        Self::new(When::At(times))
    }

    /// The time zone of cron fields and exceptions, by its IANA name, as `Europe/Madrid`; UTC by default.
    #[must_use]
    pub fn tz(mut self, name: impl Into<String>) -> Self {
        self.tz = Some(name.into());
        self
    }

    /// What becomes of fixed times that the clock leaves out.
    #[must_use]
    pub fn gap(mut self, gap: Gap) -> Self {
        self.gap = gap;
        self
    }

    /// What becomes of fixed times that come twice.
    #[must_use]
    pub fn fold(mut self, fold: Fold) -> Self {
        self.fold = fold;
        self
    }

    /// Moves the grid of [`every`](Self::every) by this; nothing for other schedules.
    #[must_use]
    pub fn offset(mut self, by: Duration) -> Self {
        if let When::Every { offset, .. } = &mut self.when {
            *offset = micros_of(by);
        }
        self
    }

    /// No slot before this instant.
    #[must_use]
    pub fn from(mut self, start: impl Into<SystemTime>) -> Self {
        self.from = Some(Timestamp::from(start.into()));
        self
    }

    /// No slot after this instant.
    #[must_use]
    pub fn until(mut self, end: impl Into<SystemTime>) -> Self {
        self.until = Some(Timestamp::from(end.into()));
        self
    }

    /// At most so many jobs in all; then the schedule has ended.
    #[must_use]
    pub fn count(mut self, jobs: u64) -> Self {
        self.count = Some(jobs);
        self
    }

    /// Days without slots, in the schedule's zone: `2026-12-25`, `12-25` for every year, `2026-12-24..2027-01-06`, or a weekday
    /// as `sat`. Adds to those that were said before, so a list of holidays can be shared.
    #[must_use]
    pub fn except<T: Into<String>>(mut self, days: impl IntoIterator<Item = T>) -> Self {
        self.except.extend(days.into_iter().map(Into::into));
        self
    }

    /// No slots on the days of the calendar that is kept under this name. Adds to those that were said before.
    #[must_use]
    pub fn calendar(mut self, name: impl Into<String>) -> Self {
        self.calendars.push(name.into());
        self
    }

    /// What becomes of slots that came while no worker was there.
    #[must_use]
    pub fn catch_up(mut self, catch_up: CatchUp) -> Self {
        self.catch_up = catch_up;
        self
    }

    /// Slots that are later than this are not made up.
    #[must_use]
    pub fn max_late(mut self, late: Duration) -> Self {
        self.max_late = Some(whole_micros(late));
        self
    }

    /// What happens when a slot comes and the job of an earlier one has not ended.
    #[must_use]
    pub fn overlap(mut self, overlap: Overlap) -> Self {
        self.overlap = overlap;
        self
    }

    /// Lets the jobs start within this time after their slot: by a stable hash of the schedule's id, so that many schedules of
    /// one slot do not start together and each keeps its time.
    #[must_use]
    pub fn spread(mut self, window: Duration) -> Self {
        self.spread = Some(whole_micros(window));
        self
    }

    /// How long after their slots its jobs start, if it has this id in this queue.
    pub fn start_delay(&self, queue: &str, id: &str) -> Duration {
        self.spread.map_or(Duration::ZERO, |window| spread::by_key(&[queue, id], window))
    }

    /// The schedule, ready to be asked for slots, as if its calendars had no days.
    ///
    /// # Errors
    /// When something in it makes no sense; the error names the field.
    pub fn recurrence(&self) -> Result<Recurrence, ScheduleInvalid> {
        self.recurrence_beside(&[])
    }

    /// The same with the days of its calendars, which are without slots.
    ///
    /// # Errors
    /// As there.
    pub fn recurrence_beside(&self, days: &[String]) -> Result<Recurrence, ScheduleInvalid> {
        Recurrence::new(self, days)
    }
}

fn micros_of(duration: Duration) -> u64 {
    u64::try_from(whole_micros(duration).as_micros()).unwrap_or(u64::MAX)
}

/// Durations as whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde asks for it so")]
    pub(super) fn serialize<S: Serializer>(
        span: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        span.map(super::micros_of).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_micros))
    }
}
