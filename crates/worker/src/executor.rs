//! Runs one attempt, as a pipe of steps: layers (decode, extract, run, classify, encode) under watch, until
//! it returns or is stopped, then classified.
//!
//! Nothing here touches the store. A handler can be late, panic, or be dropped; what comes out is always one
//! [`Outcome`], or nothing when the job has gone to another worker.

mod watched;

use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::time::Sleep;
use windlass_core::Outcome;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::size::bounded_text;

use self::watched::Watched;
pub(crate) use self::watched::warn_slow_poll;
use crate::batching::Batches;
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::panicked::Panicked;
use crate::registry::Attempt;

/// Runs attempts.
#[derive(Debug)]
pub(crate) struct Executor {
    attempt: Attempt,
    /// The handlers that run many attempts in one call.
    pub(crate) batches: Batches,
    /// How long an attempt that was told to stop may take.
    grace: Duration,
    /// How long a handler may hold a runtime thread without a warning.
    slow_poll: Duration,
}

/// How a handler ended.
enum End {
    Returned(Outcome),
    Panicked(Panicked),
    /// It was told to stop, and did not in time.
    Dropped,
}

impl Executor {
    pub(crate) fn new(attempt: Attempt, batches: Batches, grace: Duration, slow_poll: Duration) -> Self {
        Self { attempt, batches, grace, slow_poll }
    }

    /// Runs an attempt to its end. When its job was lost meanwhile, only work that was done comes back: the store
    /// may take it late.
    pub(crate) async fn execute(&self, ctx: &Ctx) -> Option<Outcome> {
        // On busy threads an attempt may wait for its first poll longer than its lease lives.
        if ctx.inner().control.reason() != Stop::No {
            return classify(ctx, End::Dropped);
        }
        let mut handler = Watched::new(ctx, &self.attempt, self.slow_poll);
        let end = self.until_stopped(ctx, &mut handler).await;
        handler.dispose();
        classify(ctx, end)
    }

    /// Waits for the handler, and after a stop signal for its grace.
    async fn until_stopped(&self, ctx: &Ctx, handler: &mut Watched<'_>) -> End {
        let control = &ctx.inner().control;
        let mut heard = Stop::No;
        // Of the grace, once there was a stop signal.
        let mut deadline = None;
        loop {
            let is_over =
                async { if heard == Stop::No { timed_out(ctx).await } else { until(deadline).await } };
            tokio::select! {
                biased;
                end = &mut *handler => return match end {
                    Ok(outcome) => End::Returned(outcome),
                    Err(panic) => End::Panicked(panic),
                },
                reason = control.stronger_than(heard) => {
                    if reason >= Stop::Now {
                        return End::Dropped;
                    }
                    if heard == Stop::No {
                        deadline = Instant::now().checked_add(self.grace);
                    }
                    heard = reason;
                }
                () = is_over => {
                    if heard != Stop::No {
                        return End::Dropped;
                    }
                    heard = Stop::Timeout;
                    control.stop(heard);
                    deadline = Instant::now().checked_add(self.grace);
                }
            }
        }
    }
}

/// Waits until the attempt has used its time. When that is may change while it waits: see [`Ctx::deadline`].
async fn timed_out(ctx: &Ctx) {
    if ctx.inner().timeout.is_none() {
        return std::future::pending().await;
    }
    let (mut sleep, mut set) = (pin!(None::<Sleep>), None);
    std::future::poll_fn(|context| {
        let deadline = ctx.deadline();
        if set != deadline {
            set = deadline;
            sleep.set(deadline.map(|deadline| tokio::time::sleep_until(deadline.into())));
        }
        sleep.as_mut().as_pin_mut().map_or(Poll::Pending, |sleep| sleep.poll(context))
    })
    .await;
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline.into()).await,
        None => std::future::pending().await,
    }
}

/// What becomes of an attempt that was told to stop and whose handler could not even be dropped.
pub(crate) fn dropped(ctx: &Ctx) -> Option<Outcome> {
    classify(ctx, End::Dropped)
}

/// The outcome of an ending, given why the attempt was stopped. Work that was done counts in any case; an error of an
/// attempt that was told to stop is put down to the stop.
fn classify(ctx: &Ctx, end: End) -> Option<Outcome> {
    let cap = ctx.inner().job.caps.error;
    let stop = ctx.inner().control.reason();
    let outcome = match end {
        End::Returned(outcome) => outcome,
        End::Panicked(panic) => {
            let failure = failure(Cause::Panic, &panic.text(), cap);
            panic.forget();
            Outcome::Retry { failure }
        }
        End::Dropped => match stop {
            Stop::Timeout => Outcome::Retry { failure: failure(Cause::Timeout, &time_used(ctx), cap) },
            Stop::Requested => Outcome::Cancelled,
            _ => Outcome::Returned,
        },
    };
    match (stop, outcome) {
        (Stop::Gone, _) => None,
        (_, outcome @ Outcome::Completed { .. }) => Some(outcome),
        (Stop::Lost, _) => None,
        (Stop::Requested, _) => Some(Outcome::Cancelled),
        (Stop::Shutdown | Stop::Now, Outcome::Retry { .. } | Outcome::RetryAfter { .. }) => {
            Some(Outcome::Returned)
        }
        (Stop::Timeout, Outcome::Retry { failure }) => {
            Some(Outcome::Retry { failure: late(ctx, failure, cap) })
        }
        (Stop::Timeout, Outcome::RetryAfter { after, failure }) => {
            Some(Outcome::RetryAfter { after, failure: late(ctx, failure, cap) })
        }
        (_, outcome) => Some(outcome),
    }
}

/// The error that a handler returned after its timeout.
fn late(ctx: &Ctx, failed: Failure, cap: usize) -> Failure {
    match failed.cause {
        Cause::Error => failure(Cause::Timeout, &format!("{}: {}", time_used(ctx), failed.text), cap),
        _ => failed,
    }
}

fn time_used(ctx: &Ctx) -> String {
    format!("timed out after {:?}", ctx.inner().timeout.unwrap_or_default())
}

fn failure(cause: Cause, text: &str, cap: usize) -> Failure {
    Failure { cause, text: bounded_text(text, cap) }
}

#[cfg(test)]
mod tests;
