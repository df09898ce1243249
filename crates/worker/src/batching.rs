//! Batch handlers: many jobs of one kind in one call.
//!
//! An item of a batch is an ordinary attempt in an ordinary slot. Its innermost step hands the payload to a
//! [`Collector`] and waits for its own answer; the collector starts one [call](call) of the user's function for many of
//! them. So claims, fences, layers, timeouts, cancels and settlements know nothing of batches.

mod answers;
mod batch;
mod call;
mod collector;
mod handler;
mod room;
mod step;

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::Name;

pub use self::answers::Answers;
pub use self::batch::{Batch, BatchItem};
pub use self::handler::{BatchHandler, FromWorker};
pub(crate) use self::room::{Room, usable_slots};
pub(crate) use self::step::{BatchStep, Collects};
use crate::ctx::Ctx;
use crate::error::ConfigError;
use crate::job::Job;

/// How long the first item of a batch waits for others if nothing is said.
const LINGER: Duration = Duration::from_millis(10);
/// The longest that it may.
const LINGER_MAX: Duration = Duration::from_secs(60);

type KeyOf<J, K> = Arc<dyn Fn(&J, &Ctx) -> K + Send + Sync>;

/// When jobs that wait become one batch; see [`Worker::batch`](crate::Worker::batch).
///
/// ```
/// use std::time::Duration;
/// use windlass_worker::Batching;
/// # use windlass_worker::Job;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Row { table: String }
/// # impl Job for Row { const KIND: &'static str = "row"; type Output = (); }
/// let by_table = Batching::up_to(50)                 // 50 rows,
///     .linger(Duration::from_millis(20))             // or what has come 20 ms after the first one,
///     .by_key(|row: &Row| row.table.clone());        // all of one table
/// ```
pub struct Batching<J, K = ()> {
    config: Config,
    key: KeyOf<J, K>,
    job: PhantomData<fn(J)>,
}

/// When a batch is complete.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) up_to: usize,
    pub(crate) linger: Duration,
}

impl Config {
    fn check(&self) -> Result<(), ConfigError> {
        if self.up_to == 0 {
            return Err(ConfigError::TooSmall { what: "size of a batch", given: 0, least: 1 });
        }
        if self.linger > LINGER_MAX {
            let given = self.linger;
            return Err(ConfigError::TooLong { what: "linger of a batch", given, most: LINGER_MAX });
        }
        Ok(())
    }
}

impl<J: Job> Batching<J> {
    /// Batches of at most this many jobs. Each of them has a slot while it waits and while it runs, so there have to be
    /// as many slots; two or three times as many let the next batch gather while one runs.
    pub fn up_to(jobs: usize) -> Self {
        let config = Config { up_to: jobs, linger: LINGER };
        Self { config, key: Arc::new(|_, _| ()), job: PhantomData }
    }

    /// Jobs share a batch only if this says the same of them.
    pub fn by_key<K, F>(self, key: F) -> Batching<J, K>
    where
        K: Hash + Eq + Send + Sync + 'static,
        F: Fn(&J) -> K + Send + Sync + 'static,
    {
        Batching { config: self.config, key: Arc::new(move |job, _| key(job)), job: PhantomData }
    }

    /// Jobs share a batch only if they were enqueued with the same key; those without one are together.
    pub fn by_job_key(self) -> Batching<J, Option<Name>> {
        let key = |_: &J, ctx: &Ctx| ctx.inner().job.key.clone();
        Batching { config: self.config, key: Arc::new(key), job: PhantomData }
    }
}

impl<J, K> Batching<J, K> {
    pub(crate) fn size(&self) -> usize {
        self.config.up_to
    }

    /// How long the first job of a batch waits for others; 10 ms by default, a minute at most.
    #[must_use]
    pub fn linger(mut self, linger: Duration) -> Self {
        self.config.linger = linger;
        self
    }
}

impl<J, K> fmt::Debug for Batching<J, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Batching").field(&self.config).finish()
    }
}

/// The batch handlers of a worker.
#[derive(Default)]
pub(crate) struct Batches {
    all: Vec<Batched>,
}

/// One batch handler.
pub(crate) struct Batched {
    pub(crate) kind: Name,
    pub(crate) queue: Name,
    pub(crate) up_to: usize,
    pub(crate) collector: Arc<dyn Collects>,
}

impl Batches {
    pub(crate) fn add(&mut self, batched: Batched) {
        self.all.push(batched);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Batched> {
        self.all.iter()
    }

    /// Whether jobs of a kind go to a batch handler.
    pub(crate) fn has(&self, kind: &Name) -> bool {
        self.all.iter().any(|batched| batched.kind == *kind)
    }

    /// Nothing more comes: what waits is called now.
    pub(crate) fn flush(&self) {
        self.all.iter().for_each(|batched| batched.collector.flush());
    }

    /// The worker ends: what waits goes back, and what still comes as well.
    pub(crate) fn close(&self) {
        self.all.iter().for_each(|batched| batched.collector.close());
    }
}

impl fmt::Debug for Batches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|batched| &batched.kind)).finish()
    }
}
