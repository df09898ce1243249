//! A schedule as it is kept: what it says, the job it makes, and how far it is. This record is the truth; its tick only moves it
//! on, and may be lost.

use serde::{Deserialize, Serialize};

use super::invalid::ScheduleInvalid;
use super::template::Template;
use super::{Recurrence, Schedule};
use crate::clock::Timestamp;
use crate::id::JobId;
use crate::job::NewJob;
use crate::name::Name;
use crate::record::VALUE_MAX;

/// The newest form of a record that this program knows.
const FORM: u32 = 2;
/// The form of a record without calendars: programs that know none of them read it as well.
const FORM_PLAIN: u32 = 1;
/// The largest record of a schedule that has not begun, in bytes: the rest is for slots that wait.
const SIZE_MAX: usize = VALUE_MAX - (64 << 10);
/// The longest id of a schedule, in bytes.
pub const SCHEDULE_ID_MAX: usize = 128;

/// A schedule as a queue keeps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScheduleRecord {
    v: u32,
    /// What tells its jobs from those of an earlier schedule with the same id.
    pub born: JobId,
    /// When jobs come.
    pub schedule: Schedule,
    /// The days of its calendars, as they were when they were last looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<String>,
    /// Which jobs.
    pub job: Template,
    /// The program that declared it in its code, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Whether it makes no jobs until it is resumed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_paused: bool,
    /// The job that moves it on; nothing while it is paused, and when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tick: Option<JobId>,
    /// How far it is.
    #[serde(default)]
    pub state: ScheduleState,
}

/// How far a schedule is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ScheduleState {
    /// The first slot that was not decided about; nothing when there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<Timestamp>,
    /// The newest slot that had a job or waits for one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The newest job that it made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_job: Option<JobId>,
    /// Jobs that it made.
    pub made: u64,
    /// Slots without a job because an earlier one had not ended.
    pub skipped: u64,
    /// Slots without a job because no worker was there; at least so many.
    pub missed: u64,
    /// Slots that wait until an earlier job has ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Run>,
}

/// A slot that has a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The slot: when the job should start.
    pub slot: Timestamp,
    /// The slot was missed, and its job is made up.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_made_up: bool,
}

impl ScheduleRecord {
    /// A schedule that has not begun.
    pub fn new(schedule: Schedule, job: Template, owner: Option<String>) -> Self {
        let (v, born, state) = (form_of(&schedule), JobId::new(), ScheduleState::default());
        Self { v, born, schedule, days: Vec::new(), job, owner, is_paused: false, tick: None, state }
    }

    /// Its schedule, ready to be asked for slots, with the days of its calendars.
    ///
    /// # Errors
    /// When something in it makes no sense; the error names the field.
    pub fn recurrence(&self) -> Result<Recurrence, ScheduleInvalid> {
        self.schedule.recurrence_beside(&self.days)
    }

    /// Reads what [`text`](Self::text) wrote.
    ///
    /// # Errors
    /// When it does not read, also because a newer program wrote it.
    pub fn read(value: &[u8]) -> Result<Self, ScheduleInvalid> {
        #[derive(Deserialize)]
        struct Form {
            v: u32,
        }
        let bad = |why: String| ScheduleInvalid::field("record", why);
        let form: Form = serde_json::from_slice(value).map_err(|error| bad(error.to_string()))?;
        if form.v > FORM {
            let why = format!("it was written in form {} by a newer program: run that version", form.v);
            return Err(bad(why));
        }
        serde_json::from_slice(value).map_err(|error| bad(error.to_string()))
    }

    /// As it is stored.
    pub fn text(&self) -> Vec<u8> {
        let v = form_of(&self.schedule);
        serde_json::to_vec(&Self { v, ..self.clone() }).expect("names, texts and numbers are JSON")
    }

    /// Whether it may be stored: slots that wait will make it larger.
    ///
    /// # Errors
    /// When what it says, mostly the payload of its job, is too large.
    pub fn check_size(&self) -> Result<(), ScheduleInvalid> {
        let said = Self { state: ScheduleState::default(), ..self.clone() };
        match said.text().len() {
            size if size > SIZE_MAX => {
                let why = format!(
                    "the schedule and its job have {size} bytes, at most {SIZE_MAX} are kept: store large content \
                     elsewhere and keep a reference in the payload"
                );
                Err(ScheduleInvalid::field("job", why))
            }
            _ => Ok(()),
        }
    }

    /// The job of a slot of this schedule. Always the same one for the same slot.
    ///
    /// # Errors
    /// When what is kept does not read.
    pub fn job_of(&self, queue: &Name, id: &str, run: Run) -> Result<NewJob, ScheduleInvalid> {
        Ok(self.job.of_slot(queue, id, run)?.with_id(slot_id(self.born, run.slot)))
    }

    /// Whether both say the same: the schedule, the days of its calendars, its job, and which program declared it.
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.has_the_same_slots(other) && (&self.job, &self.owner) == (&other.job, &other.owner)
    }

    /// Whether both have their jobs at the same times.
    pub fn has_the_same_slots(&self, other: &Self) -> bool {
        (&self.schedule, &self.days) == (&other.schedule, &other.days)
    }
}

/// The form of the record of a schedule.
fn form_of(schedule: &Schedule) -> u32 {
    if schedule.calendars.is_empty() { FORM_PLAIN } else { FORM }
}

/// Whether a text may be the id of a schedule.
///
/// # Errors
/// When it is empty, longer than [`SCHEDULE_ID_MAX`], or has control characters.
pub fn check_id(id: &str) -> Result<(), ScheduleInvalid> {
    check_name("id", id)
}

/// What holds for the names of schedules and of calendars.
pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), ScheduleInvalid> {
    if name.is_empty() || name.len() > SCHEDULE_ID_MAX || name.chars().any(char::is_control) {
        let shown: String = name.chars().take(40).collect();
        let why = format!("{shown:?}: use 1 to {SCHEDULE_ID_MAX} bytes of text without control characters");
        return Err(ScheduleInvalid::field(field, why));
    }
    Ok(())
}

/// The id of the job of a slot: the same one however often it is made.
pub(super) fn slot_id(born: JobId, slot: Timestamp) -> JobId {
    JobId::from_key("windlass.slot", &format!("{born} {}", slot.as_micros()))
}
