//! Doing something once per key: the first attempt that gets there does it, all others get its result.
//!
//! A record says who does it, and then what came of it. The one who does it is a job and the fence of its attempt. When that
//! attempt no longer has its job, the record is free to be taken over: no time has to pass, and none is waited for in vain.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, Record, RecordKey, RecordWrite, VALUE_MAX, Version};
use windlass_core::{Bytes, JobId, State, StoreError};
use windlass_tx::Tx;

use super::Ctx;
use super::follow::CHECKPOINT_TTL;
use crate::client::{Records, decoded};
use crate::error::{Error, Result};
use crate::job_error::JobError;

/// The pauses between two looks at a key that another attempt has.
const LOOK_MIN: Duration = Duration::from_millis(10);
const LOOK_MAX: Duration = Duration::from_millis(500);

/// What is stored under a key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
enum Stored {
    /// An attempt does it.
    Running {
        job: JobId,
        fence: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<JobId>,
    },
    /// It was done, and what came of it could not be kept.
    Lost {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<JobId>,
    },
    /// It was done, and this came of it.
    Done {
        result: serde_json::Value,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<JobId>,
    },
}

/// Something to be done once: say more about it, then await it.
#[must_use = "nothing is done before this is awaited"]
pub struct Once<F> {
    ctx: Ctx,
    key: Result<RecordKey>,
    ttl: Duration,
    body: Result<Option<JobId>>,
    waits: bool,
    run: F,
}

/// What a look at the key came to.
enum Look<T> {
    Done(T),
    /// This attempt does it now; the version of its record.
    Ours(Version),
    /// Another attempt does it.
    Theirs(Option<JobId>),
}

impl Ctx {
    /// Does something once per key: runs the function if no attempt of any job of the queue has done it, and stores its
    /// result for as long as `ttl`; otherwise answers the stored result. While another attempt does it, this one waits.
    ///
    /// If the function fails, the key is free again. If its attempt is lost, the next one that comes does it anew: so what has
    /// an effect elsewhere may still be done twice, if the worker ends between the effect and the record of it. Pass the
    /// other system a key of its own to tell by ([`idempotency_key`](Ctx::idempotency_key)), or let the effect be in the same
    /// database ([`once_within`](Ctx::once_within)).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_worker::{Ctx, Job, JobError};
    /// # #[derive(Serialize, Deserialize)] struct Charge { order: u64, cents: u64 }
    /// # impl Job for Charge { const KIND: &'static str = "charge"; type Output = String; }
    /// # async fn charge_card(_: u64) -> Result<String, JobError> { Ok("ch_1".into()) }
    /// async fn charge(job: Charge, ctx: Ctx) -> Result<String, JobError> {
    ///     let (key, cents) = (format!("charge/{}", job.order), job.cents);
    ///     ctx.once(key, Duration::from_secs(86_400), move || charge_card(cents)).body(&job).await
    /// }
    /// ```
    pub fn once<T, F, Fut>(&self, key: impl AsRef<str>, ttl: Duration, run: F) -> Once<F>
    where
        F: FnOnce() -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, JobError>> + Send + 'static,
        T: Serialize + DeserializeOwned + Send + 'static,
    {
        Once { ctx: self.clone(), key: once_key(key.as_ref()), ttl, body: Ok(None), waits: true, run }
    }

    /// Does something in a transaction of the handler's own, once per key: with its commit the effect and the record of it are
    /// there, without it neither. If the key was done before, answers the stored result, and the function is not run. Where two
    /// transactions do it at the same time, the second fails with [a conflict](Error::is_conflict): roll it back, and let the
    /// job be tried again. It is the transaction that decides, not the fence: complete the job in the same one
    /// ([`complete_within`](Ctx::complete_within)), and an attempt that has lost its job cannot commit. On SQLite begin with
    /// `BEGIN IMMEDIATE`.
    ///
    /// # Errors
    /// The function's, the store's, and the conflict.
    pub async fn once_within<X: Tx, T, F>(
        &self,
        tx: &mut X,
        key: impl AsRef<str>,
        ttl: Duration,
        run: F,
    ) -> Result<T, JobError>
    where
        F: AsyncFnOnce(&mut X) -> Result<T, JobError>,
        T: Serialize + DeserializeOwned,
    {
        let key = once_key(key.as_ref())?;
        let (store, queue) = (self.client().store(), self.queue());
        let found = windlass_tx::read_records(&**store, tx, queue, std::slice::from_ref(&key)).await;
        let found = found.map_err(Error::from)?.pop().flatten();
        let expect = match found.map(decoded::<Stored>).transpose()? {
            None => Expect::Absent,
            Some(stored) => match stored.value {
                Stored::Done { result, .. } => return Ok(result_of(&key, result)?),
                Stored::Lost { .. } => return Err(lost(&key)),
                Stored::Running { job, fence, .. } if is_running(self, job, fence).await? => {
                    let text = format!("job {job} is doing {:?} at present", key.as_str());
                    return Err(JobError::new(text));
                }
                Stored::Running { .. } => Expect::Version(stored.version),
            },
        };
        let answer = run(tx).await?;
        let result = serde_json::to_value(&answer).map_err(encoding)?;
        let write = write(key, &Stored::Done { result, body: None })?.expect(expect).ttl(ttl);
        let what = FollowUps { jobs: Vec::new(), records: vec![write] };
        windlass_tx::write_records(&**store, tx, queue, &what).await.map_err(Error::from)?;
        Ok(answer)
    }

    /// A key for other systems that tell repeats by one: the same in all attempts of this job, and of no other job.
    pub fn idempotency_key(&self) -> String {
        format!("windlass-{}", self.id())
    }
}

fn lost(key: &RecordKey) -> JobError {
    JobError::fail(format!(
        "{:?} was done, but its result does not encode as JSON or is larger than {VALUE_MAX} bytes, and was not kept",
        key.as_str()
    ))
}

/// Whether this attempt still has its job.
async fn is_running(ctx: &Ctx, job: JobId, fence: u64) -> Result<bool> {
    let found = ctx.client().job(job).await?;
    Ok(found.is_some_and(|found| found.state == State::Running && found.fence == fence))
}

fn once_key(key: &str) -> Result<RecordKey> {
    Ok(RecordKey::new(format!("once/{key}"))?)
}

fn encoding(error: serde_json::Error) -> Error {
    Error::Encode { kind: "once", error }
}

fn result_of<T: DeserializeOwned>(key: &RecordKey, result: serde_json::Value) -> Result<T> {
    serde_json::from_value(result).map_err(|error| Error::Record { key: key.clone(), error })
}

fn write(key: RecordKey, stored: &Stored) -> Result<RecordWrite> {
    let value = serde_json::to_vec(stored).map_err(encoding)?;
    Ok(RecordWrite::put(key, Bytes::from(value)))
}

impl<F> Once<F> {
    /// What the key stands for: the same key with another body is refused, since it would get the result of something else.
    pub fn body(mut self, body: &impl Serialize) -> Self {
        let text = serde_json::to_string(body).map_err(encoding);
        self.body = text.map(|text| Some(JobId::from_key("windlass.once", &text)));
        self
    }

    /// While another attempt does it, fails instead of waiting: the job is tried again by its policy.
    pub fn refuse_while_running(mut self) -> Self {
        self.waits = false;
        self
    }
}

impl<T, F, Fut> IntoFuture for Once<F>
where
    F: FnOnce() -> Fut + Send + 'static,
    Fut: Future<Output = Result<T, JobError>> + Send + 'static,
    T: Serialize + DeserializeOwned + Send + 'static,
{
    type Output = Result<T, JobError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<T, JobError>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let Self { ctx, key, ttl, body, waits, run } = self;
            let key = key?;
            // Of several in one attempt one runs at a time, and one that was dropped leaves nothing behind.
            let _turn = ctx.inner().follow.turn(&key).lock_owned().await;
            let claim = Claim { records: ctx.records(), ctx, key, body: body? };
            let mut pause = LOOK_MIN;
            let version = loop {
                match claim.look().await? {
                    Look::Done(result) => return Ok(result_of(&claim.key, result)?),
                    Look::Ours(version) => break version,
                    Look::Theirs(job) if !waits => {
                        let which = job.map_or("another job".to_owned(), |job| format!("job {job}"));
                        let text = format!("{which} is doing {:?} at present", claim.key.as_str());
                        return Err(JobError::new(text));
                    }
                    Look::Theirs(_) => claim.pause(&mut pause).await?,
                }
            };
            match run().await {
                Ok(answer) => {
                    claim.done(version, serde_json::to_value(&answer), ttl).await?;
                    Ok(answer)
                }
                Err(error) => {
                    claim.free(version).await;
                    Err(error)
                }
            }
        })
    }
}

/// A key that one attempt wants.
struct Claim {
    ctx: Ctx,
    records: Records,
    key: RecordKey,
    body: Option<JobId>,
}

impl Claim {
    async fn look(&self) -> Result<Look<serde_json::Value>, JobError> {
        let Some(record) = self.records.get_raw(&self.key).await? else {
            return Ok(self.take(Expect::Absent).await?.map_or(Look::Theirs(None), Look::Ours));
        };
        let version = record.version;
        let (job, fence) = match self.stored(record)? {
            Stored::Done { result, body } => {
                self.check_body(body)?;
                return Ok(Look::Done(result));
            }
            Stored::Lost { body } => {
                self.check_body(body)?;
                return Err(lost(&self.key));
            }
            Stored::Running { job, fence, body } => {
                self.check_body(body)?;
                (job, fence)
            }
        };
        if self.is_alive(job, fence).await? {
            return Ok(Look::Theirs(Some(job)));
        }
        Ok(self.take(Expect::Version(version)).await?.map_or(Look::Theirs(None), Look::Ours))
    }

    fn stored(&self, record: Record) -> Result<Stored> {
        Ok(decoded::<Stored>(record)?.value)
    }

    fn check_body(&self, stored: Option<JobId>) -> Result<(), JobError> {
        match (stored, self.body) {
            (Some(stored), Some(own)) if stored != own => Err(JobError::fail(format!(
                "{:?} stands for something else already: the same key came with another body",
                self.key.as_str()
            ))),
            _ => Ok(()),
        }
    }

    /// Whether the attempt that does it still has its job. This attempt does not do it: it has its turn now.
    async fn is_alive(&self, job: JobId, fence: u64) -> Result<bool> {
        if (job, fence) == (self.ctx.id(), self.ctx.fence().number) {
            return Ok(false);
        }
        is_running(&self.ctx, job, fence).await
    }

    /// Takes the key; nothing if another attempt was faster.
    async fn take(&self, expect: Expect) -> Result<Option<Version>> {
        let running = Stored::Running { job: self.ctx.id(), fence: self.ctx.fence().number, body: self.body };
        let write = write(self.key.clone(), &running)?.expect(expect).ttl(CHECKPOINT_TTL);
        let version = write.version();
        match self.write(write).await {
            Ok(()) => Ok(version),
            Err(error) if error.is_conflict() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Records that it was done. A result that cannot be kept fails the job for good, and all that come later: the body has
    /// run, and must not run again.
    async fn done(
        &self,
        version: Version,
        result: serde_json::Result<serde_json::Value>,
        ttl: Duration,
    ) -> Result<(), JobError> {
        let (body, put) = (self.body, |stored: &Stored| write(self.key.clone(), stored));
        let whole = result.map_err(encoding).and_then(|result| put(&Stored::Done { result, body }));
        let fits = |write: &RecordWrite| write.weight() <= VALUE_MAX;
        let (write, is_kept) = match whole {
            Ok(write) if fits(&write) => (write, true),
            _ => (put(&Stored::Lost { body })?, false),
        };
        self.write(write.expect(Expect::Version(version)).ttl(ttl)).await?;
        if is_kept { Ok(()) } else { Err(lost(&self.key)) }
    }

    /// Writes while the attempt has its job.
    async fn write(&self, write: RecordWrite) -> Result<()> {
        self.ctx.write_now(FollowUps { jobs: Vec::new(), records: vec![write] }).await
    }

    /// Lets others do it. If this is not written, they find that the attempt has ended.
    async fn free(&self, version: Version) {
        if let Err(error) = self.records.remove_version(&self.key, version).await
            && !error.is_conflict()
        {
            tracing::info!(%error, key = %self.key, "a key that failed could not be freed; the next attempt takes it over");
        }
    }

    async fn pause(&self, pause: &mut Duration) -> Result<()> {
        let jittered = pause.mul_f64(0.5 + fastrand::f64());
        tokio::select! {
            () = tokio::time::sleep(jittered) => {}
            () = self.ctx.cancelled() => return Err(stopped()),
        }
        *pause = (*pause * 2).min(LOOK_MAX);
        Ok(())
    }
}

fn stopped() -> Error {
    let what = "the attempt was told to stop while it waited for a key".to_owned();
    StoreError::Unavailable { what, source: None }.into()
}
