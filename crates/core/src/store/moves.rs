//! A change of state, as each store tells it to the one piece of code that all its changes pass.

use crate::bell::Rings;
use crate::clock::Timestamp;
use crate::name::Name;
use crate::outcome::{Ending, Reason};
use crate::state::State;
use crate::tally::{Bucket, Cell, Count, counted};

/// One job changes its state, comes into the store or leaves it. A store adds how it names the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move<'a> {
    /// The queue that the job is in.
    pub queue: &'a Name,
    /// Its kind, where it is at hand.
    pub kind: Option<&'a Name>,
    /// Its state before; none if the store accepts it now.
    pub from: Option<State>,
    /// Its state after; none if it is removed.
    pub to: Option<State>,
    /// Why.
    pub cause: Cause,
    /// What is told of it for tallies.
    pub told: Told,
}

/// What tallies count a change of state by.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    /// Why the job is in its state after it.
    pub reason: Option<Reason>,
    /// How the attempt ends that ends with it.
    pub ending: Option<Ending>,
    /// When began what now ends: the due instant of a job that starts, the claim of an attempt.
    pub since: Option<Timestamp>,
}

/// Why a job changes its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The store accepts it.
    Accepted,
    /// Its time has come.
    Due,
    /// It was not started in time.
    Expired,
    /// A worker takes it.
    Claimed,
    /// Its attempt has ended.
    Settled,
    /// The lease of its attempt was lost.
    Reaped,
    /// A person asked for it: cancel, retry or delete.
    Requested,
    /// Its row does not read, and no worker can settle it.
    Unreadable,
    /// Its queue does not keep it, or no longer.
    NotKept,
}

impl Move<'_> {
    /// Adds the rings that it owes. A due job owes none: idle workers know when it is due. A job that is not kept owes
    /// none either: callers that wait for its end have heard of that.
    pub fn ring(&self, rings: &mut Rings) {
        match (self.cause, self.to) {
            (Cause::Due | Cause::NotKept, _) => {}
            (Cause::Accepted, Some(State::Ready)) => rings.add_work(self.queue, self.kind, 1),
            (_, Some(state)) => rings.add_entered(state, self.queue),
            (_, None) => rings.add_ends(),
        }
    }

    /// The cell of tallies that it is counted in at this time, if it is counted.
    pub fn cell(&self, now: Timestamp) -> Option<Cell> {
        if self.to.is_none() && self.cause != Cause::Requested {
            return None;
        }
        let count = counted(self.from, self.to, self.told.reason, self.told.ending)?;
        let takes_time = count == Count::Started || (count.ends_attempt() && self.told.ending.is_some());
        let since = self.told.since.filter(|_| takes_time);
        Some(Cell::new(count, since.map_or(Bucket::UNTIMED, |since| Bucket::between(since, now))))
    }

    /// Whether the drawing of [`State`] has this edge. Jobs begin in a state that waits, and only those that do not run
    /// are removed.
    pub fn is_allowed(&self) -> bool {
        match (self.from, self.to) {
            (Some(from), Some(to)) => from.may_become(to),
            (None, Some(to)) => to.is_waiting(),
            (Some(from), None) => from != State::Running,
            (None, None) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bell::Topic;

    fn change(queue: &Name, from: Option<State>, to: Option<State>, cause: Cause) -> Move<'_> {
        Move { queue, kind: None, from, to, cause, told: Told::default() }
    }

    #[test]
    fn rings_are_owed_to_those_who_wait_and_do_not_know() {
        let queue = Name::new("q").unwrap();
        let rings = |from, to, cause| {
            let mut rings = Rings::NONE;
            change(&queue, from, to, cause).ring(&mut rings);
            rings
        };
        let (work, finish) = (Rings::entered(State::Ready, &queue), Rings::about(Topic::Finish));
        assert_eq!(rings(None, Some(State::Ready), Cause::Accepted), work);
        assert_eq!(rings(Some(State::Scheduled), Some(State::Ready), Cause::Due), Rings::NONE);
        assert_eq!(rings(Some(State::Ready), Some(State::Running), Cause::Claimed), Rings::NONE);
        assert_eq!(rings(Some(State::Running), Some(State::Completed), Cause::Settled), finish);
        assert_eq!(rings(Some(State::Completed), None, Cause::NotKept), Rings::NONE);
        assert_eq!(rings(Some(State::Ready), None, Cause::Requested), finish);
    }

    #[test]
    fn jobs_come_in_waiting_and_are_not_removed_while_they_run() {
        let queue = Name::new("q").unwrap();
        let is_allowed = |from, to| change(&queue, from, to, Cause::Requested).is_allowed();
        assert!(is_allowed(None, Some(State::Scheduled)) && is_allowed(Some(State::Dead), None));
        assert!(!is_allowed(None, Some(State::Running)) && !is_allowed(Some(State::Running), None));
        assert!(!is_allowed(Some(State::Completed), Some(State::Ready)) && !is_allowed(None, None));
    }

    #[test]
    fn what_ends_an_attempt_is_counted_by_the_time_since_its_claim() {
        let queue = Name::new("q").unwrap();
        let now = Timestamp::from_micros(5_000);
        let cell = |from, to, ending| {
            let told = Told { reason: None, ending, since: Some(Timestamp::from_micros(2_000)) };
            Move { told, ..change(&queue, from, to, Cause::Settled) }.cell(now)
        };
        let timed = |count| Some(Cell::new(count, Bucket::from_number(2)));
        assert_eq!(cell(Some(State::Ready), Some(State::Running), None), timed(Count::Started));
        let (running, ending) = (Some(State::Running), Some(Ending::Cancelled));
        assert_eq!(cell(running, Some(State::Cancelled), ending), timed(Count::Cancelled));
        let untimed = Some(Cell::new(Count::Cancelled, Bucket::UNTIMED));
        assert_eq!(cell(Some(State::Ready), Some(State::Cancelled), None), untimed);
        assert_eq!(cell(Some(State::Scheduled), Some(State::Ready), None), None);
    }
}
