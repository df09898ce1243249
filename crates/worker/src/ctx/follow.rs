//! What an attempt leaves behind: jobs and records that are written with its end, and what it remembers while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Mutex as AsyncMutex;
use windlass_core::follow_ups::{FollowUps, RECORD_BYTES_MAX, RECORDS_MAX};
use windlass_core::record::{KEY_MAX, RecordKey, RecordWrite};
use windlass_core::store::AttemptWrite;
use windlass_core::{Bytes, JobId, StoreError};

use super::Ctx;
use super::within::Completion;
use crate::client::{Records, decoded};
use crate::error::{Error, Result};
use crate::job::{IntoJob, With};
use crate::trace;

/// How long a checkpoint of a job that does not complete is kept after it was last written.
pub const CHECKPOINT_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// What one attempt has said that it leaves behind.
#[derive(Debug, Default)]
pub(crate) struct FollowState(Mutex<Left>);

#[derive(Debug, Default)]
struct Left {
    then: FollowUps,
    /// It is written also if the job asks to come back later.
    is_for_snooze: bool,
    /// The attempt has ended, and what it leaves was read.
    is_sealed: bool,
    /// What is done once in this attempt, by key.
    turns: BTreeMap<RecordKey, Arc<AsyncMutex<()>>>,
    /// Checkpoints of the job that this attempt knows of: they go when it completes.
    checkpoints: BTreeSet<RecordKey>,
}

impl FollowState {
    fn left(&self) -> MutexGuard<'_, Left> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of a key: one body of it runs at a time in this attempt.
    pub(crate) fn turn(&self, key: &RecordKey) -> Arc<AsyncMutex<()>> {
        Arc::clone(self.left().turns.entry(key.clone()).or_default())
    }

    /// What an attempt of the engine's own leaves, whether its job is done or comes back later.
    pub(crate) fn leave(&self, then: FollowUps) {
        let mut left = self.left();
        (left.then, left.is_for_snooze) = (then, true);
    }

    /// Records of the job's queue that are no longer needed when the job completes.
    pub(crate) fn forget(&self, keys: Vec<RecordKey>) {
        self.left().checkpoints.extend(keys);
    }

    /// What is written where the job asks to come back later.
    pub(crate) fn of_snooze(&self) -> Option<FollowUps> {
        let mut left = self.left();
        left.is_sealed = true;
        left.is_for_snooze.then(|| left.then.clone())
    }

    /// What is written with the completion; nothing for nearly every attempt. Nothing can be added from now on.
    pub(crate) fn of_completion(&self) -> Option<FollowUps> {
        let mut left = self.left();
        left.is_sealed = true;
        if left.then.is_empty() && left.checkpoints.is_empty() {
            return None;
        }
        let mut then = left.then.clone();
        let is_written = |key: &&RecordKey| !then.records.iter().any(|write| write.key == **key);
        let known: Vec<_> = left.checkpoints.iter().filter(is_written).cloned().collect();
        // Those that do not fit beside what follows go by their time.
        let room = RECORDS_MAX - then.records.len();
        let bytes: usize = then.records.iter().map(RecordWrite::weight).sum();
        let room = room.min((RECORD_BYTES_MAX - bytes) / KEY_MAX);
        then.records.extend(known.into_iter().take(room).map(RecordWrite::remove));
        Some(then)
    }
}

impl Ctx {
    /// Enqueues a job when this one completes, in the same write: both or neither. Answers its id. If the attempt fails, is
    /// lost or gives its job back, nothing is enqueued, and the next attempt says anew what is to follow. A job may be given
    /// [with](crate::Job::with) options of its own, and for any queue.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Resize { image: u64 }
    /// # #[derive(Serialize, Deserialize)] struct Publish { image: u64 }
    /// # impl Job for Resize { const KIND: &'static str = "resize"; type Output = (); }
    /// # impl Job for Publish { const KIND: &'static str = "publish"; type Output = (); }
    /// async fn resize(job: Resize, ctx: Ctx) -> Result<(), JobError> {
    ///     // … the work …
    ///     ctx.then(Publish { image: job.image }).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// When the job cannot be accepted, when there are more than 1,000, after
    /// [`complete_within`](Ctx::complete_within) was called, and [`Error::Fenced`] when the attempt has ended.
    pub async fn then<I: IntoJob>(&self, job: I) -> Result<JobId> {
        let With { job, id, options } = job.into_job();
        let mut job = self.client().new_following_job(job, id, options).await?;
        trace::inherit(self.trace(), [&mut job]);
        let id = job.id;
        self.leave(|then| then.jobs.push(job))?;
        Ok(id)
    }

    /// Changes a record of the job's queue when the job completes, in the same write.
    ///
    /// # Errors
    /// As [`then`](Ctx::then).
    pub fn then_write(&self, write: RecordWrite) -> Result<()> {
        self.leave(|then| then.records.push(write))
    }

    fn leave(&self, add: impl FnOnce(&mut FollowUps)) -> Result<()> {
        if self.inner().within.get() != Completion::Engine {
            let why = "a transaction completes this job already: say what follows before `complete_within`";
            return Err(StoreError::Transaction(why.into()).into());
        }
        let left = &mut *self.inner().follow.left();
        if left.is_sealed {
            return Err(Error::Fenced);
        }
        let then = &mut left.then;
        let (jobs, records) = (then.jobs.len(), then.records.len());
        add(then);
        then.check().map_err(|invalid| {
            then.jobs.truncate(jobs);
            then.records.truncate(records);
            StoreError::from(invalid).into()
        })
    }

    /// What the queue of the job remembers, for any attempt and any program to read and write. Not fenced: see
    /// [`checkpoint`](Ctx::checkpoint).
    pub fn records(&self) -> Records {
        Records::of(self.client().clone(), self.queue().clone())
    }

    /// Remembers a value for the next attempts of this job, under a name of the handler's own. Written at once, and only if
    /// the attempt still has its job. What the attempt that completes has written or recalled, up to a hundred, goes in the same
    /// write; all else a month after it was last written.
    ///
    /// ```
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Import { rows: u64 }
    /// # impl Job for Import { const KIND: &'static str = "import"; type Output = (); }
    /// async fn import(job: Import, ctx: Ctx) -> Result<(), JobError> {
    ///     let done: u64 = ctx.recall("done").await?.unwrap_or(0);
    ///     for row in done..job.rows {
    ///         // … the work …
    ///         if row % 1_000 == 0 {
    ///             ctx.checkpoint("done", &row).await?;
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Fenced`] when the job has gone to another attempt: stop working on it. Else the store's, and when the value
    /// does not encode or is larger than 256 KiB.
    pub async fn checkpoint(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let key = self.checkpoint_key(name)?;
        let value = serde_json::to_vec(value).map_err(|error| Error::Encode { kind: "checkpoint", error })?;
        let write = RecordWrite::put(key.clone(), Bytes::from(value)).ttl(CHECKPOINT_TTL);
        self.write_now(FollowUps { jobs: Vec::new(), records: vec![write] }).await?;
        self.inner().follow.left().checkpoints.insert(key);
        Ok(())
    }

    /// What an attempt of this job has remembered under this name.
    ///
    /// # Errors
    /// The store's, and when what is stored is not of this type.
    pub async fn recall<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let key = self.checkpoint_key(name)?;
        let Some(record) = self.records().get_raw(&key).await? else { return Ok(None) };
        self.inner().follow.left().checkpoints.insert(key);
        Ok(Some(decoded(record)?.value))
    }

    /// Writes jobs and records at once, if the attempt still has its job: all of them or none.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the job has gone to another attempt; else the store's, and
    /// [a conflict](Error::is_conflict) if a record is not as it is expected to be. If the store's answer was lost and jobs were
    /// to be written, they may have been: that is not repeated.
    pub async fn write_now(&self, mut what: FollowUps) -> Result<()> {
        trace::inherit(self.trace(), &mut what.jobs);
        let (queue, id, fence) = (self.queue().clone(), self.id(), self.fence());
        let item = AttemptWrite { queue, id, fence, transition: None, then: what };
        item.check()?;
        // A job that was accepted and is gone again would be accepted anew by a repeat: only records are repeated.
        match item.then.jobs.is_empty() {
            true => self.client().write_fenced(item).await,
            false => self.client().write_fenced_once(item).await,
        }
    }

    fn checkpoint_key(&self, name: &str) -> Result<RecordKey> {
        Ok(RecordKey::new(format!("job/{}/{name}", self.id()))?)
    }
}
