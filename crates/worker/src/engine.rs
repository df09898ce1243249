//! The parts of a running worker, put together, and the life of one attempt among them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tracing::Instrument;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::{JobId, Outcome, Store};

use crate::begin::{self, Beginnings};
use crate::client::Client;
use crate::ctx::Ctx;
use crate::ctx::within::Completion;
use crate::error::{ConfigError, Result};
use crate::executor::Executor;
use crate::fetcher::{self, Timing};
use crate::floor::{Floor, Freed, Start};
use crate::lag::Lag;
use crate::lease::{self, Lease};
use crate::maintenance::{self, Maintenance};
use crate::settler::Settler;
use crate::shutdown::{self, Running, Stage};
use crate::supervise::{Board, Health, LeaseHealth, Part, QueueHealth, UnreadableHealth, supervise};
use crate::worker::Config;

/// A running worker.
pub(crate) struct Engine {
    pub(crate) config: Config,
    pub(crate) client: Client,
    pub(crate) runtime: Handle,
    pub(crate) settler: Settler,
    pub(crate) board: Arc<Board>,
    pub(crate) lease: Arc<Lease>,
    pub(crate) timing: Timing,
    /// Rings for the fetcher: asking for jobs may be worth while.
    pub(crate) hungry: Notify,
    /// Rings for the shutdown: an attempt or a claim has ended.
    pub(crate) quiet: Notify,
    /// Rings for the reaper: there may be lost jobs right now.
    pub(crate) lost: Notify,
    pub(crate) lag: Lag,
    /// Whether everything has ended, the lease last.
    pub(crate) ended: watch::Sender<bool>,
    /// Which attempts the store must be told of.
    pub(crate) beginnings: Beginnings,
    /// The newest job that could not be read and how many there were.
    unreadable: Mutex<UnreadableHealth>,
    stage: watch::Sender<Stage>,
    executor: Executor,
    floor: Mutex<Floor>,
}

impl Engine {
    /// Starts all loops.
    pub(crate) fn start(client: Client, config: Config, executor: Executor) -> Result<Running> {
        let runtime = Handle::try_current().map_err(|_none| ConfigError::NoRuntime)?;
        let (now, board, lease) = (Instant::now(), Arc::<Board>::default(), Arc::<Lease>::default());
        let settler =
            Settler::new(Arc::clone(client.store()), Arc::clone(&board), Arc::clone(&lease), runtime.clone());
        let engine = Arc::new(Self {
            floor: Mutex::new(Floor::new(&config, now)),
            client,
            runtime: runtime.clone(),
            settler,
            board,
            lease,
            timing: Timing::new(now),
            hungry: Notify::new(),
            quiet: Notify::new(),
            lost: Notify::new(),
            lag: Lag::new(now),
            ended: watch::Sender::new(false),
            beginnings: Beginnings::default(),
            unreadable: Mutex::default(),
            stage: watch::Sender::new(Stage::Running),
            executor,
            config,
        });
        let lease = lease::spawn(Arc::clone(&engine));
        let mut loops = vec![
            engine.supervised(Part::Fetcher, fetcher::run),
            engine.supervised(Part::Beginner, begin::run),
        ];
        if engine.config.maintenance == Maintenance::On {
            loops.push(engine.supervised(Part::Reaper, maintenance::reap));
            loops.push(engine.supervised(Part::Promoter, maintenance::promote));
            loops.push(engine.supervised(Part::Pruner, maintenance::prune));
        }
        Ok(shutdown::attend(engine, loops, lease))
    }

    fn supervised<F, Fut>(self: &Arc<Self>, part: Part, run: F) -> tokio::task::JoinHandle<()>
    where
        F: Fn(Arc<Self>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + Send,
    {
        let engine = Arc::clone(self);
        self.runtime.spawn(async move { supervise(&engine.board, part, || run(Arc::clone(&engine))).await })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.client.store()
    }

    pub(crate) fn floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves on towards the end; never back.
    pub(crate) fn advance(&self, stage: Stage) {
        self.stage.send_if_modified(|now| {
            let is_later = stage > *now;
            *now = stage.max(*now);
            is_later
        });
    }

    /// Watches how far the worker is on its way to the end.
    pub(crate) fn stage(&self) -> watch::Receiver<Stage> {
        self.stage.subscribe()
    }

    pub(crate) fn health(&self) -> Health {
        let (floor, now) = (self.floor(), Instant::now());
        Health {
            loops: self.board.read(),
            lease: LeaseHealth { id: floor.lease(), lost: self.lease.lost() },
            running: floor.running().count(),
            zombies: floor.zombies(),
            blocked: floor.blocked(now, self.config.blocked_after()),
            starved: floor.starved(&self.config),
            threads_free: self.config.blocking_threads.saturating_sub(floor.zombie_threads()),
            buffered: floor.waiting(),
            unsettled: self.settler.unsettled(),
            fenced: self.settler.fenced(),
            sick: floor.sick().into_iter().map(|(queue, error)| QueueHealth { queue, error }).collect(),
            unreadable: self.unreadable.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            lag: self.lag.last(now),
            lag_max: self.lag.max(),
        }
    }

    /// A job could not be read.
    pub(crate) fn note_unreadable(&self, id: JobId, why: &str) {
        let mut noted = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        noted.jobs = noted.jobs.saturating_add(1);
        noted.last = Some(format!("job {id}: {why}"));
    }

    /// Starts an attempt in the seat that was taken for it.
    pub(crate) fn launch(self: &Arc<Self>, start: Start) {
        self.beginnings.started();
        let Start { seat, ctx } = start;
        let span = tracing::info_span!(
            "attempt",
            job.id = %ctx.id(), job.kind = %ctx.kind(), job.queue = %ctx.queue(),
            attempt = ctx.attempt(), fence = %ctx.fence(),
        );
        let seat = Seat { engine: Arc::clone(self), seat, is_done: false };
        if span.is_disabled() {
            self.runtime.spawn(attempt(seat, ctx));
        } else {
            self.runtime.spawn(attempt(seat, ctx).instrument(span));
        }
    }
}

/// One attempt: run it, hand its outcome in, leave the seat to the next.
async fn attempt(mut seat: Seat, ctx: Ctx) {
    // Few have a history: the future of all others stays small.
    let may_begin = !ctx.has_history() || Box::pin(seat.engine.may_begin(&ctx)).await;
    if may_begin && let Some(outcome) = seat.engine.executor.execute(&ctx).await {
        report(&ctx, &outcome);
        seat.engine.settler.settle(&ctx, outcome).await;
    }
    seat.is_done = true;
    let engine = Arc::clone(&seat.engine);
    if ctx.inner().thread.abandon(seat).is_none() {
        tracing::warn!(
            job.id = %ctx.id(), job.kind = %ctx.kind(),
            "a blocking handler goes on after its attempt has ended; its slot stays occupied until it returns"
        );
        engine.quiet.notify_waiters();
    }
}

/// Says how an attempt ended. Never what was in it.
fn report(ctx: &Ctx, outcome: &Outcome) {
    let (id, kind) = (ctx.id(), ctx.kind());
    match outcome {
        // Whether it has completed is known when it is settled.
        Outcome::Completed { .. } if ctx.inner().within.get() != Completion::Engine => {}
        Outcome::Completed { .. } => tracing::debug!(job.id = %id, job.kind = %kind, "completed"),
        Outcome::Retry { failure } | Outcome::RetryAfter { failure, .. } => {
            tracing::warn!(job.id = %id, job.kind = %kind, error = failure.text, "failed");
        }
        Outcome::Ambiguous { failure } => {
            tracing::warn!(job.id = %id, job.kind = %kind, error = failure.text, "failed, its effect is unknown");
        }
        Outcome::Fail { failure } => {
            tracing::warn!(job.id = %id, job.kind = %kind, error = failure.text, "failed for good");
        }
        other => tracing::debug!(job.id = %id, job.kind = %kind, outcome = ?other, "ended"),
    }
}

/// A taken slot. Dropping it frees the slot and starts the next attempt.
pub(crate) struct Seat {
    engine: Arc<Engine>,
    seat: usize,
    /// The attempt came to its end and its outcome was handed in.
    is_done: bool,
}

impl Drop for Seat {
    fn drop(&mut self) {
        let unfinished = if self.is_done { None } else { self.engine.floor().sitting(self.seat) };
        if let Some(ctx) = unfinished.filter(|_| std::thread::panicking()) {
            // Only a defect in the engine gets here; even then the job must not stay with us for ever.
            let engine = Arc::clone(&self.engine);
            let failure =
                Failure { cause: Cause::Panic, text: "the worker panicked around the attempt".into() };
            let outcome = Outcome::Retry { failure };
            self.engine.runtime.spawn(async move { engine.settler.settle(&ctx, outcome).await });
        }
        let (freed, start) = {
            let mut floor = self.engine.floor();
            let freed = floor.finish(self.seat);
            // A runtime that ends drops attempts; the next one would only be dropped as well.
            (freed, if self.is_done { floor.next() } else { None })
        };
        if let Some(start) = start {
            self.engine.launch(start);
        }
        match freed {
            Freed::Fed if self.is_done => {}
            Freed::Fed | Freed::Hungry => self.engine.hungry.notify_one(),
            Freed::Closed => self.engine.quiet.notify_waiters(),
        }
    }
}
