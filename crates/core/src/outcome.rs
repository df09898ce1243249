//! How an attempt can end, as the worker (or, for a lost lease, the reaper) reports it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// What a worker reports about one attempt. [`judge`](crate::judge()) turns it into the next state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The handler succeeded.
    Completed {
        /// What it returned, encoded.
        output: Option<Bytes>,
    },
    /// A transient error, a panic or a timeout: try again by the job's policy.
    Retry {
        /// What went wrong.
        failure: Failure,
    },
    /// Try again, but no sooner than this. Uses an attempt.
    RetryAfter {
        /// How long to wait.
        after: Duration,
        /// What went wrong.
        failure: Failure,
    },
    /// It is not known whether the effect happened. Retried by the policy, but only a few times.
    Ambiguous {
        /// What went wrong.
        failure: Failure,
    },
    /// A permanent error: dead now.
    Fail {
        /// What went wrong.
        failure: Failure,
    },
    /// Not yet: come back later. Costs no attempt.
    Snooze {
        /// How long to wait.
        after: Duration,
    },
    /// No longer wanted: cancelled, as intended.
    Discard {
        /// Why.
        why: String,
    },
    /// The attempt stopped because the job was asked to cancel.
    Cancelled,
    /// Handed back unfinished, at shutdown or before it was started. Costs no attempt.
    Returned,
    /// The worker's lease was lost while the attempt ran.
    Stalled {
        /// The label of the worker.
        worker: String,
    },
    /// What is stored of the job cannot be read: no attempt of it can begin.
    Unreadable {
        /// What is wrong with it.
        why: String,
    },
}

/// An error of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What kind of event it was.
    pub cause: Cause,
    /// The text that people read; cut to the error cap before it is stored.
    pub text: String,
}

impl Failure {
    /// An error that the handler returned.
    pub fn error(text: impl Into<String>) -> Self {
        Self { cause: Cause::Error, text: text.into() }
    }
}

/// What kind of event ended an attempt badly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The handler returned an error.
    Error,
    /// The handler panicked.
    Panic,
    /// The attempt took longer than its timeout.
    Timeout,
    /// The payload does not decode, or the output does not encode or is too large.
    Codec,
}

/// How an attempt ended, as its record keeps it. The words are stored and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// The handler succeeded.
    Completed,
    /// The handler returned a transient error, or asked to be retried later.
    Failed,
    /// The handler returned a permanent error.
    FailedForGood,
    /// The handler could not tell whether its effect happened.
    Ambiguous,
    /// The handler panicked.
    Panicked,
    /// The attempt took longer than its timeout.
    TimedOut,
    /// Payload or output did not fit.
    Undecodable,
    /// The handler asked to come back later.
    Snoozed,
    /// The handler found the job no longer wanted.
    Discarded,
    /// Stopped on request.
    Cancelled,
    /// Handed back unfinished.
    Returned,
    /// The lease was lost.
    Stalled,
    /// What was stored of the job could not be read.
    Unreadable,
}

impl Ending {
    /// All endings.
    pub const ALL: [Self; 13] = [
        Self::Completed,
        Self::Failed,
        Self::FailedForGood,
        Self::Ambiguous,
        Self::Panicked,
        Self::TimedOut,
        Self::Undecodable,
        Self::Snoozed,
        Self::Discarded,
        Self::Cancelled,
        Self::Returned,
        Self::Stalled,
        Self::Unreadable,
    ];

    /// The word to store and show.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::FailedForGood => "failed_for_good",
            Self::Ambiguous => "ambiguous",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed_out",
            Self::Undecodable => "undecodable",
            Self::Snoozed => "snoozed",
            Self::Discarded => "discarded",
            Self::Cancelled => "cancelled",
            Self::Returned => "returned",
            Self::Stalled => "stalled",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Ending {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|ending| ending.as_str() == text).ok_or(())
    }
}

/// Why a job is dead or cancelled. The words are stored and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Every attempt was used.
    AttemptsExhausted,
    /// A permanent error.
    Permanent,
    /// Too many attempts with an unknown effect.
    Ambiguous,
    /// Too many lost leases.
    Stalled,
    /// Not started before its expiry.
    Expired,
    /// A caller asked for it.
    Requested,
    /// The handler found the job no longer wanted.
    Discarded,
    /// What is stored of it cannot be read.
    Unreadable,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 8] = [
        Self::AttemptsExhausted,
        Self::Permanent,
        Self::Ambiguous,
        Self::Stalled,
        Self::Expired,
        Self::Requested,
        Self::Discarded,
        Self::Unreadable,
    ];

    /// The word to store and show.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AttemptsExhausted => "attempts_exhausted",
            Self::Permanent => "permanent",
            Self::Ambiguous => "ambiguous",
            Self::Stalled => "stalled",
            Self::Expired => "expired",
            Self::Requested => "requested",
            Self::Discarded => "discarded",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_words_round_trip() {
        for ending in Ending::ALL {
            assert_eq!(ending.as_str().parse(), Ok(ending));
        }
        for reason in Reason::ALL {
            assert_eq!(reason.as_str().parse(), Ok(reason));
        }
    }
}
