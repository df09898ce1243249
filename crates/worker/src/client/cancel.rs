//! Who cancelled a job, and why.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::store::Amended;
use windlass_core::{JobId, JobRecord};

use super::{Client, Records};
use crate::error::Result;

/// How long it is remembered.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 3600);

/// Who asked for a job to be cancelled, and why. Kept for a month, under `cancel/` and the id of the job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancellation {
    /// Who: a person, a program.
    pub by: String,
    /// Why.
    pub why: String,
}

impl Client {
    /// Cancels as [`cancel`](Client::cancel) does, and remembers who asked for it and why. That is written first: a job that
    /// has ended meanwhile may have a cancellation that came to nothing.
    ///
    /// # Errors
    /// The store's.
    pub async fn cancel_because(&self, id: JobId, cancellation: &Cancellation) -> Result<Amended> {
        let Some(job) = self.job(id).await? else { return Ok(Amended::Missing) };
        if job.state.is_terminal() {
            return Ok(Amended::Refused(job.state));
        }
        Records::of(self.clone(), job.queue).put(key(id), cancellation).ttl(REMEMBERED).await?;
        self.cancel(id).await
    }

    /// Who asked for this job to be cancelled, and why, if that was said.
    ///
    /// # Errors
    /// The store's.
    pub async fn cancellation(&self, job: &JobRecord) -> Result<Option<Cancellation>> {
        let records = Records::of(self.clone(), job.queue.clone());
        Ok(records.get(key(job.id)).await?.map(|found| found.value))
    }
}

fn key(id: JobId) -> String {
    format!("cancel/{id}")
}
