//! Many jobs of one handler, spread over a window: one for each user, say, of a schedule that comes once a day.

use windlass_core::batch::WEIGHT_MAX;
use windlass_core::clock::Timestamp;
use windlass_core::follow_ups::FollowUps;
use windlass_core::options::Due;
use windlass_core::record::{RecordKey, RecordWrite};
use windlass_core::schedule::{Spread, nominal_of};
use windlass_core::{Bytes, JobId, NewJob};

use super::Ctx;
use super::follow::CHECKPOINT_TTL;
use crate::error::Result;
use crate::job::{IntoJob, With};

/// Jobs of one write.
const CHUNK_MAX: usize = 500;

impl Ctx {
    /// Enqueues these jobs at once, spread over a window that begins at the job's [nominal time](Ctx::nominal_time), or else
    /// when it was enqueued: by their keys, so that each keeps its time from day to day, or evenly. Answers how many there are.
    ///
    /// They are written in steps, and each step says how far it came. So an attempt that takes over goes on where the one before
    /// ended, and no job comes twice, provided that it yields the same list in the same order. The name tells several lists of one
    /// job apart.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_core::schedule::Spread;
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Digests;
    /// # #[derive(Serialize, Deserialize)] struct Digest { user: u64 }
    /// # impl Job for Digests { const KIND: &'static str = "digests"; type Output = (); }
    /// # impl Job for Digest { const KIND: &'static str = "digest"; type Output = (); }
    /// # async fn users() -> Vec<u64> { vec![] }
    /// async fn digests(_job: Digests, ctx: Ctx) -> Result<(), JobError> {
    ///     let day = Spread::by_key(Duration::from_secs(86_400));
    ///     let jobs = users().await.into_iter().map(|user| Digest { user });
    ///     ctx.fan_out("digests", day, jobs).await?;
    ///     Ok(())
    /// }
    /// ```
    ///
    /// # Errors
    /// [`Error::Fenced`](crate::Error::Fenced) when the job has gone to another attempt; else the store's, and when a job cannot
    /// be accepted. What was enqueued until then stays.
    pub async fn fan_out<I: IntoJob>(
        &self,
        name: &str,
        spread: Spread,
        jobs: impl IntoIterator<Item = I>,
    ) -> Result<usize> {
        let jobs: Vec<With<I::Job>> = jobs.into_iter().map(IntoJob::into_job).collect();
        let count = jobs.len();
        let progress = format!("windlass.fan_out/{name}");
        let done: usize = self.recall(&progress).await?.unwrap_or(0);
        let key = RecordKey::new(format!("job/{}/{progress}", self.id()))?;
        let (mut step, mut weight) = (Vec::new(), 0);
        for (index, With { job, id, options }) in jobs.into_iter().enumerate().skip(done) {
            let mut job = self.client().new_following_job(job, id, options).await?;
            job.id = id.unwrap_or_else(|| self.part_id(name, index));
            self.place(&mut job, spread, index, count);
            weight += job.weight();
            step.push(job);
            if step.len() == CHUNK_MAX || weight >= WEIGHT_MAX / 2 {
                self.write_step(&key, std::mem::take(&mut step), index + 1).await?;
                weight = 0;
            }
        }
        if !step.is_empty() {
            self.write_step(&key, step, count).await?;
        }
        // Known from now on, so that it goes when the job completes.
        self.recall::<usize>(&progress).await?;
        Ok(count)
    }

    /// The id of a job of a list: the same one in every attempt.
    fn part_id(&self, name: &str, index: usize) -> JobId {
        JobId::from_key("windlass.fan_out", &format!("{} {index} {name}", self.id()))
    }

    /// Gives a job its time in the window.
    fn place(&self, job: &mut NewJob, spread: Spread, index: usize, count: usize) {
        let own = &self.inner().job;
        let begin: Timestamp = nominal_of(&own.facts.spec).unwrap_or(own.enqueued_at);
        let delay = spread.delay_of(job, index, count);
        if job.due == Due::Now {
            job.due = Due::At(begin.plus(delay));
        }
    }

    async fn write_step(&self, key: &RecordKey, jobs: Vec<NewJob>, done: usize) -> Result<()> {
        let value = serde_json::to_vec(&done).map(Bytes::from).expect("a number is JSON");
        let write = RecordWrite::put(key.clone(), value).ttl(CHECKPOINT_TTL);
        self.client().permit_keys(&jobs).await?;
        self.write_now(FollowUps { jobs, records: vec![write] }).await
    }
}
