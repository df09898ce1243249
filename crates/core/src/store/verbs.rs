//! Names for what several methods of the contract have in common, so that a store writes them as one operation: the right
//! by which an outcome is written, and what a person asks of a job.

use serde::{Deserialize, Serialize};

use super::moves::Cause;
use crate::bell::{Rings, Topic};
use crate::id::JobId;
use crate::name::Name;
use crate::state::State;

/// What gives the right to write an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Right {
    /// The fence: the worker itself, by [`settle`](super::Jobs::settle). That its lease may have run out does not matter
    /// as long as no reaper has taken the job back.
    Fence,
    /// The fence and a lease that has run out, tested again in the write: a reaper, by [`reap`](super::Leases::reap).
    LostLease,
    /// The fence of an attempt that a reaper took back, as long as nothing has happened to its job since: the worker, by
    /// [`settle_late`](super::Jobs::settle_late).
    Late,
}

impl Right {
    /// The word for it in statements and scripts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::LostLease => "lost",
            Self::Late => "late",
        }
    }

    /// Why a job changes its state that is written by it.
    pub const fn cause(self) -> Cause {
        match self {
            Self::Fence | Self::Late => Cause::Settled,
            Self::LostLease => Cause::Reaped,
        }
    }
}

/// What a person asks of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amendment {
    /// [`cancel`](super::Jobs::cancel).
    Cancel,
    /// [`withdraw`](super::Jobs::withdraw).
    Withdraw,
    /// [`retry`](super::Jobs::retry).
    Retry,
    /// [`delete`](super::Jobs::delete).
    Delete,
}

impl Amendment {
    /// The word for it in statements and scripts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Withdraw => "withdraw",
            Self::Retry => "retry",
            Self::Delete => "delete",
        }
    }

    /// The rings that are owed when it was done to a job that is now in this state, or was when it was deleted. A store
    /// that does not know the queue rings for any.
    pub fn rings(self, id: JobId, queue: Option<&Name>, state: State) -> Rings {
        match (self, state, queue) {
            (Self::Cancel, State::Running, _) => Rings::cancel(id),
            // Callers that wait for its end should hear that it is gone.
            (Self::Delete, _, _) => Rings::about(Topic::Finish),
            (_, _, Some(queue)) => Rings::entered(state, queue),
            (_, State::Ready | State::Scheduled, None) => Rings::about(Topic::Work),
            _ if state.is_terminal() => Rings::about(Topic::Finish),
            _ => Rings::NONE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_rings_for_those_it_concerns() {
        let (work, finish) = (Rings::about(Topic::Work), Rings::about(Topic::Finish));
        let (id, queue) = (JobId::new(), Name::new("q").expect("a good name"));
        for queue in [None, Some(&queue)] {
            assert_eq!(Amendment::Cancel.rings(id, queue, State::Running), Rings::cancel(id));
            assert_eq!(Amendment::Cancel.rings(id, queue, State::Cancelled), finish);
            assert_eq!(Amendment::Delete.rings(id, queue, State::Scheduled), finish, "it will never end");
        }
        assert_eq!(Amendment::Retry.rings(id, None, State::Ready), work);
        assert_eq!(
            Amendment::Retry.rings(id, Some(&queue), State::Ready),
            Rings::entered(State::Ready, &queue)
        );
    }
}
