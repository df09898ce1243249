//! Follow-ups: what is written together with something else, or not at all.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::job::NewJob;
use crate::name::Name;
use crate::record::{Change, RecordKey, RecordWrite, VALUE_MAX};

/// New jobs and changes of records that take effect in one write, all or none: alone, or with the end of an attempt.
///
/// Records are those of the queue that the write is about. Where an attempt carries follow-ups, their jobs may be for any queue,
/// elsewhere for that queue only.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FollowUps {
    /// Jobs to accept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<NewJob>,
    /// Records to change, each at most once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<RecordWrite>,
}

/// The most jobs of one write.
pub const JOBS_MAX: usize = 1_000;
/// The most records of one write.
pub const RECORDS_MAX: usize = 100;
/// The most that keys and values of one write may have, in bytes.
pub const RECORD_BYTES_MAX: usize = 1 << 20;
/// The most that the jobs of one write may weigh.
pub const JOBS_WEIGHT_MAX: usize = 16 << 20;

impl FollowUps {
    /// Changes of records, and no jobs.
    pub fn of_records(records: Vec<RecordWrite>) -> Self {
        Self { jobs: Vec::new(), records }
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.records.is_empty()
    }

    /// What they add to the weight of a call.
    pub fn weight(&self) -> usize {
        let jobs: usize = self.jobs.iter().map(NewJob::weight).sum();
        jobs + self.records.iter().map(RecordWrite::weight).sum::<usize>()
    }

    /// Tests what every store holds them to.
    ///
    /// # Errors
    /// When there are too many, when they are too large, or when a record stands there twice.
    pub fn check(&self) -> Result<(), FollowUpsInvalid> {
        if self.jobs.len() > JOBS_MAX {
            return Err(FollowUpsInvalid::Jobs { count: self.jobs.len() });
        }
        if self.records.len() > RECORDS_MAX {
            return Err(FollowUpsInvalid::Records { count: self.records.len() });
        }
        let mut keys = BTreeSet::new();
        for write in &self.records {
            if let Change::Put { value, .. } = &write.change
                && value.len() > VALUE_MAX
            {
                return Err(FollowUpsInvalid::Value { key: write.key.clone(), size: value.len() });
            }
            if !keys.insert(&write.key) {
                return Err(FollowUpsInvalid::Twice { key: write.key.clone() });
            }
        }
        let size = self.records.iter().map(RecordWrite::weight).sum();
        if size > RECORD_BYTES_MAX {
            return Err(FollowUpsInvalid::Bytes { size });
        }
        let weight = self.jobs.iter().map(NewJob::weight).sum();
        if weight > JOBS_WEIGHT_MAX {
            return Err(FollowUpsInvalid::Weight { weight });
        }
        Ok(())
    }

    /// Tests them as [`check`](Self::check) does, and that all jobs are for this queue.
    ///
    /// # Errors
    /// As there, and when a job is for another queue.
    pub fn check_in(&self, queue: &Name) -> Result<(), FollowUpsInvalid> {
        match self.jobs.iter().find(|job| job.queue != *queue) {
            Some(job) => Err(FollowUpsInvalid::Elsewhere { queue: queue.clone(), other: job.queue.clone() }),
            None => self.check(),
        }
    }
}

/// What no store writes together.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FollowUpsInvalid {
    /// Too many jobs.
    #[error("{count} jobs in one write: at most {JOBS_MAX}; let a job add the rest")]
    Jobs {
        /// How many.
        count: usize,
    },
    /// Too many records.
    #[error("{count} records in one write: at most {RECORDS_MAX}; keep more in one value, or write in steps")]
    Records {
        /// How many.
        count: usize,
    },
    /// A value that is too large.
    #[error(
        "the record {key:?} has {size} bytes, at most {VALUE_MAX} are kept: store large content elsewhere and keep a \
         reference"
    )]
    Value {
        /// Its key.
        key: RecordKey,
        /// Its size in bytes.
        size: usize,
    },
    /// One record is changed twice.
    #[error("the record {key:?} is changed twice in one write: change it once")]
    Twice {
        /// Its key.
        key: RecordKey,
    },
    /// Too many bytes in all.
    #[error("{size} bytes of records in one write: at most {RECORD_BYTES_MAX}; write in steps")]
    Bytes {
        /// How many.
        size: usize,
    },
    /// Jobs that are too large in all.
    #[error("the jobs of one write weigh {weight} bytes: at most {JOBS_WEIGHT_MAX}; let a job add the rest")]
    Weight {
        /// Their payloads, and what every job costs.
        weight: usize,
    },
    /// A job for another queue than the records.
    #[error("a job for queue {other} together with records of queue {queue}: they must be of one queue")]
    Elsewhere {
        /// The queue of the records.
        queue: Name,
        /// The queue of the job.
        other: Name,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    fn put(key: &str, size: usize) -> RecordWrite {
        RecordWrite::put(RecordKey::new(key).unwrap(), vec![0; size])
    }

    #[test]
    fn writes_are_bounded() {
        let records = |records: Vec<RecordWrite>| FollowUps { records, ..FollowUps::default() };
        assert!(FollowUps::default().check().is_ok());
        assert!(records(vec![put("a", VALUE_MAX), put("b", 0)]).check().is_ok());
        let refused = |records: FollowUps| records.check().unwrap_err().to_string();
        assert!(refused(records(vec![put("a", VALUE_MAX + 1)])).contains("\"a\""));
        assert!(refused(records(vec![put("a", 1), put("a", 2)])).contains("twice"));
        let many = (0..=RECORDS_MAX).map(|i| put(&i.to_string(), 1)).collect();
        assert!(refused(records(many)).starts_with("101 records"));
        let large = (0..5).map(|i| put(&i.to_string(), VALUE_MAX)).collect();
        assert!(refused(records(large)).contains("bytes of records"));
    }

    #[test]
    fn jobs_beside_records_are_of_their_queue() {
        let job = NewJob::new("k", "", Options::new().queue("q")).unwrap();
        let both = FollowUps { jobs: vec![job; 2], records: vec![put("a", 1)] };
        assert!(both.check_in(&Name::new("q").unwrap()).is_ok());
        assert!(both.check_in(&Name::new("r").unwrap()).is_err());
        let many = FollowUps { jobs: vec![both.jobs[0].clone(); JOBS_MAX + 1], records: Vec::new() };
        assert!(many.check().is_err());
    }
}
