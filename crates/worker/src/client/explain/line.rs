//! The jobs that come before one in its queue, by the order in which claims take them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use windlass_core::clock::Timestamp;
use windlass_core::queue::QueueConfig;
use windlass_core::{JobRecord, Name, State};

/// What was seen of the ready jobs of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    /// Jobs that come before the one that is explained.
    pub(super) ahead: u64,
    /// Jobs that come after it, or stand in another line.
    pub(super) others: u64,
    /// Other keys that take turns with it.
    pub(super) keys: BTreeSet<Name>,
    /// Whether there are more that were not seen.
    pub(super) has_more: bool,
}

/// Looks at ready jobs in the order in which stores list them: the newest accepted first.
pub(super) struct Looking<'a> {
    job: &'a JobRecord,
    config: &'a QueueConfig,
    now: Timestamp,
    /// The kinds that workers of the queue run; nothing where that is not known.
    kinds: Option<BTreeSet<&'a Name>>,
    is_passed: bool,
    line: Line,
}

impl<'a> Looking<'a> {
    pub(super) fn new(
        job: &'a JobRecord,
        config: &'a QueueConfig,
        now: Timestamp,
        kinds: Option<BTreeSet<&'a Name>>,
    ) -> Self {
        Self { job, config, now, kinds, is_passed: false, line: Line::default() }
    }

    /// Adds the next job of the list.
    pub(super) fn add(&mut self, other: &JobRecord) {
        if other.id == self.job.id {
            self.is_passed = true;
            return;
        }
        let is_taken = self.config.pauses.permit(&other.kind, self.now)
            && other.key.as_ref().is_none_or(|key| self.config.pauses.permit_key(key, self.now))
            && self.kinds.as_ref().is_none_or(|kinds| kinds.contains(&other.kind));
        if is_taken
            && other.key != self.job.key
            && let Some(key) = &other.key
        {
            self.line.keys.insert(key.clone());
        }
        if is_taken && other.key == self.job.key && self.is_ahead(other) {
            self.line.ahead += 1;
        } else {
            self.line.others += 1;
        }
    }

    /// What was seen, if the list has or has not ended.
    pub(super) fn end(self, has_more: bool) -> Line {
        Line { has_more, ..self.line }
    }

    /// Whether a job of the same line is claimed first.
    fn is_ahead(&self, other: &JobRecord) -> bool {
        // A job that is still scheduled is not in the list, so its place there does not tell which was accepted first.
        let is_later = match self.job.state {
            State::Ready => !self.is_passed,
            _ => other.enqueued_at > self.job.enqueued_at,
        };
        let seq = i8::from(is_later);
        match self.config.aged(0) {
            // The job itself stands between the sequence numbers of an earlier and a later one.
            Some(aged) => {
                aged.place(other.priority, other.due_at, 2 * seq)
                    < aged.place(self.job.priority, self.job.due_at, 1)
            }
            None => {
                (Reverse(other.priority), other.due_at, 2 * seq)
                    < (Reverse(self.job.priority), self.job.due_at, 1)
            }
        }
    }
}
