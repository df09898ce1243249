//! What is kept of attempts, and how a job's record comes by them.

use serde::{Deserialize, Serialize};

use super::JobRecord;
use crate::clock::Timestamp;
use crate::outcome::Ending;
use crate::state::State;

/// How many attempts a job's record keeps; older ones are forgotten.
pub const ATTEMPTS_KEPT: usize = 50;

/// What is kept of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The claim it began with.
    pub fence: u64,
    /// Which attempt it counted as.
    pub number: u32,
    /// The label of the worker.
    pub worker: String,
    /// When it was claimed.
    pub started_at: Timestamp,
    /// When its outcome was recorded.
    pub ended_at: Option<Timestamp>,
    /// How it ended; nothing while it runs.
    pub ending: Option<Ending>,
    /// What went wrong, cut to the queue's cap.
    pub error: Option<String>,
}

/// Who took a job last, and when. It is kept beside the job, also after the attempt has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastClaim {
    /// The label of the worker.
    pub worker: String,
    /// When it was claimed.
    pub at: Timestamp,
}

impl LastClaim {
    /// The record of the attempt that began so, as long as it runs; fence and number as the claim left them.
    pub fn attempt(self, fence: u64, number: u32) -> AttemptRecord {
        let Self { worker, at } = self;
        AttemptRecord { fence, number, worker, started_at: at, ended_at: None, ending: None, error: None }
    }
}

impl JobRecord {
    /// This record with its attempts: those that are stored, oldest first, and the one that the job itself
    /// records because it runs or has completed. The newest [`ATTEMPTS_KEPT`] of them.
    #[must_use]
    pub fn with_attempts(mut self, stored: Vec<AttemptRecord>, last: Option<LastClaim>) -> Self {
        let own = last.map(|claim| claim.attempt(self.fence, self.counters.attempt));
        self.attempts = stored;
        self.attempts.extend(match self.state {
            State::Running => own,
            State::Completed => own.map(|attempt| AttemptRecord {
                ended_at: self.finished_at,
                ending: Some(Ending::Completed),
                ..attempt
            }),
            _ => None,
        });
        let surplus = self.attempts.len().saturating_sub(ATTEMPTS_KEPT);
        self.attempts.drain(..surplus);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Counters, NewJob};
    use crate::options::Options;

    fn record(state: State) -> JobRecord {
        let NewJob { id, queue, kind, payload, spec, .. } = NewJob::new("k", "", Options::new()).unwrap();
        let at = Timestamp::from_micros;
        JobRecord {
            id,
            queue,
            kind,
            state,
            reason: None,
            payload,
            output: None,
            progress: None,
            priority: 0,
            key: None,
            unique: None,
            counters: Counters { attempt: 3, ..Counters::default() },
            spec,
            tags: Vec::new(),
            fence: 60,
            cancel_requested: false,
            has_begun: false,
            unreadable: None,
            enqueued_at: at(1),
            due_at: at(2),
            expires_at: None,
            finished_at: state.is_terminal().then_some(at(9)),
            attempts: Vec::new(),
        }
    }

    fn claim() -> LastClaim {
        LastClaim { worker: "w".into(), at: Timestamp::from_micros(5) }
    }

    #[test]
    fn a_job_that_runs_or_has_completed_records_its_own_attempt() {
        let running = claim().attempt(60, 3);
        let completed = AttemptRecord {
            ended_at: Some(Timestamp::from_micros(9)),
            ending: Some(Ending::Completed),
            ..running.clone()
        };
        for state in State::ALL {
            let expected = match state {
                State::Running => vec![running.clone()],
                State::Completed => vec![completed.clone()],
                _ => Vec::new(),
            };
            assert_eq!(record(state).with_attempts(Vec::new(), Some(claim())).attempts, expected, "{state}");
            assert_eq!(record(state).with_attempts(Vec::new(), None).attempts, []);
        }
    }

    #[test]
    fn the_newest_attempts_are_kept() {
        let stored: Vec<_> = (10..60).map(|fence| claim().attempt(fence, 1)).collect();
        let fences = |state| {
            let record = record(state).with_attempts(stored.clone(), Some(claim()));
            record.attempts.iter().map(|attempt| attempt.fence).collect::<Vec<_>>()
        };
        assert_eq!(fences(State::Dead), (10..60).collect::<Vec<_>>());
        assert_eq!(fences(State::Running), (11..61).collect::<Vec<_>>());
    }
}
