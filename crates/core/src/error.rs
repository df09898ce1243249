//! What a store can answer instead of a result.

use std::error::Error as StdError;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::follow_ups::FollowUpsInvalid;
use crate::id::JobId;
use crate::name::Name;
use crate::queue::QueueInvalid;
use crate::record::{RecordKey, Version};
use crate::size::TooLarge;
use crate::tally::WindowInvalid;

/// An error of a store. Three answers matter to a caller, and [`StoreError::kind`] tells them apart: it was
/// refused, it did not happen, or it is not known whether it happened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A payload, output or progress above the queue's cap.
    #[error("job {id}: {error}")]
    TooLarge {
        /// The job.
        id: JobId,
        /// What is too large.
        error: TooLarge,
    },
    /// The id is taken by a job with another queue, kind or payload.
    #[error("job id {id} is taken by a different job: make a new id, or repeat the same job under it")]
    IdTaken {
        /// The id.
        id: JobId,
    },
    /// A queue definition that no store takes.
    #[error(transparent)]
    Queue(#[from] QueueInvalid),
    /// A queue that uses a rule which this program does not know.
    #[error("queue {queue} uses rule {rules}, this program knows up to {known}: upgrade the program")]
    UnknownRules {
        /// The queue.
        queue: Name,
        /// The newest rule that it uses.
        rules: u32,
        /// The newest rule known.
        known: u32,
    },
    /// A job with a key, for a queue that has none.
    #[error(
        "queue {queue} takes no jobs with a key: define it with rules for keys first, which may be empty"
    )]
    NoKeys {
        /// The queue.
        queue: Name,
    },
    /// A queue that has no room for what was handed in.
    #[error(
        "queue {queue} is full: {waiting} jobs wait, and it takes {capacity}; enqueue later, or fewer at once"
    )]
    QueueFull {
        /// The queue.
        queue: Name,
        /// How many may wait.
        capacity: u64,
        /// How many do.
        waiting: u64,
    },
    /// A record that is not as its writer expected it.
    #[error(
        "the record {key:?} has changed since it was read, or is there already: read it again, and decide anew"
    )]
    Conflict {
        /// Its key.
        key: RecordKey,
        /// The version that was found; nothing where there is no such record.
        found: Option<Version>,
    },
    /// More than is written together, or too large.
    #[error(transparent)]
    FollowUps(#[from] FollowUpsInvalid),
    /// More tallies than are read at once.
    #[error(transparent)]
    Window(#[from] WindowInvalid),
    /// A page cursor that this store did not hand out.
    #[error("{cursor:?} is not a page cursor: pass the one that the page before ended with")]
    Cursor {
        /// What was given.
        cursor: String,
    },
    /// The URL or its place cannot be used as given.
    #[error("{0}")]
    Address(String),
    /// A server between this program and the store refused the call, and says why. Nothing was changed.
    #[error("{0}")]
    Refused(String),
    /// A transaction that the store cannot write in.
    #[error("{0}")]
    Transaction(String),
    /// The schema in the store is newer than this program.
    #[error("the store has schema {found}, this program knows up to {known}: upgrade the program")]
    SchemaTooNew {
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// What is stored does not make sense.
    #[error("stored content makes no sense: {0}")]
    Corrupt(String),
    /// The store is away, full, locked or read-only. Nothing was changed; trying again later is right.
    #[error("store unavailable: {what}")]
    Unavailable {
        /// What happened.
        what: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// The answer was lost. The call may or may not have taken effect; repeating it is safe.
    #[error("outcome unknown: {what}")]
    Unknown {
        /// What happened.
        what: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
    /// A defect in this library or its use.
    #[error("internal error: {what}")]
    Internal {
        /// What happened.
        what: String,
        /// The driver's error.
        #[source]
        source: Option<Box<dyn StdError + Send + Sync>>,
    },
}

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The caller's to fix; nothing was stored.
    Refused,
    /// Nothing was changed; try again later.
    Unavailable,
    /// It may have happened; repeat it.
    Unknown,
    /// A person has to look at it.
    Fatal,
}

impl StoreError {
    /// What a caller can do about it.
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::TooLarge { .. }
            | Self::IdTaken { .. }
            | Self::Queue(_)
            | Self::UnknownRules { .. }
            | Self::NoKeys { .. }
            | Self::QueueFull { .. }
            | Self::Conflict { .. }
            | Self::FollowUps(_)
            | Self::Window(_)
            | Self::Cursor { .. }
            | Self::Refused(_)
            | Self::Transaction(_) => StoreErrorKind::Refused,
            Self::Unavailable { .. } => StoreErrorKind::Unavailable,
            Self::Unknown { .. } => StoreErrorKind::Unknown,
            Self::Address(_) | Self::SchemaTooNew { .. } | Self::Corrupt(_) | Self::Internal { .. } => {
                StoreErrorKind::Fatal
            }
        }
    }

    /// For a file, schema or namespace that was written before layouts were kept.
    pub fn unreleased_layout(what: &str) -> Self {
        Self::Address(format!(
            "the {what} was written by a program of before the first release: let that program finish its jobs, \
             then use a new {what}"
        ))
    }

    /// Whether the same call may succeed later.
    pub fn is_transient(&self) -> bool {
        matches!(self.kind(), StoreErrorKind::Unavailable | StoreErrorKind::Unknown)
    }
}
