//! What travels between a store over HTTP and its server: `POST /api/v1/store/{verb}` with a JSON object, answered with JSON
//! or with a problem. The types of the contract are the types of the wire; [`verbs`] lists the calls, with what each needs.

mod each;
mod error;
mod rings;
pub mod verbs;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;
use windlass_core::store::StoreResult;
use windlass_core::{JobId, JobRecord, Name, Store};

pub use each::{Each, Item};
pub use error::{ErrorParts, WireError};
pub use rings::{Hear, Notice, Pass, QUIET};

/// Under which path a server has its verbs.
pub const PATH: &str = "/api/v1/store/";
/// The verb that is answered with a stream, as [`Hear`] says.
pub const LISTEN: &str = "listen";
/// The verb by which a client offers work to others, as [`Pass`] says.
pub const PASS: &str = "pass";

/// The version of this wire. It changes only where an older side would take something for what it is not.
pub const VERSION: u32 = 1;

/// The largest body of a request. A payload, an enqueue of the library and what it gathers in one call fit.
pub const BODY_MAX: usize = 96 << 20;
/// About how many bytes an answer of many jobs has at most: a page ends early, other answers are refused.
pub const ANSWER_BYTES: usize = 16 << 20;
/// The most jobs that one call may name.
pub const NAMED_MAX: usize = 10_000;

/// One call of the contract.
pub trait Verb: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// As it stands in the path.
    const NAME: &'static str;
    /// What it does.
    const SORT: Sort;
    /// What comes back.
    type Answer: Answer;

    /// What it touches.
    fn reach(&self) -> Touch<'_>;

    /// Asks the store.
    fn run(self, store: &dyn Store) -> impl Future<Output = StoreResult<Self::Answer>> + Send;
}

/// What kind of call it is: who may make it, and what a lost answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// It only looks.
    Read,
    /// It is made by programs all the time: enqueueing and working.
    Work,
    /// It keeps a lease alive, or ends it.
    Lease,
    /// A person asks for it.
    Change,
    /// It removes what a person has defined.
    Remove,
}

/// What a call touches.
#[derive(Debug)]
pub enum Touch<'v> {
    /// These queues.
    Queues(Vec<&'v Name>),
    /// What a queue keeps, whose content may be masked.
    Content(&'v Name),
    /// These jobs, wherever they are.
    Jobs(Vec<JobId>),
    /// Nothing that would not be left out of its answer where a caller may not see it.
    Answer,
    /// The store as a whole.
    Store,
    /// Housekeeping, or a secret that only its owner knows: any queue, and it tells nothing of one.
    Any,
}

/// What comes back from a call.
pub trait Answer: Serialize + DeserializeOwned + Send + 'static {
    /// Leaves out what is of queues that the caller may not see.
    fn keep(&mut self, may_see: &dyn Fn(&Name) -> bool) {
        let _ = may_see;
    }

    /// The jobs in it, whose content may be masked.
    fn jobs(&mut self) -> Vec<&mut JobRecord> {
        Vec::new()
    }
}
