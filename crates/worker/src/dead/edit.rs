//! Running an ended job again as a new one, perhaps with another payload.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, RecordKey, RecordWrite, VALUE_MAX};
use windlass_core::store::Enqueued;
use windlass_core::{Bytes, JobId, JobRecord, StoreError};

use crate::client::{Client, Records};
use crate::error::{Error, Result};

/// What is kept of a payload that was edited, for a year, under `edit/` and the id of the dead job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Edited {
    /// The job that says the new payload.
    pub new: JobId,
    /// Who asked for it.
    pub by: String,
    /// Why.
    pub why: String,
    /// The payload before, where it is text and not too long.
    pub before: Option<String>,
}

/// How long an edit is remembered.
const REMEMBERED: Duration = Duration::from_secs(365 * 24 * 3600);
/// Longer payloads are not kept in the record; the dead job itself has them.
const BEFORE_MAX: usize = VALUE_MAX / 4;

impl Client {
    /// Enqueues a new job that says what an ended one said, with all attempts and a link to it in its meta
    /// (`windlass.again_of`). Answers its id, or that of the job which holds its unique key; nothing where there is no such job, or it has not ended.
    ///
    /// # Errors
    /// The store's.
    pub async fn run_again(&self, id: JobId) -> Result<Option<JobId>> {
        let Some(record) = self.job(id).await?.filter(|record| record.state.is_terminal()) else {
            return Ok(None);
        };
        let job = record.again(JobId::new());
        let new = job.id;
        Ok(Some(match self.enqueue_new(job).await? {
            Enqueued::Duplicate { id, .. } | Enqueued::Replaced(id) => id,
            Enqueued::New | Enqueued::Existing(_) | Enqueued::Repeated => new,
        }))
    }

    /// Enqueues a new job that is as an ended one but for its payload, and records the change beside it: both or neither.
    /// The ended job stays, with its attempts. Answers the id of the new one; nothing where there is no such job, or it has not
    /// ended.
    ///
    /// # Errors
    /// The store's, and [a conflict](Error::is_conflict) if the payload of this job was edited before.
    pub async fn edit_again(
        &self,
        id: JobId,
        payload: impl Into<Bytes>,
        by: &str,
        why: &str,
    ) -> Result<Option<JobId>> {
        let Some(record) = self.job(id).await?.filter(|record| record.state.is_terminal()) else {
            return Ok(None);
        };
        let (new, payload) = (JobId::new(), payload.into());
        // Its unique key was made of the payload before, or stands for it: the person who edits decides.
        let mut job = record.again(new);
        (job.unique, job.payload) = (None, payload);
        let (by, why) = (by.to_owned(), why.to_owned());
        let edited = Edited { new, by, why, before: text(&record.payload) };
        let value = serde_json::to_vec(&edited).map_err(|error| Error::Encode { kind: "edit", error })?;
        let write = RecordWrite::put(edit_key(id)?, value).expect(Expect::Absent).ttl(REMEMBERED);
        let what = FollowUps { jobs: vec![job], records: vec![write] };
        what.check_in(&record.queue).map_err(StoreError::from)?;
        Records::of(self.clone(), record.queue.clone()).write(what).await?;
        Ok(Some(new))
    }

    /// What is known of an edit of this job's payload.
    ///
    /// # Errors
    /// The store's.
    pub async fn edit_of(&self, job: &JobRecord) -> Result<Option<Edited>> {
        let records = Records::of(self.clone(), job.queue.clone());
        Ok(records.get(edit_key(job.id)?).await?.map(|found| found.value))
    }
}

fn edit_key(id: JobId) -> Result<RecordKey> {
    Ok(RecordKey::new(format!("edit/{id}"))?)
}

fn text(payload: &[u8]) -> Option<String> {
    std::str::from_utf8(payload).ok().filter(|text| text.len() <= BEFORE_MAX).map(str::to_owned)
}
