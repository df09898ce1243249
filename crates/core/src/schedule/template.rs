//! The job that a schedule makes for each of its slots, as it is kept in the record.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::invalid::ScheduleInvalid;
use super::record::Run;
use crate::clock::Timestamp;
use crate::job::{NewJob, Spec};
use crate::name::Name;
use crate::options::{Due, Options};

/// The name in meta of the schedule that made a job.
pub const SCHEDULE: &str = "windlass.schedule";
/// The name in meta of the slot of a job, as RFC 3339.
pub const NOMINAL: &str = "windlass.nominal";
/// The name in meta that says that a slot was missed and its job is made up.
pub const MADE_UP: &str = "windlass.made_up";

/// A job without an id and without a time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Template {
    kind: Name,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    payload: String,
    /// Whether the payload is written as hexadecimal digits, because it is not text.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_hex: bool,
    #[serde(default, skip_serializing_if = "is_zero")]
    priority: i16,
    /// In microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<Name>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<Name>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    spec: Option<String>,
}

fn is_zero(priority: &i16) -> bool {
    *priority == 0
}

impl Template {
    /// What is kept of a job.
    ///
    /// # Errors
    /// When the job says when it is due, or is unique: its schedule says both.
    pub fn of(job: &NewJob) -> Result<Self, ScheduleInvalid> {
        if job.due != Due::Now {
            let why = "a job with a delay or an instant: its schedule says when it starts, see `spread`";
            return Err(ScheduleInvalid::field("job", why));
        }
        if job.unique.is_some() {
            let why = "a unique job: each slot has one job, and `overlap` says what happens while it runs";
            return Err(ScheduleInvalid::field("job", why));
        }
        let text = std::str::from_utf8(&job.payload).ok();
        Ok(Self {
            kind: job.kind.clone(),
            payload: text.map_or_else(|| hex(&job.payload), str::to_owned),
            is_hex: text.is_none(),
            priority: job.priority,
            expires: job.expires.map(super::micros_of),
            key: job.key.clone(),
            tags: job.tags.clone(),
            spec: job.spec.text(),
        })
    }

    /// The kind of its jobs.
    pub fn kind(&self) -> &Name {
        &self.kind
    }

    /// Their key, if they have one.
    pub fn key(&self) -> Option<&Name> {
        self.key.as_ref()
    }

    /// Their payload.
    pub fn payload(&self) -> Vec<u8> {
        if self.is_hex { unhex(&self.payload) } else { self.payload.as_bytes().to_vec() }
    }

    /// A job of a slot, or of an instant at which a person wants it.
    ///
    /// # Errors
    /// When what is kept does not read.
    pub fn of_slot(&self, queue: &Name, schedule: &str, run: Run) -> Result<NewJob, ScheduleInvalid> {
        let mut job = self.plain(queue)?;
        job.spec.meta.insert(SCHEDULE.to_owned(), schedule.to_owned());
        job.spec.meta.insert(NOMINAL.to_owned(), run.slot.to_string());
        if run.is_made_up {
            job.spec.meta.insert(MADE_UP.to_owned(), "true".to_owned());
        }
        Ok(job)
    }

    fn plain(&self, queue: &Name) -> Result<NewJob, ScheduleInvalid> {
        let bad = |why: String| ScheduleInvalid::field("job", why);
        let options = Options::new().queue(queue.as_str()).priority(self.priority);
        let mut job =
            NewJob::new(&self.kind, self.payload(), options).map_err(|error| bad(error.to_string()))?;
        job.expires = self.expires.map(Duration::from_micros);
        (job.key, job.tags) = (self.key.clone(), self.tags.clone());
        job.spec = Spec::read(self.spec.as_deref()).map_err(|error| bad(error.to_string()))?;
        Ok(job)
    }
}

/// The slot in the meta of a job, if it has one.
pub fn nominal_of(spec: &Spec) -> Option<Timestamp> {
    let text = spec.meta.get(NOMINAL)?;
    Some(humantime::parse_rfc3339(text).ok()?.into())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is not hexadecimal is left out: only [`hex`] writes it.
fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter_map(|c| c.to_digit(16)).filter_map(|d| d.try_into().ok()).collect();
    digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
