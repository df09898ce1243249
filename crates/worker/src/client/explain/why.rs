//! What can be the cause that a job is where it is. Programs match on it, and get it as JSON: instants are text, spans are
//! seconds. Causes and fields may be added.

use std::time::Duration;

use serde::{Serialize, Serializer};
use windlass_core::clock::Timestamp;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::{JobId, Name};

use super::blocked::{BlockedBy, FlowSeen};

/// A cause that a job is where it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "cause", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It waits for its time.
    NotDue {
        /// When it may start.
        #[serde(serialize_with = "instant")]
        due_at: Timestamp,
    },
    /// It waits to be tried again, or the handler asked to come back later.
    Retry {
        /// When it may start.
        #[serde(serialize_with = "instant")]
        due_at: Timestamp,
        /// Attempts used.
        attempt: u32,
        /// Attempts it has in all.
        attempts_max: u32,
        /// How the last one ended.
        ending: Option<Ending>,
        /// The newest error.
        error: Option<String>,
    },
    /// Its time has come, and no worker has asked for jobs since.
    Overdue {
        /// When it might have started.
        #[serde(serialize_with = "instant")]
        due_at: Timestamp,
    },
    /// It did not start in time, and is dead with the next claim or sweep.
    Expired {
        /// When its expiry passed.
        #[serde(serialize_with = "instant")]
        expires_at: Timestamp,
    },
    /// Its queue, its kind or its key is paused.
    Paused {
        /// Which of them.
        what: Paused,
        /// Its name.
        name: Name,
        /// Who asked for it.
        by: String,
        /// Why.
        why: String,
        /// When it ends by itself.
        #[serde(serialize_with = "instant_or_none")]
        until: Option<Timestamp>,
    },
    /// As many jobs of its key run as may.
    KeyConcurrency {
        /// The key.
        key: Name,
        /// How many may run.
        most: u32,
        /// Those that run, among the newest.
        running: Vec<JobId>,
    },
    /// As many jobs of its key have started as may, as far as the newest jobs tell.
    KeyRate {
        /// The key.
        key: Name,
        /// How many may start.
        jobs: u32,
        /// In how much time.
        #[serde(rename = "per_seconds", serialize_with = "seconds")]
        per: Duration,
        /// When the next one may start.
        #[serde(serialize_with = "instant_or_none")]
        until: Option<Timestamp>,
    },
    /// As many jobs of its queue run as may.
    QueueConcurrency {
        /// How many may run.
        most: u32,
        /// How many do.
        running: u64,
    },
    /// As many jobs of its queue have started as may.
    QueueRate {
        /// How many may start.
        jobs: u32,
        /// In how much time.
        #[serde(rename = "per_seconds", serialize_with = "seconds")]
        per: Duration,
        /// When the next one may start.
        #[serde(serialize_with = "instant_or_none")]
        until: Option<Timestamp>,
    },
    /// The definition of its queue uses a rule that this program does not know. Programs of this version take nothing there.
    UnknownRules {
        /// The newest rule that it uses.
        rules: u32,
        /// The newest rule that this program knows.
        known: u32,
    },
    /// The definition of its queue does not read, or the queue could not be asked.
    Definition {
        /// What is wrong with it.
        problem: String,
    },
    /// No living worker serves its queue.
    NoWorker {
        /// The workers that the store knows, which serve others or are lost; the newest first.
        others: Vec<WorkerSeen>,
    },
    /// Living workers serve its queue, and none has a handler for its kind.
    NoHandler {
        /// Those that serve the queue.
        workers: Vec<WorkerSeen>,
    },
    /// It was lost with a worker before. A worker starts one such job at a time.
    StalledBefore {
        /// How often.
        stalls: u32,
        /// How often it may be.
        stalls_max: u32,
    },
    /// Other jobs come first.
    Behind {
        /// So many at least.
        at_least: u64,
        /// So many at most.
        at_most: u64,
        /// How many other keys take turns with it, among the newest jobs.
        keys: u64,
        /// How long that takes, if jobs go on to complete as they did lately; for the least number.
        #[serde(rename = "estimate_seconds", serialize_with = "seconds_or_none")]
        estimate: Option<Duration>,
        /// The living workers that may take it.
        workers: Vec<WorkerSeen>,
    },
    /// It is held until other jobs have ended.
    Blocked {
        /// The flow that it belongs to.
        flow: Option<FlowSeen>,
        /// What holds it.
        #[serde(flatten)]
        by: BlockedBy,
    },
    /// It has added jobs and comes back when all of them have ended.
    Gathers {
        /// The flow of those jobs.
        flow: FlowSeen,
        /// How many of them have ended.
        ended: u32,
        /// How many there are.
        jobs: u32,
    },
    /// Nothing keeps it: a worker should take it with its next claim.
    Ready {
        /// The living workers that may take it.
        workers: Vec<WorkerSeen>,
    },
    /// A worker has it.
    Held {
        /// The label of the worker.
        worker: String,
        /// Since when.
        #[serde(serialize_with = "instant_or_none")]
        since: Option<Timestamp>,
        /// When the worker's lease runs out unless it is renewed; nothing where no lease has this label.
        #[serde(serialize_with = "instant_or_none")]
        lease_expires_at: Option<Timestamp>,
        /// Whether its handler is known to have begun.
        has_begun: bool,
        /// What the handler last reported, as text.
        progress: Option<String>,
        /// How long an attempt may take; nothing where the worker decides.
        #[serde(rename = "timeout_seconds", serialize_with = "seconds_or_none")]
        timeout: Option<Duration>,
    },
    /// The worker that has it was asked to stop it.
    CancelRequested,
    /// The lease of the worker that has it has run out, and the job was not taken back yet.
    LeaseLost {
        /// The label of the worker.
        worker: String,
        /// When the lease ran out; nothing where no lease has this label any more.
        #[serde(serialize_with = "instant_or_none")]
        expired_at: Option<Timestamp>,
        /// Whether a reaper may take it back now. One that may not is locked by another program's transaction.
        can_be_taken_back: bool,
        /// Living workers, any of which takes it back.
        workers: Vec<WorkerSeen>,
    },
    /// It is done.
    Completed {
        /// When.
        #[serde(serialize_with = "instant_or_none")]
        at: Option<Timestamp>,
        /// The label of the worker.
        worker: Option<String>,
        /// Which attempt it was.
        attempt: u32,
        /// Until when it is kept, by its age.
        #[serde(serialize_with = "instant_or_none")]
        kept_until: Option<Timestamp>,
    },
    /// It was given up.
    Dead {
        /// Why.
        reason: Option<Reason>,
        /// When.
        #[serde(serialize_with = "instant_or_none")]
        at: Option<Timestamp>,
        /// Attempts used.
        attempt: u32,
        /// Attempts it had in all.
        attempts_max: u32,
        /// Leases that were lost with it.
        stalls: u32,
        /// The newest error.
        error: Option<String>,
        /// The job that holds its unique key, among the newest: a retry is refused until that has ended.
        held_by: Option<JobId>,
        /// Until when it is kept, by its age.
        #[serde(serialize_with = "instant_or_none")]
        kept_until: Option<Timestamp>,
    },
    /// It was ended on purpose.
    Cancelled {
        /// Why.
        reason: Option<Reason>,
        /// When.
        #[serde(serialize_with = "instant_or_none")]
        at: Option<Timestamp>,
        /// The newest error, or what the handler said.
        error: Option<String>,
        /// The job that holds its unique key, among the newest: a retry is refused until that has ended.
        held_by: Option<JobId>,
        /// Until when it is kept, by its age.
        #[serde(serialize_with = "instant_or_none")]
        kept_until: Option<Timestamp>,
    },
    /// This program cannot read what is stored of it.
    Unreadable {
        /// What is wrong with it.
        problem: String,
        /// Whether a newer program wrote it, and can read it.
        is_newer: bool,
    },
}

/// What of a queue is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Paused {
    /// All of it.
    Queue,
    /// Jobs of a kind.
    Kind,
    /// Jobs of a key.
    Key,
}

/// A worker, as far as it tells why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct WorkerSeen {
    /// Its label.
    pub worker: String,
    /// The queues that it serves.
    pub queues: Vec<Name>,
    /// The kinds that it runs, the first of them.
    pub kinds: Vec<Name>,
    /// Jobs that it has.
    pub running: u64,
    /// Whether its lease has run out.
    pub is_lost: bool,
}

impl Why {
    /// The word that JSON has as `cause`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotDue { .. } => "not_due",
            Self::Retry { .. } => "retry",
            Self::Overdue { .. } => "overdue",
            Self::Expired { .. } => "expired",
            Self::Paused { .. } => "paused",
            Self::KeyConcurrency { .. } => "key_concurrency",
            Self::KeyRate { .. } => "key_rate",
            Self::QueueConcurrency { .. } => "queue_concurrency",
            Self::QueueRate { .. } => "queue_rate",
            Self::UnknownRules { .. } => "unknown_rules",
            Self::Definition { .. } => "definition",
            Self::NoWorker { .. } => "no_worker",
            Self::NoHandler { .. } => "no_handler",
            Self::StalledBefore { .. } => "stalled_before",
            Self::Behind { .. } => "behind",
            Self::Blocked { .. } => "blocked",
            Self::Gathers { .. } => "gathers",
            Self::Ready { .. } => "ready",
            Self::Held { .. } => "held",
            Self::CancelRequested => "cancel_requested",
            Self::LeaseLost { .. } => "lease_lost",
            Self::Completed { .. } => "completed",
            Self::Dead { .. } => "dead",
            Self::Cancelled { .. } => "cancelled",
            Self::Unreadable { .. } => "unreadable",
        }
    }

    /// Whether it keeps a waiting job from starting by itself, whatever workers do.
    pub(super) const fn binds(&self) -> bool {
        !matches!(self, Self::Overdue { .. } | Self::Definition { .. } | Self::StalledBefore { .. })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn instant<S: Serializer>(at: &Timestamp, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(at)
}

#[expect(clippy::ref_option, reason = "serde asks for it")]
fn instant_or_none<S: Serializer>(at: &Option<Timestamp>, to: S) -> Result<S::Ok, S::Error> {
    at.map(|at| at.to_string()).serialize(to)
}

fn seconds<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(span.as_secs_f64())
}

#[expect(clippy::ref_option, reason = "serde asks for it")]
fn seconds_or_none<S: Serializer>(span: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    span.map(|span| span.as_secs_f64()).serialize(to)
}
