//! What can go wrong outside a handler, for callers of the client and of the worker.

use std::time::Duration;

use thiserror::Error as ThisError;
use windlass_core::flow::FlowInvalid;
use windlass_core::job::JobInvalid;
use windlass_core::name::NameError;
use windlass_core::record::{RecordKey, RecordKeyError};
use windlass_core::schedule::ScheduleInvalid;
use windlass_core::{JobId, Name, StoreError};

/// An error of a client or worker call.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A job that cannot be accepted; nothing was stored.
    #[error(transparent)]
    Job(#[from] JobInvalid),
    /// A payload that does not encode; nothing was stored.
    #[error("payload of kind `{kind}` does not encode: {error}")]
    Encode {
        /// The kind of the job.
        kind: &'static str,
        /// What the codec says.
        #[source]
        error: serde_json::Error,
    },
    /// More than one call may carry; nothing was stored.
    #[error(
        "{jobs} jobs with {bytes} bytes in one call: split it into calls of at most {jobs_max} jobs and {bytes_max} bytes"
    )]
    BatchTooLarge {
        /// Jobs given.
        jobs: usize,
        /// Bytes of payload given.
        bytes: usize,
        /// Jobs that one call may carry.
        jobs_max: usize,
        /// Bytes of payload that one call may carry.
        bytes_max: usize,
    },
    /// A text that cannot be the key of a record.
    #[error(transparent)]
    RecordKey(#[from] RecordKeyError),
    /// A record that is not what its reader takes it for.
    #[error("the value of record {key:?} does not decode: {error}")]
    Record {
        /// Its key.
        key: RecordKey,
        /// What the codec says.
        #[source]
        error: serde_json::Error,
    },
    /// A schedule that makes no sense; nothing was stored.
    #[error(transparent)]
    Schedule(#[from] ScheduleInvalid),
    /// A schedule that is not there.
    #[error("there is no schedule {id:?}: `client.schedules` lists those that there are")]
    NoSchedule {
        /// Its id.
        id: String,
    },
    /// A flow that makes no sense; nothing of it can start.
    #[error(transparent)]
    Flow(#[from] FlowInvalid),
    /// A flow that is not there.
    #[error("queue {queue} has no flow {id}: it was never submitted there, or was over long ago")]
    NoFlow {
        /// Its id.
        id: JobId,
        /// The queue that should keep it.
        queue: Name,
    },
    /// An output that is not of the type that its job says.
    #[error("the output of job {id} does not decode: {error}")]
    Output {
        /// The job.
        id: JobId,
        /// What the codec says.
        #[source]
        error: serde_json::Error,
    },
    /// The attempt has lost its job to another one; its writes no longer count.
    #[error(
        "this attempt has lost its job: its lease ran out or the job was ended elsewhere, so stop working on it"
    )]
    Fenced,
    /// A worker that cannot start as it is set up.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The store's answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The runtime that the client was made in has ended.
    #[error("the client's runtime has ended: make the client inside the runtime that uses it")]
    Closed,
    /// Other programs change the definition of a queue all the time.
    #[error(
        "the definition of queue {queue} changes all the time: try again, and see which program defines it in a loop"
    )]
    Busy {
        /// The queue.
        queue: Name,
    },
    /// A stored definition that does not read is not changed: what it said would be lost.
    #[error("the definition of queue {queue} does not read ({why}): set a whole new one with `define`")]
    Definition {
        /// The queue.
        queue: Name,
        /// What is wrong with it.
        why: String,
    },
    /// A drain that found no end.
    #[error(
        "still not at rest after {attempts} attempts: a handler puts its job back without a delay, or jobs make jobs without end"
    )]
    Restless {
        /// Attempts that were run.
        attempts: u64,
    },
}

impl Error {
    /// Whether a record was not as its writer expected it: another one wrote first.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::Conflict { .. }))
    }
}

/// The result of a client or worker call.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What is wrong with the way a worker is set up.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
#[non_exhaustive]
pub enum ConfigError {
    /// No handler was given.
    #[error("the worker has no handler: give it at least one with `handle`")]
    NoHandler,
    /// Two handlers for one kind.
    #[error("kind `{kind}` has two handlers: a kind has one handler per worker")]
    DuplicateKind {
        /// The kind.
        kind: String,
    },
    /// A queue or kind that is not a valid name.
    #[error("bad {what}: {error}")]
    Name {
        /// `queue` or `kind`.
        what: &'static str,
        /// What is wrong with it.
        error: NameError,
    },
    /// A job type whose own options make no sense; its jobs could not be enqueued either.
    #[error("options of kind `{kind}`: {error}")]
    Options {
        /// The kind.
        kind: &'static str,
        /// What is wrong with them.
        error: JobInvalid,
    },
    /// A declared schedule that makes no sense.
    #[error("schedule {id:?}: {error}")]
    Schedule {
        /// Its id.
        id: String,
        /// What is wrong with it.
        error: String,
    },
    /// A number that must be larger.
    #[error("{what} is {given}: at least {least} is needed")]
    TooSmall {
        /// Which setting.
        what: &'static str,
        /// What was given.
        given: usize,
        /// What would do.
        least: usize,
    },
    /// A duration that must be longer.
    #[error("{what} is {given:?}: at least {least:?} is needed")]
    TooShort {
        /// Which setting.
        what: &'static str,
        /// What was given.
        given: Duration,
        /// What would do.
        least: Duration,
    },
    /// A duration that must be shorter.
    #[error("{what} is {given:?}: at most {most:?} is allowed")]
    TooLong {
        /// Which setting.
        what: &'static str,
        /// What was given.
        given: Duration,
        /// What would do.
        most: Duration,
    },
    /// Batches that could never become full.
    #[error(
        "batches of kind `{kind}` have up to {up_to} jobs, and its queue `{queue}` can have {slots} slots: each job of a batch has a slot, so raise `concurrency` or the slots of the queue, or make batches smaller"
    )]
    BatchAboveSlots {
        /// The kind.
        kind: String,
        /// Jobs of a batch.
        up_to: usize,
        /// The queue of the kind.
        queue: String,
        /// Slots that jobs of the queue can have at a time.
        slots: usize,
    },
    /// Reservations above the number of slots.
    #[error("{reserved} slots are reserved of {concurrency} in all: raise `concurrency` or reserve less")]
    OverReserved {
        /// Slots reserved.
        reserved: usize,
        /// Slots in all.
        concurrency: usize,
    },
    /// A queue that could never start a job.
    #[error("queue `{queue}` has no slot: every slot is reserved for other queues, so raise `concurrency`")]
    NoSlot {
        /// The queue.
        queue: String,
    },
    /// A queue that may use fewer slots than it has reserved.
    #[error(
        "queue `{queue}` reserves {reserved} slots and may use {slots}: reserve at most as many as it may use"
    )]
    ReservedAboveLimit {
        /// The queue.
        queue: String,
        /// Slots reserved for it.
        reserved: usize,
        /// Slots it may use.
        slots: usize,
    },
    /// A weight that is too small or too large.
    #[error("queue `{queue}` has the weight {given}: give it one from 1 to {most}")]
    Weight {
        /// The queue.
        queue: String,
        /// What was given.
        given: u32,
        /// The largest that there is.
        most: u32,
    },
    /// No runtime to run on.
    #[error("no tokio runtime here: start the worker from inside one")]
    NoRuntime,
}
