//! Words and rules of Windlass.
//!
//! Everything here is plain computation: no I/O, no runtime, no clock of its own. Stores implement the
//! traits in [`store`]; the engine in `windlass-worker` asks [`judge()`] what becomes of an attempt and tells
//! the store to apply it. A rule that two stores would otherwise both contain belongs in this crate.
//!
//! | module | what it fixes |
//! |---|---|
//! | [`name`], [`id`], [`size`] | what may be written at all |
//! | [`job`], [`state`], [`outcome`] | what a job is and how an attempt can end |
//! | [`retry`], [`mod@judge`] | what happens next |
//! | [`queue`], [`unique`] | what a queue keeps and permits |
//! | [`record`], [`follow_ups`] | what is remembered, and what is written together |
//! | [`tally`] | what is counted by the minute |
//! | [`schedule`] | when jobs come with the clock |
//! | [`fingerprint`] | which errors are the same |
//! | [`forms`] | how durations, rates and policies are written by people |
//! | [`batch`], [`backoff`], [`bell`], [`clock`], [`sql`] | primitives shared by engine and stores |
//! | [`store`], [`stored`], [`error`] | the contract between them, and how values are written |

pub mod backoff;
pub mod batch;
pub mod bell;
pub mod clock;
pub mod error;
pub mod fingerprint;
pub mod flow;
pub mod follow_ups;
pub mod forms;
pub mod id;
pub mod job;
pub mod judge;
pub mod name;
pub mod options;
pub mod outcome;
pub mod queue;
pub mod record;
pub mod retry;
pub mod schedule;
pub mod size;
pub mod sql;
pub mod state;
pub mod store;
pub mod stored;
pub mod tally;
pub mod unique;

pub use bytes::Bytes;
pub use clock::{Clock, Timestamp};
pub use error::{StoreError, StoreErrorKind};
pub use id::{CallId, Fence, HolderId, JobId, LeaseId};
pub use job::{ClaimedJob, JobRecord, NewJob};
pub use judge::{Transition, judge};
pub use name::{Name, NameError};
pub use options::Options;
pub use outcome::Outcome;
pub use state::State;
pub use store::Store;
