//! Why a job is where it is: what keeps it from starting, which worker has it, what it died of, and what to do about it.
//!
//! [`look`] reads through the store's traits, in a bounded number of calls; [`decide`] turns what was read into causes and
//! asks nothing; [`sentence`] and [`remedy`] say them. So the answer is the same on every store, and the decision is tested without one.

mod blocked;
mod decide;
mod flow_look;
mod line;
mod look;
mod remedy;
mod sentence;
#[cfg(test)]
mod tests;
mod why;

use windlass_core::clock::Timestamp;
use windlass_core::{JobId, JobRecord};

use super::Client;
use crate::error::Result;

pub use blocked::{AwaitedJob, BlockedBy, FlowSeen};
pub use why::{Paused, Why, WorkerSeen};

/// Why a job is where it is. [`Client::explain`] makes it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The job as it was found, with its attempts.
    pub job: JobRecord,
    /// The store's instant when the look began. Causes tell of instants by the same clock.
    pub now: Timestamp,
    /// Why it is where it is; what weighs most first. Never empty.
    pub causes: Vec<Cause>,
}

/// One cause, for programs and for people.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Cause {
    /// What it is.
    pub why: Why,
    /// The same as a sentence. It may quote stored text as it is: errors, labels, progress.
    pub sentence: String,
    /// What can be done about it, where something can.
    pub remedy: Option<String>,
}

impl Client {
    /// Why a job does not run, or which worker has it, or how it ended, each with what to do about it. Nothing for an id
    /// that the store does not have.
    ///
    /// Reads only, at most some 40 bounded calls. What it says of other jobs (how many are ahead, which of a key run) comes
    /// from a look at the newest 1,000 at most, and says so where there are more.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::sync::Arc;
    /// # use windlass_core::JobId;
    /// # use windlass_worker::Client;
    /// # let client = Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// # let id = JobId::new();
    /// if let Some(explanation) = client.explain(id).await? {
    ///     for cause in explanation.causes {
    ///         println!("{}", cause.sentence);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn explain(&self, id: JobId) -> Result<Option<Explanation>> {
        let Some(seen) = look::at(self, id).await? else { return Ok(None) };
        let causes = decide::explain(&seen);
        Ok(Some(Explanation { job: seen.job, now: seen.now, causes }))
    }
}
