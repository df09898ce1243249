//! The worker as its user sets it up. Everything is checked when it starts; nothing after that kills it.

mod config;
mod drain;

use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use tower_layer::Layer;
use tower_service::Service;
use windlass_core::schedule::Schedule;
use windlass_core::{Bytes, Outcome};

use self::config::Draft;
pub(crate) use self::config::{Config, at_least_long};
pub use self::drain::Drained;
use crate::backoff::{Backoff, Failed};
use crate::batching::{BatchHandler, Batching, Room};
use crate::blocking::Pool;
use crate::client::{Client, own_key};
use crate::ctx::Ctx;
use crate::engine::Engine;
use crate::error::Result;
use crate::executor::Executor;
use crate::handler::{BlockingHandler, Handler};
use crate::internal::{self, Internal};
use crate::job::{IntoJob, Job, With};
use crate::maintenance::Maintenance;
use crate::panicked;
use crate::registry::{Attempt, Registry};
use crate::schedules::Declared;
use crate::shutdown::{self, Running};

type Wrap = Box<dyn FnOnce(Attempt) -> Attempt + Send>;

/// Claims jobs and runs their handlers, many at a time, until it is told to stop.
///
/// ```no_run
/// # use windlass_worker::{Client, Job, JobError, State, Worker};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct SendEmail { to: String }
/// # impl Job for SendEmail { const KIND: &'static str = "send_email"; type Output = (); }
/// # #[derive(Clone)] struct Mailer;
/// async fn send_email(job: SendEmail, State(mailer): State<Mailer>) -> Result<(), JobError> {
///     # let _ = (job.to, mailer);
///     Ok(())
/// }
///
/// # async fn run(client: Client) -> windlass_worker::Result<()> {
/// Worker::with_state(&client, Mailer)
///     .handle(send_email)
///     .concurrency(64)     // 64 at a time in all,
///     .queue("mail", 16)   // at most 16 of them for mail,
///     .reserve("login", 4) // and 4 that only login may use
///     .run()
///     .await
/// # }
/// ```
#[must_use = "a worker does nothing until it is started"]
pub struct Worker<S = ()> {
    client: Client,
    state: S,
    registry: Registry,
    pool: Arc<Pool>,
    room: Arc<Room>,
    layers: Vec<Wrap>,
    draft: Draft,
}

/// Whether the worker listens for the store's wake-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wakeups {
    /// It does, and polls beside it.
    On,
    /// It only polls.
    Off,
}

impl Worker<()> {
    /// A worker without state.
    pub fn new(client: &Client) -> Self {
        Self::with_state(client, ())
    }
}

impl<S: Clone + Send + Sync + 'static> Worker<S> {
    /// A worker whose handlers can ask for `State<T>` of anything that `S` has a `FromRef` for.
    pub fn with_state(client: &Client, state: S) -> Self {
        Self {
            client: client.clone(),
            state,
            registry: Registry::default(),
            pool: Arc::default(),
            room: Arc::default(),
            layers: Vec::new(),
            draft: Draft::default(),
        }
    }

    /// Runs jobs of this function's kind with it. A kind has one handler.
    pub fn handle<M, H: Handler<S, M>>(mut self, handler: H) -> Self {
        self.registry.add(handler, self.state.clone());
        self
    }

    /// The same for a function that blocks its thread. It runs on a pool of its own; see
    /// [`Worker::blocking_threads`]. One that outlives its timeout keeps its slot until it returns.
    pub fn handle_blocking<M, H: BlockingHandler<S, M>>(mut self, handler: H) -> Self {
        self.registry.add_blocking(handler, self.state.clone(), Arc::clone(&self.pool));
        self
    }

    /// Runs jobs of this function's kind with it, many in one call: as soon as there are as many as `batching` says, or
    /// the first has waited as long as it says. The function answers for each of them: an item that it says nothing of has
    /// failed, and an error is the error of all. Each keeps its own attempts, policy, timeout, fence and cancel.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use windlass_worker::{Answers, Batch, Batching, Client, Job, JobError, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Row { text: String }
    /// # impl Job for Row { const KIND: &'static str = "row"; type Output = (); }
    /// # async fn insert_all(rows: impl Iterator<Item = &Row>) -> Result<(), std::io::Error> { Ok(()) }
    /// async fn insert(rows: Batch<Row>) -> Result<Answers<Row>, JobError> {
    ///     insert_all(rows.jobs()).await?;
    ///     Ok(rows.done())
    /// }
    ///
    /// # fn run(client: Client) -> windlass_worker::Worker {
    /// Worker::new(&client).batch(Batching::up_to(50).linger(Duration::from_millis(20)), insert)
    /// # }
    /// ```
    ///
    /// An item's timeout counts from the start of the call. An item that is to stop sees it in its `ctx`, and ends alone
    /// after its grace; the call goes on for the others, and is dropped when none is left.
    pub fn batch<M, K, H>(mut self, batching: Batching<H::Job, K>, handler: H) -> Self
    where
        H: BatchHandler<S, M>,
        K: Hash + Eq + Send + Sync + 'static,
    {
        self.registry.add_batch(batching, handler, self.state.clone(), Arc::clone(&self.room));
        self
    }

    /// Counts in these metrics what this worker does, and what its handlers enqueue by the client that they are given.
    #[cfg(feature = "metrics")]
    pub fn metrics(mut self, metrics: &crate::Metrics) -> Self {
        self.client = self.client.with_metrics(metrics);
        self
    }

    /// Puts a tower layer around every attempt, outside of the layers given before.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<Attempt> + Send + 'static,
        L::Service: Service<Ctx, Response = Outcome> + Clone + Send + Sync + 'static,
        <L::Service as Service<Ctx>>::Future: Send,
        <L::Service as Service<Ctx>>::Error: Into<Box<dyn StdError + Send + Sync>> + Send,
    {
        self.layers.push(Box::new(move |attempt| attempt.layered(&layer)));
        self
    }

    /// How many attempts run at a time, in all; 64 by default.
    pub fn concurrency(self, slots: usize) -> Self {
        self.set(|draft| draft.concurrency = slots)
    }

    /// Serves a queue, with at most this many slots.
    pub fn queue(self, name: impl Into<String>, slots: usize) -> Self {
        self.set(|draft| draft.limits.push((name.into(), slots)))
    }

    /// Serves a queue and keeps this many of the slots for it alone.
    pub fn reserve(self, name: impl Into<String>, slots: usize) -> Self {
        self.set(|draft| draft.reserved.push((name.into(), slots)))
    }

    /// Serves a queue, and gives it so many turns to one of a queue that has the weight 1, which all have by default; from 1
    /// to 1,000. Among queues whose jobs wait for a slot, a busy one cannot starve the others: of every six starts beside a
    /// queue with the weight 1, one with the weight 5 has five. A queue without jobs costs the others nothing.
    ///
    /// ```no_run
    /// # use windlass_worker::{Client, Job, JobError, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct SendEmail { to: String }
    /// # impl Job for SendEmail { const KIND: &'static str = "send_email"; type Output = (); }
    /// # async fn send_email(_job: SendEmail) -> Result<(), JobError> { Ok(()) }
    /// # async fn run(client: Client) -> windlass_worker::Result<()> {
    /// Worker::new(&client).handle(send_email).weight("critical", 5).weight("bulk", 1).run().await
    /// # }
    /// ```
    pub fn weight(self, name: impl Into<String>, weight: u32) -> Self {
        self.set(|draft| draft.weights.push((name.into(), weight)))
    }

    /// How many jobs may be claimed ahead of their start, when handlers are so fast that it pays; 2,000 by
    /// default, 0 to never do it. Jobs that were not started are handed back at shutdown.
    pub fn prefetch(self, jobs: usize) -> Self {
        self.set(|draft| draft.prefetch_max = jobs)
    }

    /// How long the worker may be out of touch with the store before its jobs go to others; 30 s by default,
    /// at least 5 s. It is renewed at a third of this.
    pub fn lease(self, ttl: Duration) -> Self {
        self.set(|draft| draft.lease = ttl)
    }

    /// The same without the least, for tests that wait for a lease to run out.
    #[doc(hidden)]
    pub fn lease_unchecked(self, ttl: Duration) -> Self {
        self.set(|draft| {
            draft.lease = ttl;
            draft.lease_least = Duration::ZERO;
        })
    }

    /// How long the worker goes without asking for jobs when no wake-up comes; 2 s by default.
    pub fn poll_interval(self, interval: Duration) -> Self {
        self.set(|draft| draft.poll_interval = interval)
    }

    /// Whether the worker listens for the store's wake-ups; it does by default.
    pub fn wakeups(self, wakeups: Wakeups) -> Self {
        self.set(|draft| draft.wakeups = wakeups)
    }

    /// How long running attempts may go on once the worker is told to stop; 20 s by default.
    pub fn drain_deadline(self, deadline: Duration) -> Self {
        self.set(|draft| draft.drain_deadline = deadline)
    }

    /// How long an attempt that was told to stop may take before it is dropped; 3 s by default.
    pub fn cancel_grace(self, grace: Duration) -> Self {
        self.set(|draft| draft.cancel_grace = grace)
    }

    /// How long an attempt may take if its job does not say; without limit by default.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.set(|draft| draft.timeout = Some(timeout))
    }

    /// How long a job waits after an attempt that failed, instead of what its own policy says; nothing leaves it to the
    /// policy. Asked for every attempt that is to be followed by another, whether it ended by an error, a panic or a timeout,
    /// except where the handler itself says when to come back. How many attempts there are stays the policy's. It must
    /// be quick: it runs where outcomes are recorded.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use windlass_worker::{Client, Job, JobError, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct SendEmail { to: String }
    /// # impl Job for SendEmail { const KIND: &'static str = "send_email"; type Output = (); }
    /// # async fn send_email(_job: SendEmail) -> Result<(), JobError> { Ok(()) }
    /// # async fn run(client: Client) -> windlass_worker::Result<()> {
    /// let worker = Worker::new(&client).handle(send_email).backoff(|failed| {
    ///     let is_full = failed.error().contains("mailbox full");
    ///     is_full.then(|| Duration::from_secs(3_600) * failed.attempt())
    /// });
    /// # worker.run().await
    /// # }
    /// ```
    pub fn backoff(self, delay: impl Fn(&Failed<'_>) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.set(|draft| draft.backoff = Backoff::new(delay))
    }

    /// How many bytes of log lines an attempt keeps; 128 KiB by default, 32 KiB at least, and none with 0. Its first quarter and
    /// its newest lines are kept: see [`Ctx::log`](crate::Ctx::log).
    pub fn log_bytes(self, bytes: usize) -> Self {
        self.set(|draft| draft.log_limits.bytes_max = bytes)
    }

    /// How long log lines of attempts are kept, from when they were written; 7 days by default. They go by this alone, not with
    /// their job.
    pub fn log_ttl(self, ttl: Duration) -> Self {
        self.set(|draft| draft.log_limits.ttl = ttl)
    }

    /// The worker's label for people; host and number of the process by default.
    pub fn name(self, label: impl Into<String>) -> Self {
        self.set(|draft| draft.name = Some(label.into()))
    }

    /// How many threads blocking handlers have; as many as slots by default.
    pub fn blocking_threads(self, threads: usize) -> Self {
        self.set(|draft| draft.blocking_threads = Some(threads))
    }

    /// Whether this worker also keeps the store in order: takes lost jobs back, promotes due jobs of queues
    /// without workers, prunes. It does by default; a store needs one worker that does.
    pub fn maintenance(self, maintenance: Maintenance) -> Self {
        self.set(|draft| draft.maintenance = maintenance)
    }

    /// Declares a schedule in code: it is set when the worker starts, as [`ScheduleDraft::enqueue`](crate::ScheduleDraft::enqueue)
    /// sets it. One that is no longer declared stays, unless the worker says its [owner](Worker::schedule_owner).
    ///
    /// ```no_run
    /// # use windlass_core::schedule::{Overlap, Schedule};
    /// # use windlass_worker::{Client, Job, JobError, Worker};
    /// # #[derive(serde::Serialize, serde::Deserialize)] struct Report { of: String }
    /// # impl Job for Report { const KIND: &'static str = "report"; type Output = (); }
    /// # async fn report(_job: Report) -> Result<(), JobError> { Ok(()) }
    /// # async fn run(client: Client) -> windlass_worker::Result<()> {
    /// let nightly = Schedule::cron("0 3 * * *").tz("Europe/Madrid").overlap(Overlap::Skip);
    /// Worker::new(&client).handle(report).schedule("nightly", nightly, Report { of: "sales".into() }).run().await
    /// # }
    /// ```
    pub fn schedule<I: IntoJob>(self, id: impl Into<String>, schedule: Schedule, job: I) -> Self {
        let With { job, id: _, options } = job.into_job();
        let declared = Declared {
            id: id.into(),
            schedule,
            kind: I::Job::KIND,
            payload: serde_json::to_vec(&job).map(Bytes::from).map_err(|error| error.to_string()),
            options: options.over(own_key(&job)).over(I::Job::options()),
        };
        self.set(|draft| draft.declarations.schedules.push(declared))
    }

    /// Whose schedules this worker declares. Schedules of this owner that the worker does not declare are removed when it starts,
    /// so all workers with one owner declare the same ones; a worker that declares none removes all of this owner. Without
    /// it, a worker removes none.
    pub fn schedule_owner(self, owner: impl Into<String>) -> Self {
        self.set(|draft| draft.declarations.owner = Some(owner.into()))
    }

    /// Whether this worker also runs the kinds of the engine, as the ticks of schedules, in the queues that it serves. It does by
    /// default; a queue with schedules needs one worker that does.
    pub fn internal(self, internal: Internal) -> Self {
        self.set(|draft| draft.internal = internal)
    }

    /// How often lost jobs are looked for; a sixth of the lease by default.
    pub fn reap_interval(self, interval: Duration) -> Self {
        self.set(|draft| draft.reap_interval = Some(interval))
    }

    /// How often finished jobs are pruned; a minute by default.
    pub fn prune_interval(self, interval: Duration) -> Self {
        self.set(|draft| draft.prune_interval = interval)
    }

    /// How often the rules for dead jobs are heeded, and jobs looked for that expired; half a minute by default.
    pub fn redrive_interval(self, interval: Duration) -> Self {
        self.set(|draft| draft.redrive_interval = interval)
    }

    /// How long an async handler may hold a runtime thread without yielding before a warning names its kind;
    /// 100 ms by default. One that has held it for a hundred times as long is named while it still does, and
    /// turns the worker's health red.
    pub fn slow_poll(self, limit: Duration) -> Self {
        self.set(|draft| draft.slow_poll = limit)
    }

    /// Starts the worker in the background. Keep what comes back: the worker stops when it is dropped, as by
    /// `let _ = worker.start()?`.
    ///
    /// # Errors
    /// When it is set up wrongly. A store that cannot be reached is not an error: the worker waits for it.
    pub fn start(self) -> Result<Running> {
        let (client, config, executor) = self.into_parts()?;
        Engine::start(client, config, executor)
    }

    /// Runs until SIGTERM or SIGINT. The first lets running attempts end, within
    /// [`Worker::drain_deadline`]; the second hands them back at once.
    ///
    /// An async handler that blocks its thread cannot be stopped, and a tokio runtime waits for its threads
    /// when it is dropped. So after a signal, when only such handlers are left and the runtime has been silent for
    /// 5 s (it was dropped, or all of its threads are held), the process exits with status 1. Programs that
    /// use [`Worker::start`] do that themselves, with `Runtime::shutdown_background` or `std::process::exit`.
    ///
    /// # Errors
    /// As [`Worker::start`].
    pub async fn run(self) -> Result<()> {
        shutdown::run_until_signal(|| self.start()).await
    }

    /// Runs until `shutdown` is done, then lets running attempts end.
    ///
    /// # Errors
    /// As [`Worker::start`].
    pub async fn run_until(self, shutdown: impl Future<Output = ()>) -> Result<()> {
        let running = self.start()?;
        shutdown.await;
        running.stop().await;
        Ok(())
    }

    /// For tests: runs what is ready now, one job after the other, until nothing is. Time is not moved, so
    /// what is scheduled stays.
    ///
    /// # Errors
    /// When the worker is set up wrongly, when a store call fails, or when jobs keep coming without end.
    pub async fn drain(self) -> Result<Drained> {
        let (client, config, executor) = self.into_parts()?;
        drain::drain(&client, &config, &executor).await
    }

    pub(crate) fn into_parts(mut self) -> Result<(Client, Config, Executor)> {
        if self.draft.internal == Internal::On {
            self.registry.add_internal(internal::runs());
        }
        self.registry.check()?;
        panicked::note_places();
        let config = self.draft.check(&self.registry)?;
        self.pool.limit(config.blocking_threads);
        self.room.set(&config.slots, config.slow_poll);
        let layers = self.layers;
        let layered = |attempt| layers.into_iter().fold(attempt, |attempt, wrap| wrap(attempt));
        let (attempt, batches) = self.registry.into_attempt(layered);
        let executor = Executor::new(attempt, batches, config.cancel_grace, config.slow_poll);
        Ok((self.client, config, executor))
    }

    fn set(mut self, change: impl FnOnce(&mut Draft)) -> Self {
        change(&mut self.draft);
        self
    }
}

impl<S> fmt::Debug for Worker<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("client", &self.client)
            .field("draft", &self.draft)
            .finish_non_exhaustive()
    }
}
