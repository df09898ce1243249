//! Tells the store which attempts have begun, so that only those count as stalled when their worker dies.
//!
//! An attempt that ends within moments is never told of: a write for each would cost as much as the job. What has run
//! for [`Config::after`] is told of, together with all others that have. So a handler that kills its process at once may
//! do so untold of: the job comes back as if it had never begun, but with a claim that did not count, and a job with
//! such a history is told of *before* its handler starts. It gets away with it once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use windlass_core::backoff::with_retries;
use windlass_core::store::{Begin, Settled};
use windlass_core::{Outcome, State};

use crate::attempts::Attempts;
use crate::client::Client;
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::error::{Error, Result};
use crate::health::Part;
use crate::retries::{PAUSE_MAX, endless};
use crate::shutdown::Shutdown;
use crate::supervise::{Background, Board};

/// How attempts are told of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// How long an attempt runs before the store is told that it has begun.
    pub(crate) after: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { after: Duration::from_millis(50) }
    }
}

/// Tells the store of single attempts; wakes the [`Beginner`] when one starts while it sleeps.
pub(crate) struct Begins {
    client: Client,
    board: Arc<Board>,
    is_awake: AtomicBool,
    started: Notify,
}

impl Begins {
    pub(crate) fn new(client: Client, board: Arc<Board>) -> Self {
        Self { client, board, is_awake: AtomicBool::new(false), started: Notify::new() }
    }

    /// An attempt starts.
    pub(crate) fn started(&self) {
        if !self.is_awake.load(Ordering::Relaxed) {
            self.started.notify_one();
        }
    }

    /// Tells the store that an attempt has begun, together with all others that do.
    async fn tell(&self, ctx: &Ctx) -> Result<Settled> {
        self.noted(self.client.begin(begun(ctx)).await)
    }

    /// As [`tell`](Self::tell), where the answer decides whether the handler starts. Among others a job whose row is
    /// locked is passed over as if it were fenced; alone it is waited for.
    async fn tell_alone(&self, ctx: &Ctx) -> Result<Settled> {
        match self.tell(ctx).await {
            Ok(Settled::Fenced) => {
                let told = self.client.store().begin([begun(ctx)].into()).await;
                let answer = told.map(|answers| answers.into_iter().next().unwrap_or(Settled::Fenced));
                self.noted(answer.map_err(Error::from))
            }
            told => told,
        }
    }

    fn noted(&self, told: Result<Settled>) -> Result<Settled> {
        match &told {
            Ok(_) => self.board.success(Part::Beginner),
            Err(error) => {
                self.board.failure(Part::Beginner, &error.to_string());
            }
        }
        told
    }

    /// Tells the store that an attempt begins before it does, for a job with a history. Answers whether it may begin: not
    /// if the job has gone to another attempt.
    ///
    /// # Errors
    /// The outcome of the attempt, when the store cannot be told or the attempt is told to stop meanwhile; nothing when
    /// there is none to record.
    pub(crate) async fn tell_first(&self, ctx: &Ctx) -> Result<bool, Option<Outcome>> {
        set_told(ctx);
        let stopped = tokio::select! {
            told = self.tell_alone(ctx) => match told {
                Ok(answer) => return Ok(answer == Settled::Applied(State::Running)),
                // The slot is for jobs of queues that answer.
                Err(_untold) => Stop::Now,
            },
            reason = ctx.inner().control.stronger_than(Stop::No) => reason,
        };
        Err(match stopped {
            Stop::Lost | Stop::Gone => None,
            Stop::Requested => Some(Outcome::Cancelled),
            _ => Some(Outcome::Returned),
        })
    }
}

/// Tells the store of attempts that have run long enough.
pub(crate) struct Beginner {
    config: Config,
    attempts: Arc<Attempts>,
    board: Arc<Board>,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Attempts that the store is being told of.
    pub(crate) telling: usize,
}

impl Beginner {
    pub(crate) fn new(config: Config, attempts: Arc<Attempts>, board: Arc<Board>) -> Self {
        Self { config, attempts, board }
    }

    /// Tells the store of attempts that have run long enough. Each waits for its own answer: a queue that does not
    /// answer holds up no other.
    pub(crate) fn run_once(&self) -> Summary {
        let is_old = |ctx: &&Ctx| ctx.begun_at().is_some_and(|at| at.elapsed() >= self.config.after);
        let mut telling = 0;
        for ctx in self.attempts.slots().running().filter(|ctx| !is_told(ctx)).filter(is_old) {
            set_told(ctx);
            telling += 1;
            let (attempts, ctx) = (Arc::clone(&self.attempts), ctx.clone());
            self.attempts.runtime.spawn(async move {
                let (attempts, ctx) = (&attempts, &ctx);
                let pause = |_error: &Error, pause: Duration| async move {
                    tokio::time::sleep(pause).await;
                    attempts.runs(ctx)
                };
                // One that is fenced has ended, is lost, or has its row locked and is about to end.
                let mut retries = endless().refusals_max(u32::MAX);
                let _ = with_retries(&mut retries, || attempts.begins.tell(ctx), pause).await;
            });
        }
        Summary { telling }
    }

    fn runs_untold(&self) -> bool {
        self.attempts.slots().runs_untold()
    }
}

impl Background for Beginner {
    const PART: Part = Part::Beginner;

    /// Goes on until the worker stops and nothing runs any more; sleeps while all that runs is told of.
    async fn run(self: &Arc<Self>, mut shutdown: Shutdown) {
        let begins = &self.attempts.begins;
        loop {
            let ended = self.attempts.wakers.shutdown.notified();
            tokio::pin!(ended);
            // Registered before the slots are looked at, so that the end of the last attempt is not missed.
            ended.as_mut().enable();
            self.run_once();
            if !self.runs_untold() {
                begins.is_awake.store(false, Ordering::Relaxed);
                self.board.expect_within(Part::Beginner, None);
                // One that started before the flag was seen keeps the loop awake.
                if !self.runs_untold() {
                    if !shutdown.is_running() {
                        return;
                    }
                    tokio::select! {
                        () = begins.started.notified() => {}
                        () = shutdown.changed() => {}
                    }
                }
                begins.is_awake.store(true, Ordering::Relaxed);
            }
            self.board.expect_within(Part::Beginner, Some(PAUSE_MAX));
            let is_running = shutdown.is_running();
            // A worker that ends does not wait for the sleep: its last attempt may be over.
            tokio::select! {
                () = tokio::time::sleep(self.config.after) => {}
                () = shutdown.changed(), if is_running => {}
                () = ended, if !is_running => {}
            }
        }
    }
}

/// Whether the store knows that an attempt has begun, or is being told.
pub(crate) fn is_told(ctx: &Ctx) -> bool {
    ctx.inner().is_begun_told.load(Ordering::Relaxed)
}

fn set_told(ctx: &Ctx) {
    ctx.inner().is_begun_told.store(true, Ordering::Relaxed);
}

fn begun(ctx: &Ctx) -> Begin {
    Begin { queue: ctx.queue().clone(), id: ctx.id(), fence: ctx.fence() }
}
