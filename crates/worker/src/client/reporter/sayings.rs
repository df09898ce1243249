//! What one attempt has said of itself, and how much of it the store has.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::RecordWrite;
use windlass_core::store::{AttemptWrite, Progress};
use windlass_core::{Bytes, StoreError};

use crate::attempt_log::chunks::Chunks;
use crate::attempt_log::stored::{Line, encode, key};
use crate::attempt_log::{LogLevel, LogLimits};
use crate::ctx::Ctx;
use crate::ctx::within::Completion;

/// An attempt that says more than is kept writes its newest lines no more often than this.
const CHATTY_INTERVAL: Duration = Duration::from_secs(2);

/// The sayings of one attempt. Made with the first of them: most attempts have none.
#[derive(Debug)]
pub(crate) struct Sayings {
    state: Mutex<State>,
    limits: LogLimits,
    /// A write has ended.
    changed: Notify,
}

#[derive(Debug)]
struct State {
    /// The newest report that no write brings yet.
    progress: Option<Bytes>,
    /// The one that is on its way.
    progress_in_flight: Option<Bytes>,
    log: Chunks,
    log_written: Option<Instant>,
    /// The reporter has the attempt among those that wait.
    is_waiting: bool,
    is_in_flight: bool,
    /// The job has gone to another attempt, or the attempt has ended: nothing counts any more.
    is_over: bool,
    /// Writes that failed, and why the last one did.
    failures: u64,
    failure: Option<Arc<StoreError>>,
}

/// What one write brings of an attempt.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) progress: Option<Progress>,
    pub(super) lines: Option<AttemptWrite>,
}

/// How a write of an attempt ended.
#[derive(Debug)]
pub(super) enum Ended {
    Written,
    /// The job has gone to another attempt.
    Fenced,
    /// It is not wanted, and does not come back.
    Refused(Arc<StoreError>),
    /// It may be written later.
    Failed(Arc<StoreError>),
}

/// How far an attempt is.
#[derive(Debug)]
pub(crate) enum Standing {
    /// The store has everything.
    Told,
    /// It lacks something, after so many failures.
    Untold(u64, Option<Arc<StoreError>>),
    /// Nothing counts any more.
    Over,
}

impl Sayings {
    pub(crate) fn new(limits: LogLimits) -> Self {
        let state = State {
            progress: None,
            progress_in_flight: None,
            log: Chunks::new(limits.bytes_max),
            log_written: None,
            is_waiting: false,
            is_in_flight: false,
            is_over: false,
            failures: 0,
            failure: None,
        };
        Self { state: Mutex::new(state), limits, changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A report takes the place of the one before. Answers whether the reporter is to be told; nothing when it does not count
    /// any more.
    pub(crate) fn report(&self, progress: Bytes) -> Option<bool> {
        let mut state = self.state();
        if state.is_over {
            return None;
        }
        state.progress = Some(progress);
        Some(state.begin_to_wait())
    }

    /// Adds a line. Answers whether the reporter is to be told.
    pub(crate) fn say(&self, level: LogLevel, text: String) -> bool {
        let mut state = self.state();
        if state.is_over || self.limits.bytes_max == 0 {
            return false;
        }
        state.log.push(SystemTime::now(), level, text);
        state.begin_to_wait()
    }

    pub(crate) fn standing(&self) -> Standing {
        let state = self.state();
        if state.is_over {
            Standing::Over
        } else if state.is_in_flight || state.is_due() {
            Standing::Untold(state.failures, state.failure.clone())
        } else {
            Standing::Told
        }
    }

    /// Waits for the end of a write; see [`Notify::notified`].
    pub(crate) fn changed(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Nothing counts from now on.
    pub(crate) fn end(&self) {
        self.state().is_over = true;
        self.changed.notify_waiters();
    }

    /// Takes what is to be written. Lines of an attempt that says too much stay for a while, unless it waits for the write.
    pub(super) fn take(&self, ctx: &Ctx, is_urgent: bool) -> Taken {
        let mut state = self.state();
        if !is_urgent {
            state.is_waiting = false;
        }
        if state.is_over || state.is_in_flight || !is_urgent && is_in_transaction(ctx) {
            return Taken::default();
        }
        let (queue, id, fence) = (ctx.queue().clone(), ctx.id(), ctx.fence());
        state.progress_in_flight = state.progress.take();
        let progress = state.progress_in_flight.clone();
        let progress = progress.map(|progress| Progress { queue: queue.clone(), id, fence, progress });
        let is_early = state.log_written.is_some_and(|at| at.elapsed() < CHATTY_INTERVAL);
        let is_held = !is_urgent && is_early && state.log.is_past_head();
        let lines = if is_held { None } else { state.log.take() };
        let lines = lines.map(|taken| {
            state.log_written = Some(Instant::now());
            let puts = taken.puts.iter().map(|(chunk, lines)| self.put(ctx, *chunk, lines));
            let removed =
                taken.removed.iter().map(|chunk| RecordWrite::remove(key(id, fence.number, *chunk)));
            let then = FollowUps { jobs: Vec::new(), records: puts.chain(removed).collect() };
            AttemptWrite { queue, id, fence, transition: None, then }
        });
        state.is_in_flight = progress.is_some() || lines.is_some();
        Taken { progress, lines }
    }

    /// Whether an attempt of which nothing was taken waits on.
    pub(super) fn waits_on(&self, ctx: &Ctx) -> bool {
        let mut state = self.state();
        !state.is_over && !is_in_transaction(ctx) && state.is_due() && state.begin_to_wait()
    }

    fn put(&self, ctx: &Ctx, chunk: u32, lines: &[Line]) -> RecordWrite {
        let key = key(ctx.id(), ctx.fence().number, chunk);
        RecordWrite::put(key, encode(ctx.attempt(), lines)).ttl(self.limits.ttl)
    }

    /// What was taken is written, or not. Answers whether something is left to be written.
    pub(super) fn ended(&self, ctx: &Ctx, progress: Option<Ended>, lines: Option<Ended>) -> bool {
        let mut state = self.state();
        state.is_in_flight = false;
        let reported = state.progress_in_flight.take();
        match progress {
            Some(Ended::Failed(error)) => {
                state.fail(error);
                // Unless there is a newer one.
                state.progress = state.progress.take().or(reported);
            }
            Some(Ended::Fenced) => state.is_over = true,
            Some(Ended::Written | Ended::Refused(_)) | None => {}
        }
        match lines {
            Some(Ended::Failed(error)) => {
                state.fail(error);
                state.log.failed();
            }
            Some(Ended::Fenced) => state.is_over = true,
            Some(Ended::Written | Ended::Refused(_)) => state.log.written(),
            None => {}
        }
        drop(state);
        let is_left = self.waits_on(ctx);
        self.changed.notify_waiters();
        is_left
    }

    /// The lines that the store may lack, for a transaction that ends the job. They still count as lacking: only its commit
    /// decides, and after that nothing else about the attempt is written.
    pub(crate) fn lacking(&self, ctx: &Ctx) -> Vec<RecordWrite> {
        let lacking = self.state().log.lacking();
        lacking.iter().map(|(chunk, lines)| self.put(ctx, *chunk, lines)).collect()
    }
}

/// Whether a transaction of the handler's decides about the job. It may hold what a write waits for, so only the end of the
/// attempt is written for.
fn is_in_transaction(ctx: &Ctx) -> bool {
    ctx.inner().within.get() != Completion::Engine
}

impl State {
    /// Whether no write is on its way that brings all.
    fn is_due(&self) -> bool {
        self.progress.is_some() || self.log.is_due()
    }

    /// Whether it did not wait before.
    fn begin_to_wait(&mut self) -> bool {
        !std::mem::replace(&mut self.is_waiting, true)
    }

    fn fail(&mut self, error: Arc<StoreError>) {
        self.failures += 1;
        self.failure = Some(error);
    }
}
