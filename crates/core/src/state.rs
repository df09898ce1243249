//! The states of a job and every move between them.
//!
//! ```text
//!                       ┌────────── retry, snooze ──────────┐
//!                       ▼                                    │
//!  enqueue ──▶ scheduled ──promote──▶ ready ──claim──▶ running ──settle──▶ completed
//!     │                                ▲  ▲               │  ├───────────▶ dead       (the dead-letter queue)
//!     └──────▶ blocked ──release───────┘  └──reap, return─┘  └───────────▶ cancelled
//! ```
//!
//! Three more moves start from outside a running attempt: a waiting job may be cancelled or expire (dead), a
//! person may send a dead or cancelled one back to ready, and a job that was reaped and not claimed since may
//! still be ended by the attempt that was given up on. No store changes a state along an edge that
//! [`State::may_become`] does not list.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Where a job is in its life. The numbers are stored and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum State {
    /// Waits for other jobs, a signal or a hold.
    Blocked = 0,
    /// Waits for its time.
    Scheduled = 1,
    /// May be claimed.
    Ready = 2,
    /// A worker has it, under its lease.
    Running = 3,
    /// Done.
    Completed = 4,
    /// Given up; the dead-letter queue.
    Dead = 5,
    /// Ended on purpose.
    Cancelled = 6,
}

impl State {
    /// All states, in the order of a job's life.
    pub const ALL: [Self; 7] = [
        Self::Blocked,
        Self::Scheduled,
        Self::Ready,
        Self::Running,
        Self::Completed,
        Self::Dead,
        Self::Cancelled,
    ];

    /// The states that nothing but a person's replay leaves.
    pub const TERMINAL: [Self; 3] = [Self::Completed, Self::Dead, Self::Cancelled];

    /// Whether the job has come to its end.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Dead | Self::Cancelled)
    }

    /// Whether the job has not been claimed and could still start.
    pub const fn is_waiting(self) -> bool {
        matches!(self, Self::Blocked | Self::Scheduled | Self::Ready)
    }

    /// Whether the drawing has an edge from this state to `next`.
    pub const fn may_become(self, next: Self) -> bool {
        use State::{Blocked, Cancelled, Completed, Dead, Ready, Running, Scheduled};
        match self {
            Blocked => matches!(next, Ready | Dead | Cancelled),
            Scheduled => matches!(next, Ready | Completed | Dead | Cancelled),
            Ready => matches!(next, Running | Completed | Dead | Cancelled),
            Running => matches!(next, Ready | Scheduled | Completed | Dead | Cancelled),
            Dead | Cancelled => matches!(next, Ready),
            Completed => false,
        }
    }

    /// The word used in the CLI, in JSON and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Blocked => "blocked",
            Self::Scheduled => "scheduled",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Dead => "dead",
            Self::Cancelled => "cancelled",
        }
    }

    /// The number to store.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The state of a stored number.
    pub fn from_code(code: i64) -> Option<Self> {
        usize::try_from(code).ok().and_then(|index| Self::ALL.get(index)).copied()
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A text that names no state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a state: use blocked, scheduled, ready, running, completed, dead or cancelled")]
pub struct StateError(String);

impl FromStr for State {
    type Err = StateError;
    fn from_str(text: &str) -> Result<Self, StateError> {
        Self::ALL
            .into_iter()
            .find(|state| state.as_str() == text)
            .ok_or_else(|| StateError(text.chars().take(64).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_round_trip() {
        for state in State::ALL {
            assert_eq!(State::from_code(i64::from(state.code())), Some(state));
            assert_eq!(state.as_str().parse::<State>().unwrap(), state);
        }
        assert_eq!(State::from_code(7), None);
        assert_eq!(State::from_code(-1), None);
    }

    #[test]
    fn only_what_was_claimed_completes_and_completed_is_final() {
        for from in State::ALL {
            // Ready and scheduled: by the late outcome of an attempt that was reaped.
            let may_complete = matches!(from, State::Running | State::Ready | State::Scheduled);
            assert_eq!(from.may_become(State::Completed), may_complete);
            assert!(!State::Completed.may_become(from));
            assert!(!from.may_become(State::Blocked), "nothing is blocked after it was accepted");
        }
    }
}
