//! The judge: what becomes of a job when an attempt ends. Pure, so that a table of cases covers it, and the
//! only place where policy is decided. Stores apply its [`Transition`] if the fence still holds.
//!
//! It sees durations only, never a clock: the store turns them into instants.

mod transition;

use std::time::Duration;

use crate::job::{Counters, Facts};
use crate::outcome::{Cause, Ending, Failure, Outcome, Reason};
use crate::state::State;
pub use transition::{NextDue, Transition};

/// Decides what becomes of a running job. `dice` is a random number in `0.0..1.0`, used for jitter.
pub fn judge(facts: &Facts, outcome: Outcome, dice: f64) -> Transition {
    let counters = facts.counters;
    match outcome {
        Outcome::Completed { output } => {
            Transition { output, ..Transition::end(counters, State::Completed, None, Ending::Completed) }
        }
        Outcome::Retry { failure } => retry(facts, counters, None, failure, dice),
        Outcome::RetryAfter { after, failure } => retry(facts, counters, Some(after), failure, dice),
        Outcome::Ambiguous { failure } => ambiguous(facts, failure, dice),
        Outcome::Fail { failure } => {
            let ending =
                if failure.cause == Cause::Codec { Ending::Undecodable } else { Ending::FailedForGood };
            Transition::end(counters, State::Dead, Some(Reason::Permanent), ending).because(failure.text)
        }
        Outcome::Snooze { after } => {
            Transition::put_back(given_back(counters), NextDue::After(after), Ending::Snoozed)
        }
        Outcome::Discard { why } => {
            Transition::end(counters, State::Cancelled, Some(Reason::Discarded), Ending::Discarded)
                .because(why)
        }
        Outcome::Cancelled => {
            Transition::end(counters, State::Cancelled, Some(Reason::Requested), Ending::Cancelled)
        }
        Outcome::Returned => Transition::put_back(given_back(counters), NextDue::Keep, Ending::Returned),
        Outcome::Stalled { worker } => stalled(facts, &worker),
        Outcome::Unreadable { why } => {
            Transition::end(counters, State::Dead, Some(Reason::Unreadable), Ending::Unreadable).because(why)
        }
    }
}

/// An attempt that did not really happen is not counted.
fn given_back(counters: Counters) -> Counters {
    Counters { attempt: counters.attempt.saturating_sub(1), ..counters }
}

fn retry(
    facts: &Facts,
    counters: Counters,
    after: Option<Duration>,
    failure: Failure,
    dice: f64,
) -> Transition {
    let ending = match failure.cause {
        Cause::Error => Ending::Failed,
        Cause::Panic => Ending::Panicked,
        Cause::Timeout => Ending::TimedOut,
        Cause::Codec => Ending::Undecodable,
    };
    retry_as(ending, facts, counters, after, dice).because(failure.text)
}

fn retry_as(
    ending: Ending,
    facts: &Facts,
    counters: Counters,
    after: Option<Duration>,
    dice: f64,
) -> Transition {
    if counters.attempt >= facts.spec.retry.attempts_max() {
        return Transition::end(counters, State::Dead, Some(Reason::AttemptsExhausted), ending);
    }
    let delay = after.unwrap_or_else(|| facts.spec.retry.delay(counters.attempt, counters.backoff, dice));
    let counters = Counters { backoff: delay, ..counters };
    Transition::put_back(counters, NextDue::After(delay), ending)
}

fn ambiguous(facts: &Facts, failure: Failure, dice: f64) -> Transition {
    let counters = Counters { ambiguous: facts.counters.ambiguous.saturating_add(1), ..facts.counters };
    if counters.ambiguous >= facts.spec.retry.ambiguous_max() {
        return Transition::end(counters, State::Dead, Some(Reason::Ambiguous), Ending::Ambiguous)
            .because(failure.text);
    }
    retry_as(Ending::Ambiguous, facts, counters, None, dice).because(failure.text)
}

/// A lease that was lost while the attempt ran used the attempt that the claim counted, and is counted apart as
/// well. The job goes back with a growing pause: a job that kills its worker must not take the next one down at
/// once, and an outcome that comes late still finds the job unclaimed.
fn stalled(facts: &Facts, worker: &str) -> Transition {
    let counters = Counters { stalls: facts.counters.stalls.saturating_add(1), ..facts.counters };
    let next = if counters.stalls > facts.spec.stalls_max {
        Transition::end(counters, State::Dead, Some(Reason::Stalled), Ending::Stalled)
    } else if counters.attempt >= facts.spec.retry.attempts_max() {
        Transition::end(counters, State::Dead, Some(Reason::AttemptsExhausted), Ending::Stalled)
    } else {
        let pause = NextDue::After(stall_pause(counters.stalls));
        Transition::put_back(counters, pause, Ending::Stalled)
    };
    next.because(format!("worker {worker:?} lost its lease while the attempt ran"))
}

/// How long a job rests after so many stalls: 1 s, 4 s, 16 s and so on, up to [`STALL_PAUSE_MAX`].
pub fn stall_pause(stalls: u32) -> Duration {
    let factor = 4u32.saturating_pow(stalls.saturating_sub(1).min(16));
    STALL_PAUSE_FIRST.saturating_mul(factor).min(STALL_PAUSE_MAX)
}

const STALL_PAUSE_FIRST: Duration = Duration::from_secs(1);
/// The longest rest after a stall.
pub const STALL_PAUSE_MAX: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests;
