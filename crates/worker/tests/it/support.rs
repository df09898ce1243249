//! A job that does what it is told, a stage on which it waits to be released, and patient questions.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, Semaphore};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::{JobId, JobRecord, Options, Store};
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Ctx, Handle, Job, JobError, State, Worker};

/// Nothing in these tests takes longer unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What a probe does.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Act {
    Succeed,
    Error(String),
    RetryAfter(u64),
    Ambiguous,
    Fail,
    SnoozeOnce(u64),
    Discard,
    Panic,
    LongError(usize),
    Output(usize),
    /// Waits until it is released, also when it is told to stop.
    Wait,
    /// Waits until it is told to stop, and then returns an error.
    Heed,
    /// Waits until it is told to stop, and is then done.
    FinishWhenTold,
    Progress(u32),
    /// Takes so many milliseconds.
    Linger(u64),
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) act: Act,
}

impl Job for Probe {
    const KIND: &'static str = "probe";
    type Output = String;

    fn options() -> Options {
        Options::new().retry(Policy::fixed(3, Duration::ZERO).jitter(Jitter::None))
    }
}

pub(crate) fn probe(act: Act) -> Probe {
    Probe { act }
}

/// Where probes report, and wait.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    inner: Arc<Inner>,
}

struct Inner {
    starts: Mutex<HashMap<JobId, u32>>,
    started: AtomicU64,
    ended: AtomicU64,
    gate: Semaphore,
    changed: Notify,
}

impl Default for Inner {
    fn default() -> Self {
        Self {
            starts: Mutex::default(),
            started: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            gate: Semaphore::new(0),
            changed: Notify::new(),
        }
    }
}

impl Stage {
    pub(crate) fn enter(&self, ctx: &Ctx) -> Present {
        *self.inner.starts.lock().unwrap().entry(ctx.id()).or_default() += 1;
        self.inner.started.fetch_add(1, Ordering::SeqCst);
        self.inner.changed.notify_waiters();
        Present(self.clone())
    }

    pub(crate) fn started(&self) -> u64 {
        self.inner.started.load(Ordering::SeqCst)
    }

    pub(crate) fn ended(&self) -> u64 {
        self.inner.ended.load(Ordering::SeqCst)
    }

    pub(crate) fn present(&self) -> u64 {
        self.started() - self.ended()
    }

    /// How often each job was started.
    pub(crate) fn starts(&self) -> HashMap<JobId, u32> {
        self.inner.starts.lock().unwrap().clone()
    }

    pub(crate) fn release(&self, probes: usize) {
        self.inner.gate.add_permits(probes);
    }

    pub(crate) async fn wait(&self) {
        self.inner.gate.acquire().await.unwrap().forget();
    }

    /// Waits until so many have started in all.
    pub(crate) async fn until_started(&self, count: u64) {
        self.until(|stage| stage.started() >= count).await;
    }

    pub(crate) async fn until_ended(&self, count: u64) {
        self.until(|stage| stage.ended() >= count).await;
    }

    async fn until(&self, wanted: impl Fn(&Self) -> bool) {
        let waiting = async {
            loop {
                let changed = self.inner.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if wanted(self) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        assert!(waited.is_ok(), "started {}, ended {}", self.started(), self.ended());
    }
}

/// An attempt on the stage; leaves it also when it is dropped.
pub(crate) struct Present(Stage);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.inner.ended.fetch_add(1, Ordering::SeqCst);
        self.0.inner.changed.notify_waiters();
    }
}

pub(crate) async fn run(job: Probe, ctx: Ctx, State(stage): State<Stage>) -> Result<String, JobError> {
    let _present = stage.enter(&ctx);
    match job.act {
        Act::Succeed => {}
        Act::Error(text) => return Err(JobError::new(text)),
        Act::RetryAfter(millis) => return Err(JobError::retry_after(Duration::from_millis(millis), "busy")),
        Act::Ambiguous => return Err(JobError::ambiguous("perhaps")),
        Act::Fail => return Err(JobError::fail("never")),
        Act::SnoozeOnce(millis) if ctx.fence().number == 1 => {
            return Err(JobError::snooze(Duration::from_millis(millis)));
        }
        Act::SnoozeOnce(_) => {}
        Act::Discard => return Err(JobError::discard("no longer wanted")),
        Act::Panic => panic!("the probe panics"),
        Act::LongError(length) => return Err(JobError::fail("x".repeat(length))),
        Act::Output(length) => return Ok("y".repeat(length)),
        Act::Wait => stage.wait().await,
        Act::Heed => {
            ctx.cancelled().await;
            return Err(JobError::new("was told to stop"));
        }
        Act::FinishWhenTold => ctx.cancelled().await,
        Act::Linger(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        Act::Progress(percent) => {
            ctx.progress(&percent)?;
            ctx.flush().await?;
        }
    }
    Ok(format!("attempt {}", ctx.attempt()))
}

/// A store in memory, a client of it and a stage.
pub(crate) fn scene() -> (Client, Stage) {
    scene_on(Arc::new(MemoryStore::new()))
}

pub(crate) fn scene_on(store: Arc<dyn Store>) -> (Client, Stage) {
    (Client::new(store), Stage::default())
}

/// A worker that runs probes and does not linger.
pub(crate) fn worker(client: &Client, stage: &Stage) -> Worker<Stage> {
    Worker::with_state(client, stage.clone())
        .handle(run)
        .cancel_grace(Duration::from_millis(50))
        .lease_unchecked(Duration::from_secs(2))
        .reap_interval(Duration::from_millis(20))
}

/// The job's record once it has come to its end.
pub(crate) async fn end_of<J: Job>(handle: &Handle<J>) -> JobRecord {
    let finished = tokio::time::timeout(PATIENCE, handle.finished()).await;
    finished.expect("the job comes to its end").expect("the store has the job")
}

/// Waits until the store knows that the handler has begun.
pub(crate) async fn until_begun<J: Job>(client: &Client, handle: &Handle<J>) {
    eventually("the store knows that it has begun", async || {
        client.job(handle.id()).await.unwrap().is_some_and(|record| record.has_begun)
    })
    .await;
}

/// Asks until the answer is yes.
pub(crate) async fn eventually(what: &str, wanted: impl AsyncFn() -> bool) {
    let asking = async {
        while !wanted().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, asking).await.is_ok(), "never came true: {what}");
}
