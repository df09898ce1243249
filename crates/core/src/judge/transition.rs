//! What a store is told to write about a running job, and how it is turned into what is written.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::job::Counters;
use crate::outcome::{Ending, Reason};
use crate::size::{TooLarge, bounded_text};
use crate::state::State;
use crate::stored;

/// What a store is told to write about a running job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Transition {
    /// The next state.
    pub state: State,
    /// When the job may start again; meaningful for `ready` and `scheduled`.
    pub due: NextDue,
    /// The counters to write, in full.
    pub counters: Counters,
    /// Why, for `dead` and `cancelled`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// How the attempt is recorded.
    pub ending: Ending,
    /// The error text of the attempt; the store cuts it to the queue's cap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The output, for `completed`.
    #[serde(default, with = "stored::bytes::option", skip_serializing_if = "Option::is_none")]
    pub output: Option<Bytes>,
}

/// When a job that goes back may start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextDue {
    /// As before: it keeps its place in the queue.
    Keep,
    /// This long after the outcome was recorded.
    After(Duration),
}

impl Transition {
    /// This transition, unless it would put back a job that was asked to cancel. The store knows of
    /// the request, the worker may not, so the store asks here when it applies the transition.
    #[must_use]
    pub fn honoring_cancel(mut self, cancel_requested: bool) -> Self {
        if cancel_requested && !self.state.is_terminal() {
            self.state = State::Cancelled;
            self.reason = Some(Reason::Requested);
            self.due = NextDue::Keep;
        }
        self
    }

    /// Fails when the output is above the queue's cap. Tested before anything else is written.
    pub fn check_output(&self, cap: usize) -> Result<(), TooLarge> {
        TooLarge::check("output", self.output.as_ref().map_or(0, Bytes::len), cap)
    }

    /// How long after the write the job is due; nothing when its due instant does not move.
    pub fn delay(&self) -> Option<Duration> {
        match self.due {
            NextDue::After(delay) if self.state.is_waiting() => Some(delay),
            _ => None,
        }
    }

    /// The instant to stamp the end with, for a terminal state.
    pub fn finished_at(&self, now: Timestamp) -> Option<Timestamp> {
        self.state.is_terminal().then_some(now)
    }

    /// The output to store: only what completed has one.
    pub fn kept_output(&self) -> Option<&Bytes> {
        self.output.as_ref().filter(|_| self.state == State::Completed)
    }

    /// Whether the attempt is stored as a record of its own; one that completed is recorded by the job itself.
    pub fn is_recorded(&self) -> bool {
        self.ending != Ending::Completed
    }

    /// The error text of the attempt, cut to the queue's cap.
    pub fn bounded_error(&self, cap: usize) -> Option<String> {
        self.error.as_ref().map(|text| bounded_text(text, cap))
    }

    pub(super) fn put_back(counters: Counters, due: NextDue, ending: Ending) -> Self {
        let state = match due {
            NextDue::After(delay) if !delay.is_zero() => State::Scheduled,
            _ => State::Ready,
        };
        Self { state, due, counters, reason: None, ending, error: None, output: None }
    }

    pub(super) fn end(counters: Counters, state: State, reason: Option<Reason>, ending: Ending) -> Self {
        Self { state, due: NextDue::Keep, counters, reason, ending, error: None, output: None }
    }

    pub(super) fn because(mut self, error: String) -> Self {
        self.error = Some(error);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_back(after: u64) -> Transition {
        let due = NextDue::After(Duration::from_secs(after));
        Transition::put_back(Counters::default(), due, Ending::Failed).because("a\0b".into())
    }

    #[test]
    fn only_a_job_that_goes_back_is_due_anew() {
        let now = Timestamp::from_micros(7);
        assert_eq!(put_back(5).delay(), Some(Duration::from_secs(5)));
        assert_eq!(put_back(0).delay(), Some(Duration::ZERO));
        assert_eq!((put_back(5).honoring_cancel(true).delay(), put_back(5).finished_at(now)), (None, None));
        assert_eq!(put_back(5).honoring_cancel(true).finished_at(now), Some(now));
        let returned = Transition::put_back(Counters::default(), NextDue::Keep, Ending::Returned);
        assert_eq!((returned.delay(), returned.is_recorded()), (None, true));
    }

    #[test]
    fn only_what_completed_has_an_output() {
        let output = Some(Bytes::from_static(b"123"));
        let end = |state, ending| Transition {
            output: output.clone(),
            ..Transition::end(Counters::default(), state, None, ending)
        };
        let completed = end(State::Completed, Ending::Completed);
        assert_eq!((completed.kept_output(), completed.is_recorded()), (output.as_ref(), false));
        assert_eq!(end(State::Dead, Ending::Failed).kept_output(), None);
        assert!(completed.check_output(3).is_ok());
        let refused = completed.check_output(2).unwrap_err();
        assert_eq!((refused.what, refused.size, refused.cap), ("output", 3, 2));
        assert!(put_back(1).check_output(0).is_ok());
    }

    #[test]
    fn error_texts_are_bounded() {
        assert_eq!(put_back(1).bounded_error(64).as_deref(), Some("a\u{fffd}b"));
        assert_eq!(put_back(1).bounded_error(0).as_deref(), Some(""));
    }
}
