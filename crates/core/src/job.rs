//! A job in its three shapes: as it is handed in, as a worker gets it, and as anyone can look at it.

mod again;
mod attempt;
mod check;
mod forward;
mod on_dead;
mod spec;
mod trace;

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::batch::JOB_WEIGHT;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::id::{Fence, JobId};
use crate::name::{Name, NameError};
use crate::options::{Due, Options, STALLS_MAX_DEFAULT, TAGS_MAX};
use crate::outcome::{Ending, Outcome, Reason};
use crate::retry::PolicyInvalid;
use crate::size::{Caps, TooLarge};
use crate::state::State;
use crate::stored;
use crate::unique::{OnConflict, Unique, UniqueInvalid, UniqueKey};
pub use again::AGAIN_OF;
pub use attempt::{ATTEMPTS_KEPT, AttemptRecord, LastClaim};
pub use forward::{FORWARD_ERROR, FORWARD_OF, FORWARD_REASON, FORWARDED_FROM, Forward};
pub use on_dead::{DeadJob, EXPIRED, OnDead};
pub use spec::{META_MAX, Spec};
pub use trace::{Trace, TraceInvalid};

/// A job on its way into a store. Everything in it has been checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NewJob {
    /// Made by the caller; a repeat of the same id is answered, not stored twice.
    pub id: JobId,
    /// The queue it waits in.
    pub queue: Name,
    /// What it is; a stored contract between producers and handlers.
    pub kind: Name,
    /// The handler's input, encoded.
    #[serde(with = "stored::bytes")]
    pub payload: Bytes,
    /// Higher is claimed first.
    pub priority: i16,
    /// When it may start.
    pub due: Due,
    /// Dead unless started this long after it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Duration>,
    /// The key that it takes turns by with jobs of other keys, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// The key that no other job of its queue may hold, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unique: Option<UniqueKey>,
    /// What happens if another job holds it.
    pub on_conflict: OnConflict,
    /// The options that no store decides by.
    pub spec: Spec,
    /// Words to find it by, sorted and without repeats.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<Name>,
}

impl NewJob {
    /// Whether it has nothing that a store decides by but its queue, kind and priority. Short forms in a store are for
    /// these; others go the general way. By all fields, so that a new one is decided about here.
    pub fn is_plain(&self) -> bool {
        let Self { id: _, queue: _, kind: _, payload: _, priority: _, due, expires, key, unique, .. } = self;
        let Self { on_conflict: _, spec: _, tags: _, .. } = self;
        *due == Due::Now && expires.is_none() && key.is_none() && unique.is_none()
    }

    /// Checks a kind and its options. The payload's size is the store's to check, for the cap is the queue's.
    pub fn new(
        kind: impl AsRef<str>,
        payload: impl Into<Bytes>,
        options: Options,
    ) -> Result<Self, JobInvalid> {
        let queue = options.queue_name().map_err(|error| JobInvalid::Name { what: "queue", error })?;
        let kind = Name::new(kind).map_err(|error| JobInvalid::Name { what: "kind", error })?;
        let key = options.key.as_ref().map(Name::new).transpose();
        let key = key.map_err(|error| JobInvalid::Name { what: "key", error })?;
        let forward_dead = options.forward_dead.as_ref().map(Name::new).transpose();
        let forward_dead = forward_dead.map_err(|error| JobInvalid::Name { what: "queue", error })?;
        options.check()?;
        if options.tags.len() > TAGS_MAX {
            return Err(JobInvalid::Tags { count: options.tags.len() });
        }
        let mut tags = options
            .tags
            .iter()
            .map(|tag| Name::new(tag).map_err(|error| JobInvalid::Name { what: "tag", error }))
            .collect::<Result<Vec<_>, _>>()?;
        tags.sort_unstable();
        tags.dedup();
        let (payload, due) = (payload.into(), options.due.unwrap_or(Due::Now));
        let unique = options.unique.as_ref().map(|unique| unique.of(kind.as_str(), &payload, due));
        let (unique, on_conflict) = unique.transpose().map_err(JobInvalid::Unique)?.unzip();
        Ok(Self {
            id: JobId::new(),
            queue,
            kind,
            payload,
            priority: options.priority.unwrap_or(0),
            due,
            expires: options.expires,
            key,
            unique,
            on_conflict: on_conflict.unwrap_or_default(),
            spec: Spec {
                retry: options.retry.unwrap_or_default(),
                timeout: options.timeout,
                stalls_max: options.stalls_max.unwrap_or(STALLS_MAX_DEFAULT),
                trace: options.trace,
                meta: options.meta,
                on_dead: options.on_dead,
                forward_dead,
            },
            tags,
        })
    }

    /// Whether it may die inside the store, because it does not start in time, and something is to follow that.
    pub fn is_followed_when_expired(&self) -> bool {
        self.expires.is_some() && (self.spec.on_dead.is_some() || self.spec.forward_dead.is_some())
    }

    /// A new job that is as this one but for its payload, and for the key that it has by that if it is to be unique.
    ///
    /// # Errors
    /// When it cannot be unique in the way that was asked for.
    pub fn with_payload(&self, payload: Bytes, unique: Option<&Unique>) -> Result<Self, JobInvalid> {
        let mut job = self.clone().with_id(JobId::new());
        if let Some(unique) = unique {
            let made = unique.of(job.kind.as_str(), &payload, job.due).map_err(JobInvalid::Unique)?;
            (job.unique, job.on_conflict) = (Some(made.0), made.1);
        }
        job.payload = payload;
        Ok(job)
    }

    /// The same job under an id of the caller's choice.
    #[must_use]
    pub fn with_id(mut self, id: JobId) -> Self {
        self.id = id;
        self
    }

    /// What it adds to the weight of a call: its payload, and as much again as any job costs a server.
    pub fn weight(&self) -> usize {
        self.payload.len() + JOB_WEIGHT
    }

    /// Fails when the payload is above the queue's cap. The id is tested before: see
    /// [`Taken::answer`](crate::store::Taken::answer).
    pub fn check_payload(&self, cap: usize) -> Result<(), StoreError> {
        let checked = TooLarge::check("payload", self.payload.len(), cap);
        checked.map_err(|error| StoreError::TooLarge { id: self.id, error })
    }

    /// Where and when the job begins if it is accepted now: its due instant, and `scheduled` or `ready`; `blocked` if it is
    /// held, and due as soon as it is sent.
    pub fn entry(&self, now: Timestamp) -> (State, Timestamp) {
        let due_at = match self.due {
            Due::Held => return (State::Blocked, now),
            Due::Now => now,
            Due::After(delay) => now.plus(delay),
            Due::At(time) => time.max(now),
        };
        (if due_at > now { State::Scheduled } else { State::Ready }, due_at)
    }
}

/// What is wrong with a job before anything is stored.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JobInvalid {
    /// A queue, kind, key or tag that is not a name.
    #[error("bad {what}: {error}")]
    Name {
        /// `queue`, `kind`, `key` or `tag`.
        what: &'static str,
        /// What is wrong with it.
        error: NameError,
    },
    /// Too many tags.
    #[error("{count} tags: a job carries at most {TAGS_MAX}")]
    Tags {
        /// How many were given.
        count: usize,
    },
    /// Both a delay and an instant.
    #[error("both `delay` and `at` say when the job may start: say one of them")]
    DueTwice,
    /// A timeout of zero.
    #[error("a timeout of zero ends every attempt before it begins: give a longer one, or none for no limit")]
    NoTime,
    /// Too much in the free map.
    #[error("{size} bytes of meta: a job carries at most {META_MAX}; put large content into the payload")]
    Meta {
        /// Bytes of keys and values together.
        size: usize,
    },
    /// A unique key that makes no sense.
    #[error("{0}")]
    Unique(UniqueInvalid),
    /// A retry policy that makes no sense.
    #[error("bad retry policy: {0}")]
    Retry(PolicyInvalid),
}

/// The counters that the judge reads and moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Attempts used, the running one included: it rises in the claim.
    pub attempt: u32,
    /// Lost leases.
    pub stalls: u32,
    /// Attempts that ended with an unknown effect.
    pub ambiguous: u32,
    /// The delay before the running attempt, for the jitter that builds on it.
    pub backoff: Duration,
}

/// What the judge must know about a running job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Facts {
    /// Its counters as of the claim.
    pub counters: Counters,
    /// When and how often it is tried again, and how many lost leases it survives.
    pub spec: Spec,
}

/// A job in the hands of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClaimedJob {
    /// Its id.
    pub id: JobId,
    /// The queue it came from.
    pub queue: Name,
    /// What it is.
    pub kind: Name,
    /// The handler's input, encoded.
    #[serde(with = "stored::bytes")]
    pub payload: Bytes,
    /// Its priority.
    pub priority: i16,
    /// The key that it takes turns by.
    pub key: Option<Name>,
    /// The right to write about this attempt.
    pub fence: Fence,
    /// What the judge must know.
    pub facts: Facts,
    /// How large its output and errors may be.
    pub caps: Caps,
    /// Its tags.
    pub tags: Vec<Name>,
    /// When it was accepted.
    pub enqueued_at: Timestamp,
    /// When it could start.
    pub due_at: Timestamp,
    /// When it was claimed.
    pub claimed_at: Timestamp,
}

/// A job that a worker holds and does not run: its lease has run out, the answer to its claim was lost, or
/// what is stored of it does not read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostJob {
    /// Its id.
    pub id: JobId,
    /// The fence of the lost attempt.
    pub fence: Fence,
    /// What the judge must know.
    pub facts: Facts,
    /// The queue it came from.
    pub queue: Name,
    /// What it is.
    pub kind: Name,
    /// The label of the worker that lost it.
    pub worker: String,
    /// Whether its handler had begun, as far as the store was told.
    pub has_begun: bool,
    /// Why this program cannot read the job, if so. Facts and names are then what could be read of them.
    pub unreadable: Option<Unreadable>,
}

impl LostJob {
    /// How the attempt ended. Only one that had begun has stalled: a job that never started proves nothing
    /// against itself. What a newer program wrote is left to one.
    pub fn outcome(&self) -> Outcome {
        match &self.unreadable {
            Some(Unreadable::Broken(why)) => Outcome::Unreadable { why: why.clone() },
            Some(Unreadable::Newer { .. }) => Outcome::Returned,
            None if self.has_begun => Outcome::Stalled { worker: self.worker.clone() },
            None => Outcome::Returned,
        }
    }
}

/// Why this program cannot read a stored job. Nothing else is harmed by it.
#[derive(Debug, Clone, PartialEq, Eq, Error, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unreadable {
    /// A newer program wrote it and can read it.
    #[error("it was written in form {form} by a newer program: run that version, or a later one")]
    Newer {
        /// The form that its record or row names.
        form: i64,
    },
    /// What is stored makes no sense to any program that knows its form.
    #[error("what is stored does not read: {0}")]
    Broken(String),
}

/// A job as anyone can look at it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its id.
    pub id: JobId,
    /// The queue it is in.
    pub queue: Name,
    /// What it is.
    pub kind: Name,
    /// Where it is in its life.
    pub state: State,
    /// Why it is dead or cancelled.
    pub reason: Option<Reason>,
    /// The handler's input, encoded.
    #[serde(with = "stored::bytes")]
    pub payload: Bytes,
    /// The handler's result, encoded.
    #[serde(default, with = "stored::bytes::option")]
    pub output: Option<Bytes>,
    /// What the handler last reported, encoded.
    #[serde(default, with = "stored::bytes::option")]
    pub progress: Option<Bytes>,
    /// Higher is claimed first.
    pub priority: i16,
    /// The key that it takes turns by.
    pub key: Option<Name>,
    /// The unique key that it was enqueued with; whether it holds it still follows from its state and the key's lifetime.
    pub unique: Option<UniqueKey>,
    /// Its counters.
    pub counters: Counters,
    /// The options that no store decides by.
    pub spec: Spec,
    /// Words to find it by.
    pub tags: Vec<Name>,
    /// How often it has been claimed; never falls.
    pub fence: u64,
    /// Whether the running attempt was asked to stop.
    pub cancel_requested: bool,
    /// Whether the handler of the running attempt has begun. A worker also claims ahead of its free slots: such a
    /// job is `running` for the store, and has not begun.
    pub has_begun: bool,
    /// Why this program cannot read the job, if so. The rest is what could be read of it.
    pub unreadable: Option<Unreadable>,
    /// When it was accepted.
    pub enqueued_at: Timestamp,
    /// When it may start, or might have started.
    pub due_at: Timestamp,
    /// When it is dead unless it has started.
    pub expires_at: Option<Timestamp>,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// Its newest attempts, oldest first; at most [`ATTEMPTS_KEPT`].
    pub attempts: Vec<AttemptRecord>,
}

impl JobRecord {
    /// The newest error text.
    pub fn last_error(&self) -> Option<&str> {
        self.attempts.iter().rev().find_map(|attempt| attempt.error.as_deref())
    }

    /// The attempt that runs: its worker, and since when that has the job. Nothing in a record without attempts.
    pub fn running(&self) -> Option<&AttemptRecord> {
        self.attempts.last().filter(|attempt| attempt.ending.is_none())
    }

    /// The attempts that were lost with their worker, oldest first: which workers, and when.
    pub fn stalls(&self) -> impl Iterator<Item = &AttemptRecord> {
        self.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Stalled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::retry::Policy;

    #[test]
    fn bad_names_say_which_one() {
        let error = NewJob::new("k", "", Options::new().queue("a\nb")).unwrap_err();
        assert!(error.to_string().starts_with("bad queue: name \"a\\nb\""), "{error}");
        let error = NewJob::new("", "", Options::new()).unwrap_err();
        assert!(error.to_string().starts_with("bad kind: name is empty"), "{error}");
    }

    #[test]
    fn options_that_make_no_sense_are_refused() {
        let policy = Policy::fixed(0, Duration::ZERO);
        let error = NewJob::new("k", "", Options::new().retry(policy)).unwrap_err();
        assert!(error.to_string().starts_with("bad retry policy: 0 attempts"), "{error}");
        let error = NewJob::new("k", "", Options::new().timeout(Duration::ZERO)).unwrap_err();
        assert_eq!(error, JobInvalid::NoTime);
    }

    #[test]
    fn tags_are_sorted_and_single() {
        let job = NewJob::new("k", "", Options::new().tag("b").tag("a").tag("b")).unwrap();
        assert_eq!(job.tags.iter().map(Name::as_str).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_payload_above_the_cap_names_its_job() {
        let job = NewJob::new("k", "12345", Options::new()).unwrap();
        assert!(job.check_payload(5).is_ok());
        let refused = job.check_payload(4).unwrap_err();
        assert!(matches!(refused, StoreError::TooLarge { id, .. } if id == job.id), "{refused}");
    }

    #[test]
    fn a_job_is_never_due_before_it_was_accepted() {
        let now = Timestamp::from_micros(1_000);
        let job = |options| NewJob::new("k", "", options).unwrap();
        assert_eq!(job(Options::new()).entry(now), (State::Ready, now));
        assert_eq!(job(Options::new().delay(Duration::ZERO)).entry(now), (State::Ready, now));
        assert_eq!(job(Options::new().at(std::time::SystemTime::UNIX_EPOCH)).entry(now), (State::Ready, now));
        let later = now.plus(Duration::from_secs(1));
        assert_eq!(job(Options::new().delay(Duration::from_secs(1))).entry(now), (State::Scheduled, later));
    }
}
