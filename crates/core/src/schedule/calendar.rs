//! Calendars: lists of days without slots, kept under a name and shared by schedules. A schedule has a copy of their days in its
//! record, so that it knows its slots without asking; who sets a calendar brings the copies up to date.

use serde::{Deserialize, Serialize};

use super::except::Except;
use super::invalid::ScheduleInvalid;
use super::record::{SCHEDULE_ID_MAX, check_name};

/// The longest name of a calendar, in bytes.
pub const CALENDAR_NAME_MAX: usize = SCHEDULE_ID_MAX;

/// Days without slots, as they are kept under the name of a calendar.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Calendar {
    /// The days, each as [`Schedule::except`](super::Schedule::except) takes it; in order, and none twice.
    pub days: Vec<String>,
}

impl Calendar {
    /// A calendar of these days.
    ///
    /// # Errors
    /// When one of them is not a day, when there are too many, and when they are all days of the week.
    pub fn new<T: Into<String>>(days: impl IntoIterator<Item = T>) -> Result<Self, ScheduleInvalid> {
        let mut days: Vec<String> = days.into_iter().map(|day| day.into().trim().to_owned()).collect();
        days.sort_unstable();
        days.dedup();
        Except::parse(days.iter())?;
        Ok(Self { days })
    }
}

/// Whether a text may be the name of a calendar.
///
/// # Errors
/// When it is empty, longer than [`CALENDAR_NAME_MAX`], or has control characters.
pub fn check_calendar(name: &str) -> Result<(), ScheduleInvalid> {
    check_name("calendar", name)
}
