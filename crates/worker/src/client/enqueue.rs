//! The builders behind `client.enqueue(..)` and `client.enqueue_all(..)`: futures with options.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use windlass_core::job::Trace;
use windlass_core::retry::Policy;
use windlass_core::schedule::Spread;
use windlass_core::store::Enqueued;
use windlass_core::unique::Unique;
use windlass_core::{Bytes, JobId, NewJob, Options};
use windlass_tx::{BlockingTx, Tx};

use super::Client;
use super::defaults::Lookup;
use super::handle::{Choice, Handle};
use super::room::wait_for_room;
use super::spread::later;
use crate::error::{Error, Result};
use crate::job::{IntoJob, Job, With};
use crate::trace;

/// The most jobs that one `enqueue_all` carries.
const JOBS_MAX: usize = 10_000;
/// The most bytes of payload that one `enqueue_all` carries.
const BYTES_MAX: usize = 64 << 20;

type Answered<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// A job to be enqueued: set its options, then await it.
#[must_use = "a job is enqueued when this is awaited"]
pub struct Enqueue<J> {
    client: Client,
    payload: serde_json::Result<Bytes>,
    id: Option<JobId>,
    options: Options,
    wait_max: Option<Duration>,
    supersedes: bool,
    job: PhantomData<fn() -> J>,
}

/// Jobs on their way: say more about them, then await them.
#[must_use = "jobs are enqueued when this is awaited"]
pub struct EnqueueAll<J> {
    client: Client,
    items: serde_json::Result<Vec<Item>>,
    options: Options,
    pub(super) spread: Option<Spread>,
    wait_max: Option<Duration>,
    job: PhantomData<fn() -> J>,
}

/// One of many jobs: encoded, and what is said about it alone.
struct Item {
    payload: Bytes,
    id: Option<JobId>,
    /// Nothing for nearly all: options are large, and there are many jobs.
    own: Option<Box<Own>>,
}

/// What is said about one of many jobs alone.
#[derive(Default)]
struct Own {
    options: Options,
    /// The key that it names itself, if any.
    key: Options,
}

impl Client {
    /// Enqueues a job: a builder that is awaited. Await it inside the runtime that the client was made in.
    pub fn enqueue<J: Job>(&self, job: J) -> Enqueue<J> {
        let (payload, options) = (serde_json::to_vec(&job).map(Bytes::from), own_key(&job));
        let client = self.clone();
        Enqueue { client, payload, id: None, options, wait_max: None, supersedes: false, job: PhantomData }
    }

    /// Enqueues many jobs in one call: all of them or none. What the builder says holds for all of them; a job that is given
    /// [with](Job::with) options of its own has these first.
    pub fn enqueue_all<I: IntoJob>(&self, jobs: impl IntoIterator<Item = I>) -> EnqueueAll<I::Job> {
        let (jobs, plain) = (jobs.into_iter(), Options::new());
        let encode = |jobs| {
            let mut items = Vec::with_capacity(Iterator::size_hint(&jobs).0.min(JOBS_MAX));
            for each in jobs {
                let With { job, id, options } = I::into_job(each);
                let is_plain = options == plain && job.key().is_none();
                let own = (!is_plain).then(|| Box::new(Own { options, key: own_key(&job) }));
                items.push(Item { payload: serde_json::to_vec(&job)?.into(), id, own });
            }
            Ok(items)
        };
        let items = encode(jobs);
        let (client, options) = (self.clone(), Options::new());
        EnqueueAll { client, items, options, spread: None, wait_max: None, job: PhantomData }
    }
}

/// The key that a job names itself, as options.
pub(crate) fn own_key<J: Job>(job: &J) -> Options {
    match job.key() {
        Some(key) => Options::new().key(key),
        None => Options::new(),
    }
}

impl<J: Job> Enqueue<J> {
    /// The id to store it under: enqueue again with the same id when an answer was lost, and it is stored
    /// once.
    pub fn id(mut self, id: JobId) -> Self {
        self.id = Some(id);
        self
    }

    /// Cancels the job that holds its [unique](Self::unique) key, if that one waits, and takes its place: the newest counts.
    /// A job that runs goes on; where it holds the key, this one is answered with it, as ever. Several callers at once may
    /// each cancel the one before. A job without a unique key is enqueued as ever. Not heeded inside a transaction.
    ///
    /// The cancel and the enqueue are two writes. A caller that gets an error, or a process that ends between them, may have
    /// cancelled the one and not stored the other: call again, as for any enqueue that was not answered. A job that has started, failed and
    /// waits for its retry by then is cancelled as well. Where the waiting job may simply say something else, let the store
    /// decide in one write: [`Unique::replace`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::sync::Arc;
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_core::State;
    /// # use windlass_core::unique::Unique;
    /// # #[derive(Serialize, Deserialize)]
    /// # struct Export { rows: u32 }
    /// # impl windlass_worker::Job for Export { const KIND: &'static str = "export"; type Output = (); }
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// let export = |rows| client.enqueue(Export { rows }).unique(Unique::key("acme").until_start()).supersede();
    /// let (first, second) = (export(1).await?, export(2).await?);
    /// assert_eq!(first.state().await?, Some(State::Cancelled));
    /// assert_eq!(second.state().await?, Some(State::Ready));
    /// # Ok(())
    /// # }
    /// ```
    pub fn supersede(mut self) -> Self {
        self.supersedes = true;
        self
    }

    /// Enqueues inside a transaction of the caller's own, instead of awaiting the builder: the job is there
    /// when the transaction has been committed, and not before; a rollback leaves nothing.
    ///
    /// ```text
    /// client.enqueue(SendReceipt { order }).within(&mut tx).await?;
    /// tx.commit().await?;
    /// ```
    ///
    /// Given a connection without a transaction, the job is there at once. A job with a key needs a queue that has keys:
    /// nothing but the job is written inside the transaction, so call [`QueueHandle::permit_keys`] once before.
    ///
    /// [`QueueHandle::permit_keys`]: crate::QueueHandle::permit_keys
    ///
    /// # Errors
    /// [`Error::Store`] also when the transaction is not one of the database that the store is in; then
    /// nothing was written. After other errors the transaction should be rolled back.
    pub async fn within<T: Tx>(self, tx: &mut T) -> Result<Handle<J>> {
        self.enqueue_within(tx, Lookup::Within).await
    }

    async fn enqueue_within<T: Tx>(self, tx: &mut T, lookup: Lookup) -> Result<Handle<J>> {
        let choice = self.choice();
        let (client, mut job) = self.into_job(lookup).await?;
        trace::capture([&mut job]);
        let answers = windlass_tx::enqueue(&**client.store(), tx, std::slice::from_ref(&job)).await?;
        let enqueued = answers.first().copied().unwrap_or(Enqueued::New);
        Ok(Handle::new(client, job.id, enqueued, choice))
    }

    /// As [`within`](Enqueue::within), for drivers that block. Defaults of the queue hold if this client knows them: it has
    /// enqueued there before in another way.
    ///
    /// # Errors
    /// As there.
    pub fn within_blocking<T: BlockingTx>(self, tx: &mut T) -> Result<Handle<J>> {
        windlass_tx::wait(self.enqueue_within(tx, Lookup::Known))
    }

    fn choice(&self) -> Choice {
        if self.id.is_some() { Choice::Caller } else { Choice::Call }
    }

    pub(super) async fn into_job(self, lookup: Lookup) -> Result<(Client, NewJob)> {
        let payload = self.payload.map_err(|error| Error::Encode { kind: J::KIND, error })?;
        let options = self.client.over_defaults(self.options.over(J::options()), lookup).await?;
        let mut job = NewJob::new(J::KIND, payload, options)?;
        if let Some(id) = self.id {
            job.id = id;
        }
        Ok((self.client, job))
    }
}

impl<J: Job> EnqueueAll<J> {
    /// Enqueues inside a transaction of the caller's own, as [`Enqueue::within`] does.
    ///
    /// # Errors
    /// As there.
    pub async fn within<T: Tx>(self, tx: &mut T) -> Result<Vec<Handle<J>>> {
        self.enqueue_within(tx, Lookup::Within).await
    }

    async fn enqueue_within<T: Tx>(self, tx: &mut T, lookup: Lookup) -> Result<Vec<Handle<J>>> {
        let choices = self.choices();
        let (client, mut jobs) = self.into_jobs(lookup).await?;
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let _sending = trace::send_all(&mut jobs);
        let answers = windlass_tx::enqueue(&**client.store(), tx, &jobs).await?;
        Ok(handles(&client, &jobs, answers, choices))
    }

    /// As [`within`](EnqueueAll::within), for drivers that block.
    ///
    /// # Errors
    /// As there.
    pub fn within_blocking<T: BlockingTx>(self, tx: &mut T) -> Result<Vec<Handle<J>>> {
        windlass_tx::wait(self.enqueue_within(tx, Lookup::Known))
    }

    /// What made the id of each job.
    fn choices(&self) -> Vec<Choice> {
        let choice = |item: &Item| if item.id.is_some() { Choice::Caller } else { Choice::Call };
        self.items.iter().flatten().map(choice).collect()
    }

    async fn into_jobs(self, lookup: Lookup) -> Result<(Client, Arc<[NewJob]>)> {
        let items = self.items.map_err(|error| Error::Encode { kind: J::KIND, error })?;
        let (jobs, bytes) = (items.len(), items.iter().map(|item| item.payload.len()).sum());
        if jobs > JOBS_MAX || bytes > BYTES_MAX {
            return Err(Error::BatchTooLarge { jobs, bytes, jobs_max: JOBS_MAX, bytes_max: BYTES_MAX });
        }
        let (call, of_type, spread, count) = (self.options, J::options(), self.spread, items.len());
        // Names are checked once; the copies share them. A unique key is that of one payload.
        let (mut jobs, mut pattern) = (Vec::with_capacity(items.len()), None::<(NewJob, Option<Unique>)>);
        for Item { payload, id, own } in items {
            let job = match (&pattern, own) {
                (Some((pattern, unique)), None) => pattern.with_payload(payload, unique.as_ref())?,
                (_, own) => {
                    let is_plain = own.is_none();
                    let Own { options, key } = *own.unwrap_or_default();
                    let options = options.over(call.clone()).over(key).over(of_type.clone());
                    let options = self.client.over_defaults(options, lookup).await?;
                    let unique = options.unique_by().cloned();
                    let job = NewJob::new(J::KIND, payload, options)?;
                    if is_plain {
                        pattern = Some((job.clone(), unique));
                    }
                    job
                }
            };
            let mut job = match id {
                Some(id) => job.with_id(id),
                None => job,
            };
            if let Some(spread) = spread {
                let delay = spread.delay_of(&job, jobs.len(), count);
                job.due = later(job.due, delay);
            }
            jobs.push(job);
        }
        Ok((self.client, jobs.into()))
    }
}

macro_rules! options {
    ($builder:ident) => {
        impl<J: Job> $builder<J> {
            /// The queue to put it in.
            pub fn queue(self, name: impl Into<String>) -> Self {
                self.with(|options| options.queue(name))
            }

            /// Higher is claimed first; 0 by default.
            pub fn priority(self, priority: i16) -> Self {
                self.with(|options| options.priority(priority))
            }

            /// Not before this long after it is accepted.
            pub fn delay(self, delay: Duration) -> Self {
                self.with(|options| options.delay(delay))
            }

            /// Not before this instant, by the store's clock.
            pub fn at(self, time: impl Into<SystemTime>) -> Self {
                self.with(|options| options.at(time))
            }

            /// Dead with reason `expired` unless it starts within this time after it is accepted.
            pub fn expires_in(self, expiry: Duration) -> Self {
                self.with(|options| options.expires_in(expiry))
            }

            /// The key that it takes turns by with jobs of other keys in its queue, such as the customer that it is for. The
            /// rules for keys of its queue limit how many jobs of one key run and start
            /// ([`KeyRules`](windlass_core::queue::KeyRules)).
            pub fn key(self, key: impl Into<String>) -> Self {
                self.with(|options| options.key(key))
            }

            /// Where its queue is [full](windlass_core::queue::QueueConfig::capacity), waits for room, for as long as this at
            /// most, before it fails. Not heeded inside a transaction.
            pub fn wait_for_room(mut self, wait_max: Duration) -> Self {
                self.wait_max = Some(wait_max);
                self
            }

            /// At most one job of its queue has this; another one is answered with the job that has it. See [`Unique`],
            /// [`Handle::is_new`] and [`Handle::answer`].
            pub fn unique(self, unique: Unique) -> Self {
                self.with(|options| options.unique(unique))
            }

            /// When and how often to try again.
            pub fn retry(self, policy: Policy) -> Self {
                self.with(|options| options.retry(policy))
            }

            /// How long one attempt may take.
            pub fn timeout(self, timeout: Duration) -> Self {
                self.with(|options| options.timeout(timeout))
            }

            /// The trace that it belongs to.
            pub fn trace(self, trace: Trace) -> Self {
                self.with(|options| options.trace(trace))
            }

            /// The trace that it belongs to, as the header `traceparent` of a request says it. A text that is not one is left
            /// out.
            pub fn traceparent(self, parent: impl AsRef<str>) -> Self {
                self.with(|options| options.traceparent(parent))
            }

            /// Adds a value that the handler and readers of the job can see. Nothing is decided by it.
            pub fn meta(self, key: impl Into<String>, value: impl Into<String>) -> Self {
                self.with(|options| options.meta(key, value))
            }

            /// What is enqueued when it dies, in the same write; see [`OnDead`](windlass_core::job::OnDead).
            pub fn on_dead(self, hook: windlass_core::job::OnDead) -> Self {
                self.with(|options| options.on_dead(hook))
            }

            /// The queue that it is sent to when it dies, as a new job, in the same write. It stays among the dead, too.
            pub fn forward_dead(self, queue: impl Into<String>) -> Self {
                self.with(|options| options.forward_dead(queue))
            }

            /// How many lost leases it survives.
            pub fn max_stalls(self, stalls: u32) -> Self {
                self.with(|options| options.max_stalls(stalls))
            }

            /// Adds a tag to find it by.
            pub fn tag(self, tag: impl Into<String>) -> Self {
                self.with(|options| options.tag(tag))
            }

            /// Everything that these options say; they win over what was said before.
            pub fn options(self, options: Options) -> Self {
                self.with(|before| options.over(before))
            }

            fn with(mut self, change: impl FnOnce(Options) -> Options) -> Self {
                self.options = change(self.options);
                self
            }
        }
    };
}

options!(Enqueue);
options!(EnqueueAll);

impl<J: Job> IntoFuture for Enqueue<J> {
    type Output = Result<Handle<J>>;
    type IntoFuture = Answered<Handle<J>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (choice, wait_max, supersedes) = (self.choice(), self.wait_max, self.supersedes);
            let (client, job) = self.into_job(Lookup::Wait).await?;
            let id = job.id;
            let enqueued = if supersedes {
                client.supersede(job, wait_max).await?
            } else {
                client.enqueue_waiting(job, wait_max).await?
            };
            Ok(Handle::new(client, id, enqueued, choice))
        })
    }
}

impl<J: Job> IntoFuture for EnqueueAll<J> {
    type Output = Result<Vec<Handle<J>>>;
    type IntoFuture = Answered<Vec<Handle<J>>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let (choices, wait_max) = (self.choices(), self.wait_max);
            let (client, jobs) = self.into_jobs(Lookup::Wait).await?;
            if jobs.is_empty() {
                return Ok(Vec::new());
            }
            let answers = match wait_max {
                None => client.enqueue_whole(Arc::clone(&jobs)).await?,
                Some(wait_max) => {
                    wait_for_room(wait_max, &jobs, || client.enqueue_whole(Arc::clone(&jobs))).await?
                }
            };
            Ok(handles(&client, &jobs, answers, choices))
        })
    }
}

fn handles<J: Job>(
    client: &Client,
    jobs: &[NewJob],
    answers: Vec<Enqueued>,
    choices: Vec<Choice>,
) -> Vec<Handle<J>> {
    let answered = jobs.iter().zip(answers).zip(choices);
    answered.map(|((job, enqueued), choice)| Handle::new(client.clone(), job.id, enqueued, choice)).collect()
}
