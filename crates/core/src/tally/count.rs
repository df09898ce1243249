//! What is counted: a list with stored codes, and which change of a job is which of them. Stores that count inside their
//! server say the same there, and the test kit tells whether they do.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::{Ending, Reason};
use crate::state::State;

/// Something that happened to a job. The codes are stored and never change their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
#[repr(u8)]
pub enum Count {
    /// A job was accepted.
    Accepted = 0,
    /// A worker took it.
    Started = 1,
    /// It has completed.
    Completed = 2,
    /// An attempt failed, and the job goes back.
    Retried = 3,
    /// The handler asked to come back later.
    Snoozed = 4,
    /// The attempt was handed back unfinished.
    Returned = 5,
    /// The lease was lost while the attempt ran, and the job goes back.
    Stalled = 6,
    /// It was cancelled, or its handler found it no longer wanted.
    Cancelled = 7,
    /// It is dead: every attempt was used.
    Exhausted = 8,
    /// It is dead: a permanent error.
    Failed = 9,
    /// It is dead: too many attempts with an unknown effect.
    Ambiguous = 10,
    /// It is dead: too many lost leases.
    StalledOut = 11,
    /// It is dead: what is stored of it cannot be read.
    Unreadable = 12,
    /// It is dead: not started before its expiry.
    Expired = 13,
    /// Dead or cancelled, it was sent back by hand or by a rule.
    SentBack = 14,
    /// It was removed by hand while it waited.
    Deleted = 15,
}

impl Count {
    /// All of them, by code.
    pub const ALL: [Self; 16] = [
        Self::Accepted,
        Self::Started,
        Self::Completed,
        Self::Retried,
        Self::Snoozed,
        Self::Returned,
        Self::Stalled,
        Self::Cancelled,
        Self::Exhausted,
        Self::Failed,
        Self::Ambiguous,
        Self::StalledOut,
        Self::Unreadable,
        Self::Expired,
        Self::SentBack,
        Self::Deleted,
    ];

    /// The number to store.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// That of a stored number.
    pub const fn from_code(code: u8) -> Option<Self> {
        if (code as usize) < Self::ALL.len() { Some(Self::ALL[code as usize]) } else { None }
    }

    /// The word used in the CLI, in JSON and in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Started => "started",
            Self::Completed => "completed",
            Self::Retried => "retried",
            Self::Snoozed => "snoozed",
            Self::Returned => "returned",
            Self::Stalled => "stalled",
            Self::Cancelled => "cancelled",
            Self::Exhausted => "exhausted",
            Self::Failed => "failed",
            Self::Ambiguous => "ambiguous",
            Self::StalledOut => "stalled_out",
            Self::Unreadable => "unreadable",
            Self::Expired => "expired",
            Self::SentBack => "sent_back",
            Self::Deleted => "deleted",
        }
    }

    /// Whether a job died by it.
    pub const fn is_death(self) -> bool {
        matches!(
            self,
            Self::Exhausted
                | Self::Failed
                | Self::Ambiguous
                | Self::StalledOut
                | Self::Unreadable
                | Self::Expired
        )
    }

    /// Whether an attempt may end by it. Jobs may be cancelled while they wait as well, without a time.
    pub const fn ends_attempt(self) -> bool {
        matches!(
            self,
            Self::Completed
                | Self::Retried
                | Self::Snoozed
                | Self::Returned
                | Self::Stalled
                | Self::Cancelled
                | Self::Exhausted
                | Self::Failed
                | Self::Ambiguous
                | Self::StalledOut
                | Self::Unreadable
        )
    }

    /// Why a job is dead.
    pub const fn of_death(reason: Option<Reason>) -> Self {
        match reason {
            Some(Reason::AttemptsExhausted) => Self::Exhausted,
            Some(Reason::Ambiguous) => Self::Ambiguous,
            Some(Reason::Stalled) => Self::StalledOut,
            Some(Reason::Expired) => Self::Expired,
            Some(Reason::Unreadable) => Self::Unreadable,
            // No job dies of another reason.
            Some(Reason::Permanent | Reason::Requested | Reason::Discarded) | None => Self::Failed,
        }
    }

    /// How an attempt ended whose job goes back.
    pub const fn of_put_back(ending: Option<Ending>) -> Self {
        match ending {
            Some(Ending::Snoozed) => Self::Snoozed,
            Some(Ending::Returned) => Self::Returned,
            Some(Ending::Stalled) => Self::Stalled,
            _ => Self::Retried,
        }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a change of state counts as, if it is counted: promotions are not, and neither is the removal of what has ended.
/// The reason is that of the state after it, the ending that of the attempt which ends with it.
pub const fn counted(
    from: Option<State>,
    to: Option<State>,
    reason: Option<Reason>,
    ending: Option<Ending>,
) -> Option<Count> {
    use State::{Cancelled, Completed, Dead, Ready, Running};
    Some(match (from, to) {
        (None, Some(_)) => Count::Accepted,
        (Some(_), Some(Running)) => Count::Started,
        (Some(_), Some(Completed)) => Count::Completed,
        (Some(_), Some(Dead)) => Count::of_death(reason),
        (Some(_), Some(Cancelled)) => Count::Cancelled,
        (Some(Running), Some(_)) => Count::of_put_back(ending),
        (Some(from), Some(Ready)) if from.is_terminal() => Count::SentBack,
        (Some(from), None) if from.is_waiting() => Count::Deleted,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_tell_counts_apart() {
        for (code, count) in (0u8..).zip(Count::ALL) {
            assert_eq!((count.code(), Count::from_code(code)), (code, Some(count)));
            let word = serde_json::to_string(&count).unwrap();
            assert_eq!(word, format!("\"{count}\""));
        }
        assert_eq!(Count::from_code(16), None);
        let deaths = Reason::ALL.map(|reason| Count::of_death(Some(reason)));
        assert!(deaths.into_iter().all(Count::is_death));
    }

    #[test]
    fn every_change_of_a_job_is_counted_once() {
        use State::{Blocked, Cancelled, Completed, Dead, Ready, Running, Scheduled};
        let of = |from, to| counted(from, to, Some(Reason::Expired), Some(Ending::Snoozed));
        for state in [Blocked, Scheduled, Ready] {
            assert_eq!(of(None, Some(state)), Some(Count::Accepted));
            assert_eq!(of(Some(state), Some(Dead)), Some(Count::Expired));
            assert_eq!(of(Some(state), Some(Cancelled)), Some(Count::Cancelled));
            assert_eq!(of(Some(state), None), Some(Count::Deleted));
        }
        assert_eq!(of(Some(Ready), Some(Running)), Some(Count::Started));
        assert_eq!(of(Some(Running), Some(Completed)), Some(Count::Completed));
        for state in [Scheduled, Ready] {
            assert_eq!(of(Some(Running), Some(state)), Some(Count::Snoozed));
        }
        assert_eq!(counted(Some(Running), Some(Ready), None, Some(Ending::Panicked)), Some(Count::Retried));
        for state in [Dead, Cancelled] {
            assert_eq!(of(Some(state), Some(Ready)), Some(Count::SentBack));
        }
        assert_eq!((of(Some(Scheduled), Some(Ready)), of(Some(Blocked), Some(Ready))), (None, None));
        assert_eq!(
            (of(Some(Completed), None), of(Some(Dead), None), of(Some(Cancelled), None)),
            (None, None, None)
        );
    }
}
