//! A worker's own say about how long a job waits after an attempt that failed, instead of the job's policy.
//!
//! Asked in one place, where an outcome becomes what the store is told, so that it holds for errors, panics and timeouts
//! alike, and for handlers that hold their thread.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::judge::{NextDue, Transition};
use windlass_core::outcome::Ending;
use windlass_core::{JobId, Name, State};

use crate::ctx::Ctx;
use crate::panicked::catch;

type Delay = dyn Fn(&Failed<'_>) -> Option<Duration> + Send + Sync;

/// An attempt that failed and is followed by another: what [`Worker::backoff`](crate::Worker::backoff) decides by.
#[derive(Debug, Clone, Copy)]
pub struct Failed<'a> {
    ctx: &'a Ctx,
    ending: Ending,
    error: &'a str,
    delay: Duration,
}

impl Failed<'_> {
    /// The job.
    pub fn id(&self) -> JobId {
        self.ctx.id()
    }

    /// Its kind.
    pub fn kind(&self) -> &Name {
        self.ctx.kind()
    }

    /// Its queue.
    pub fn queue(&self) -> &Name {
        self.ctx.queue()
    }

    /// The number of the attempt that failed, from 1.
    pub fn attempt(&self) -> u32 {
        self.ctx.attempt()
    }

    /// How it failed: [`Ending::Failed`], [`Ending::Panicked`], [`Ending::TimedOut`] or [`Ending::Ambiguous`].
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// The text of the error.
    pub fn error(&self) -> &str {
        self.error
    }

    /// How long the job waits by its own policy, jitter included.
    pub fn delay(&self) -> Duration {
        self.delay
    }
}

/// What a worker says about delays; nothing by default.
#[derive(Clone, Default)]
pub(crate) struct Backoff(Option<Arc<Delay>>);

impl Backoff {
    pub(crate) fn new(delay: impl Fn(&Failed<'_>) -> Option<Duration> + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(delay)))
    }

    /// Changes when a job comes back, if it comes back because its attempt failed.
    pub(crate) fn apply(&self, ctx: &Ctx, transition: &mut Transition) {
        let (Some(ask), NextDue::After(delay)) = (&self.0, transition.due) else { return };
        if ctx.kind().is_internal() {
            return;
        }
        let ending = transition.ending;
        if !matches!(ending, Ending::Failed | Ending::Panicked | Ending::TimedOut | Ending::Ambiguous) {
            return;
        }
        let error = transition.error.as_deref().unwrap_or_default();
        match catch(|| ask(&Failed { ctx, ending, error, delay })) {
            Ok(Some(delay)) => {
                transition.state = if delay.is_zero() { State::Ready } else { State::Scheduled };
                transition.due = NextDue::After(delay);
                transition.counters.backoff = delay;
            }
            Ok(None) => {}
            Err(panic) => {
                tracing::error!(
                    job.id = %ctx.id(), job.kind = %ctx.kind(), error = panic.text(),
                    "the worker's backoff panicked; the job waits as its own policy says"
                );
                panic.forget();
            }
        }
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Backoff").field(&self.0.is_some()).finish()
    }
}
