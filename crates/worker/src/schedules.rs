//! Schedules: jobs that come with the clock. What a schedule says and how far it is stands in a record of its queue; one job of
//! the engine, the *tick*, waits for its next slot. The tick's end writes the slot's jobs, the record and its own next time in
//! one write, which counts only if the record is as it was read: so any number of workers make one job for each slot, and none of
//! them leads. A tick that is lost is put back by maintenance (`maintenance/ticker.rs`), since the record says all.

mod calendars;
mod declared;
mod draft;
mod handle;
pub(crate) mod index;
mod tick;
mod write;

use windlass_core::clock::Timestamp;
use windlass_core::record::RecordKey;
use windlass_core::schedule::{ScheduleRecord, check_id};
use windlass_core::{JobId, Name};

pub(crate) use calendars::DaysOf;
pub use calendars::{CalendarAnswer, CalendarHandle, CalendarPage};
pub(crate) use declared::{Declarations, Declared};
pub use draft::ScheduleDraft;
pub use handle::{ScheduleHandle, SchedulePage};
pub(crate) use tick::{TICK, tick_job, tick_run};
pub(crate) use write::rearm;

use crate::error::Result;

/// A schedule as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleView {
    /// Its id.
    pub id: String,
    /// The queue of its jobs.
    pub queue: Name,
    /// What it says, and how far it is.
    pub record: ScheduleRecord,
    /// When its next job starts: its next slot and its spread; nothing if it is paused or has ended.
    pub next_start: Option<Timestamp>,
}

/// What became of a schedule that was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleSet {
    /// There was none with this id.
    Created,
    /// It says something else now.
    Changed,
    /// It said the same before.
    Unchanged,
}

/// A schedule that was set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScheduleAnswer {
    /// What became of it.
    pub set: ScheduleSet,
    /// The schedule.
    pub schedule: ScheduleView,
    /// Its tick; nothing while it is paused or when it has ended.
    pub tick: Option<JobId>,
}

impl ScheduleView {
    pub(crate) fn of(id: &str, queue: &Name, record: ScheduleRecord) -> Self {
        let (id, queue) = (id.to_owned(), queue.clone());
        let delay = record.schedule.start_delay(queue.as_str(), &id);
        let next = record.state.next.filter(|_| !record.is_paused);
        let next_start = next.map(|next| next.plus(delay));
        Self { id, queue, record, next_start }
    }
}

/// The key of a schedule's record in its queue.
pub(crate) fn key(id: &str) -> Result<RecordKey> {
    check_id(id)?;
    Ok(RecordKey::new(format!("schedule/{id}"))?)
}
