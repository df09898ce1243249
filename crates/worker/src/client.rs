//! The client: puts jobs into a store and asks about them. Cheap to clone, not generic over the store.

mod by_key;
mod cancel;
mod defaults;
mod endings;
mod enqueue;
mod enqueue_as;
mod events;
mod expiring;
mod explain;
mod handle;
mod in_flight;
mod keyed;
mod lane;
mod logs;
mod made;
mod moved;
mod queue;
mod records;
mod repeat;
mod reporter;
mod room;
mod rules;
mod shared_error;
mod split;
mod spread;
mod supersede;
mod tallies;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use tokio::runtime;
use windlass_core::queue::{QueueConfig, QueueRecord};
use windlass_core::store::{About, Amended, Begin, Cursor, Enqueued, Filter, JobPage, LeaseRecord, Settled};
use windlass_core::{JobId, JobRecord, Name, NewJob, Store};

pub use by_key::{ByKey, KeyBacklog};
pub use cancel::Cancellation;
pub(crate) use enqueue::own_key;
pub use enqueue::{Enqueue, EnqueueAll};
pub use enqueue_as::EnqueueAs;
pub use events::{JobEvent, JobEvents, percent_of};
pub use explain::{AwaitedJob, BlockedBy, Cause, Explanation, FlowSeen, Paused, Why, WorkerSeen};
pub use handle::{Handle, OutputError};
pub use logs::LogReader;
pub use moved::Moved;
pub use queue::{Backlog, QueueHandle};
pub use records::{Put, Records, Remembered};
pub(crate) use records::{decoded, part as records_of};
pub(crate) use reporter::{Reporter, Sayings, Standing};
pub use rules::Pausing;
pub(crate) use shared_error::copy as copy_of;
pub use tallies::{Tallies, TallyReport};

use self::defaults::Defaults;
use self::endings::Endings;
use self::expiring::Expiring;
use self::in_flight::InFlight;
use self::keyed::KeyedQueues;
use self::lane::{Begins, Enqueues, Writes};
use self::repeat::{OneCall, Repeat, miscounted, repeat, retries};
use crate::error::{ConfigError, Error, Result};
use crate::flows::Mover;
use crate::job::Job;
use crate::lanes::Lanes;
use crate::observe::Observe;
use crate::retries::lost;
use crate::trace;

/// Puts jobs into a store and asks about them. Cheap to clone. `windlass::open(url)` gives one.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// Where it counts what it hands in, and its workers what they do.
    observe: Observe,
}

struct Shared {
    store: Arc<dyn Store>,
    finishes_calls: bool,
    /// Enqueues of single jobs that are on their way.
    calls: InFlight,
    enqueues: Lanes<Enqueues>,
    reporter: Arc<Reporter>,
    begins: Lanes<Begins>,
    writes: Lanes<Writes>,
    endings: Arc<Endings>,
    keyed: KeyedQueues,
    defaults: Defaults,
    expiring: Expiring,
    mover: Mover,
}

impl Client {
    /// A client of this store. Must be called inside a tokio runtime: single enqueues that come together are gathered
    /// into batches by background loops, which end when the last clone of the client is gone.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn new(store: Arc<dyn Store>) -> Self {
        let (sharing, runtime) = (store.about().sharing, runtime::Handle::current());
        let enqueues = Lanes::new(sharing, runtime.clone(), Arc::new(Enqueues(Arc::clone(&store))));
        let reporter = Arc::new(Reporter::new(&store, runtime.clone()));
        let begins = Lanes::new(sharing, runtime.clone(), Arc::new(Begins(Arc::clone(&store))));
        let writes = Lanes::new(sharing, runtime.clone(), Arc::new(Writes(Arc::clone(&store))));
        let (finishes_calls, calls, endings) = (store.finishes_calls(), InFlight::default(), Arc::default());
        let mover = Mover::new(runtime.clone());
        let (keyed, defaults) = (KeyedQueues::default(), Defaults::new(runtime));
        Self {
            observe: Observe::default(),
            shared: Arc::new(Shared {
                store,
                finishes_calls,
                calls,
                enqueues,
                reporter,
                begins,
                writes,
                endings,
                keyed,
                defaults,
                expiring: Expiring::default(),
                mover,
            }),
        }
    }

    /// The same client, which counts in these metrics what it hands in; so do its workers with what they do.
    #[cfg(feature = "metrics")]
    #[must_use]
    pub fn with_metrics(&self, metrics: &crate::Metrics) -> Self {
        Self { shared: Arc::clone(&self.shared), observe: Observe::new(metrics) }
    }

    /// Where it counts what it does; nothing without [`with_metrics`](Self::with_metrics).
    #[cfg(feature = "metrics")]
    pub fn metrics(&self) -> Option<&crate::Metrics> {
        self.observe.metrics()
    }

    pub(crate) fn observe(&self) -> &Observe {
        &self.observe
    }

    /// The store, for what this type has no method for.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// What kind of store this is, where, and what "accepted" means in it.
    pub fn about(&self) -> About {
        self.store().about()
    }

    /// Enqueues a job that was put together by hand, for callers that do not have its Rust type.
    ///
    /// [`Enqueued::Repeated`] means that the answer to this very call was lost, the call was repeated, and the store
    /// had accepted it before: the job is stored, and was stored once. A job under an id of the caller's own may have
    /// been there before.
    pub async fn enqueue_new(&self, mut job: NewJob) -> Result<Enqueued> {
        let _sending = trace::send(&mut job);
        if self.observe.is_on() {
            let (queue, kind) = (job.queue.clone(), job.kind.clone());
            return Box::pin(self.observe.enqueue_one(&queue, &kind, self.hand_in(job))).await;
        }
        self.hand_in(job).await
    }

    async fn hand_in(&self, job: NewJob) -> Result<Enqueued> {
        if job.is_followed_when_expired() {
            Box::pin(self.mark_expiring_job(&job)).await?;
        }
        let (_call, is_alone) = self.shared.calls.enter();
        // A unique job may wait for a key that an open transaction holds, and a call is remembered only if it has stored
        // a job: it holds up no other, and its answer is about itself.
        if job.unique.is_some() {
            let answers = Box::pin(self.hand_in_all([job].into())).await?;
            return answers.first().copied().ok_or_else(|| miscounted(0, 1).into());
        }
        if job.key.is_some() {
            return Box::pin(self.enqueue_keyed(job)).await;
        }
        if !is_alone || !self.shared.finishes_calls {
            let queue = job.queue.clone();
            return Ok(self.shared.enqueues.submit(&queue, job).await.map_err(|_closed| Error::Closed)??);
        }
        // There is nothing to share, so it needs no lane; and mostly the store answers, so only a failure is repeated.
        let (call, jobs) = (OneCall::new(), Arc::<[NewJob]>::from([job]));
        let answered =
            AssertUnwindSafe(self.store().enqueue_once(call.id, Arc::clone(&jobs))).catch_unwind().await;
        let answers = match answered.unwrap_or_else(|panic| Err(lost(&*panic))) {
            Ok(answers) => answers,
            Err(error) => {
                let again = |id| self.store().enqueue_once(id, Arc::clone(&jobs));
                Box::pin(call.repeat_after(error, jobs.len(), again)).await?
            }
        };
        match answers[..] {
            [answer] => Ok(answer),
            _ => Err(miscounted(answers.len(), jobs.len()).into()),
        }
    }

    /// Enqueues jobs in a call of their own. A caller that goes away must not interrupt it between two tries.
    pub(crate) async fn enqueue_whole(&self, mut jobs: Arc<[NewJob]>) -> Result<Vec<Enqueued>> {
        let _sending = trace::send_all(&mut jobs);
        self.observe.enqueue_all(&jobs, self.hand_in_all(Arc::clone(&jobs))).await
    }

    async fn hand_in_all(&self, jobs: Arc<[NewJob]>) -> Result<Vec<Enqueued>> {
        let enqueue = || {
            let (store, batch) = (Arc::clone(self.store()), Arc::clone(&jobs));
            let call = tokio::spawn(async move {
                let call = |id| store.enqueue_once(id, Arc::clone(&batch));
                repeat(batch.len(), Repeat::Whole, &mut retries(), call).await
            });
            async { Ok(call.await.map_err(|_ended| Error::Closed)??) }
        };
        self.with_keys(&jobs, enqueue).await
    }

    /// The job as it is now, with its attempts.
    pub async fn job(&self, id: JobId) -> Result<Option<JobRecord>> {
        Ok(self.store().get([id].into()).await?.pop().flatten())
    }

    /// Cancels: a waiting job at once, a running one by a request to its handler.
    pub async fn cancel(&self, id: JobId) -> Result<Amended> {
        Ok(one(self.store().cancel([id].into()).await?))
    }

    /// Sends a dead, cancelled or scheduled job to `ready` now.
    pub async fn retry(&self, id: JobId) -> Result<Amended> {
        Ok(one(self.store().retry([id].into()).await?))
    }

    /// Removes a job that does not run, for good.
    pub async fn delete(&self, id: JobId) -> Result<Amended> {
        Ok(one(self.store().delete([id].into()).await?))
    }

    /// Sets the definition of a queue, replacing the one it had.
    pub async fn define_queue(&self, name: impl AsRef<str>, config: QueueConfig) -> Result<()> {
        self.queue(name)?.define(&config).await
    }

    /// A queue: its counts, its backlog, its jobs and its definition. Asks the store nothing yet, and fails only when the
    /// text cannot be a name.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::{sync::Arc, time::SystemTime};
    /// # use windlass_worker::Client;
    /// # let client = Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// let mail = client.queue("mail")?;
    /// println!("{} jobs of mail have not ended", mail.counts().await?.open());
    /// let backlog = mail.backlog(SystemTime::now()).await?;
    /// if let Some(since) = backlog.oldest {
    ///     println!("the oldest waits since {since}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn queue(&self, name: impl AsRef<str>) -> Result<QueueHandle> {
        let name = Name::new(name).map_err(|error| ConfigError::Name { what: "queue", error })?;
        Ok(QueueHandle::new(self.clone(), name))
    }

    /// Queues that were defined or hold jobs, by name, after the given one, at most `limit`.
    pub async fn queues(&self, after: Option<&Name>, limit: u32) -> Result<Vec<QueueRecord>> {
        Ok(self.store().queues(after, limit).await?)
    }

    /// A page of jobs for which everything in the filter holds, the newest first and without their attempts. At most
    /// 1,000, and possibly fewer than `limit` although there are more: the list has ended when a page names no next one.
    ///
    /// Jobs of the engine itself, whose kinds begin with `windlass.`, are shown only if the filter names their kind.
    pub async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> Result<JobPage> {
        let mut page = self.store().list(filter, after, limit).await?;
        if !filter.kind.as_ref().is_some_and(Name::is_internal) {
            page.jobs.retain(|job| !job.kind.is_internal());
        }
        Ok(page)
    }

    /// The leases of workers, the newest first, at most `limit`. One that has run out belongs to a worker that died or
    /// lost the store.
    pub async fn workers(&self, limit: u32) -> Result<Vec<LeaseRecord>> {
        Ok(self.store().leases(limit).await?)
    }

    /// A handle on a job that was enqueued elsewhere.
    pub fn handle<J: Job>(&self, id: JobId) -> Handle<J> {
        Handle::existing(self.clone(), id)
    }

    /// Waits until it is worth while to look whether a job has ended.
    async fn worth_a_look(&self, id: JobId) {
        self.shared.endings.worth_a_look(self.store(), id).await;
    }

    /// What this client knows of flows.
    pub(crate) fn mover(&self) -> &Mover {
        &self.shared.mover
    }

    /// Writes what running attempts say of themselves.
    pub(crate) fn reporter(&self) -> &Arc<Reporter> {
        &self.shared.reporter
    }

    /// Lets the store know that an attempt has begun.
    pub(crate) async fn begin(&self, begin: Begin) -> Result<Settled> {
        let queue = begin.queue.clone();
        Ok(self.shared.begins.submit(&queue, begin).await.map_err(|_closed| Error::Closed)??)
    }
}

/// The answer to a call about one job.
fn one(answers: Vec<Amended>) -> Amended {
    answers.into_iter().next().unwrap_or(Amended::Missing)
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("store", &self.about()).finish_non_exhaustive()
    }
}
