//! The part that remembers: records, and what is written together with them.

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::verbs::Right;
use super::{Enqueued, Settlement, StoreResult};
use crate::error::StoreError;
use crate::follow_ups::FollowUps;
use crate::id::{CallId, Fence, JobId};
use crate::judge::Transition;
use crate::name::Name;
use crate::record::{Record, RecordKey};
use crate::state::State;

/// Records of queues, and writes of several things at once.
///
/// A record whose time is over is not there: it is not read, not listed and not found by an expectation. Maintenance
/// ([`tidy`](super::Maintenance::tidy)) removes it. Records belong to the name of their queue and to no job: they stay when jobs
/// end or are deleted, and when the queue is [removed](super::Queues::remove). Records alone do not make a queue appear among
/// the [queues](super::Queues::queues).
#[async_trait]
pub trait Records: Send + Sync {
    /// The records under these keys; nothing for a key that has none.
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>>;

    /// Records whose key begins with this text, by key in byte order, after the given key, at most `limit` and
    /// [`PAGE_MAX`](super::PAGE_MAX). A page of more than [`PAGE_BYTES`] bytes of values ends early, after one record at least.
    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage>;

    /// How many records a queue has, and how large they are. Looks at no more than [`TOTALS_MAX`] of them.
    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals>;

    /// Writes records of a queue and accepts jobs for it, all or nothing.
    ///
    /// Jobs are tested and accepted as by [`enqueue_once`](super::Jobs::enqueue_once) and answered in their order; what is
    /// refused there refuses the whole write. A call that brings jobs is remembered: its repeat writes nothing and is answered
    /// with [`Enqueued::Repeated`]. The first record, in their order, whose [expectation](crate::record::Expect) is not met
    /// refuses the whole write ([`StoreError::Conflict`]); a put that finds its own version there counts as met, so a repeat
    /// after a lost answer is right. A removal that expects a version is refused when it is repeated. Where both a job and a record would be refused, the answer names either.
    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>>;

    /// Writes follow-ups of attempts, each only if its [right](Right) holds: all of an item takes effect or nothing of it.
    ///
    /// An item with a transition also ends its attempt, as by [`settle`](super::Jobs::settle),
    /// [`reap`](super::Leases::reap) or [`settle_late`](super::Jobs::settle_late), in the same write. If a request to cancel
    /// [turns](Transition::honoring_cancel) the transition into another one, its follow-ups are not written. An item without a
    /// transition leaves the attempt running; only [`Right::Fence`] is a right to that. The end takes effect first, then jobs
    /// are accepted, then records are changed.
    ///
    /// Records are those of the attempt's queue. Jobs may be for any queue and are accepted as by `enqueue`, except that the
    /// capacity of a queue does not refuse them, for what has been done must be able to end. A job that is there already,
    /// or meets the holder of its unique key, refuses nothing. A store that keeps queues apart delivers jobs for other queues right
    /// after the write and, if its program ends meanwhile, by maintenance; it tests those by the definitions that the program
    /// knows, and one whose id another job has taken over there is dropped and logged.
    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>>;
}

/// How many bytes of values a page may have, before it ends.
pub const PAGE_BYTES: usize = 1 << 20;
/// How many records are counted at most.
pub const TOTALS_MAX: u32 = 10_000;

/// What an attempt writes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AttemptWrite {
    /// The queue that the job was claimed from, as in [`Settlement`](super::Settlement).
    pub queue: Name,
    /// The job.
    pub id: JobId,
    /// The right to write.
    pub fence: Fence,
    /// What the judge decided, if the attempt ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
    /// What is written with it.
    pub then: FollowUps,
}

impl AttemptWrite {
    /// Tests what every store holds it to. A store answers what fails here without looking at the job.
    ///
    /// # Errors
    /// As [`FollowUps::check`], and for a job under the id of its own attempt, which would end and begin in one write.
    pub fn check(&self) -> Result<(), StoreError> {
        match self.then.jobs.iter().any(|job| job.id == self.id) {
            true => Err(StoreError::IdTaken { id: self.id }),
            false => Ok(self.then.check()?),
        }
    }

    /// Whether its follow-ups are written where a request to cancel was found, or not.
    pub fn is_followed(&self, cancel_requested: bool) -> bool {
        let is_put_back = |transition: &Transition| !transition.state.is_terminal();
        !cancel_requested || !self.transition.as_ref().is_some_and(is_put_back)
    }

    /// The end of the attempt, for what is written as any other end.
    pub fn settlement(&self) -> Option<Settlement> {
        let (queue, transition) = (self.queue.clone(), self.transition.clone()?);
        Some(Settlement { queue, id: self.id, fence: self.fence, transition })
    }
}

/// The answer for one write of an attempt.
#[derive(Debug)]
pub enum AttemptWritten {
    /// It was written, and this is the job's state now.
    Applied(State),
    /// The right does not hold, as for [`Settled::Fenced`](super::Settled::Fenced); nothing was written.
    Fenced,
    /// The right holds, but something of it is refused: the output, a job, or a record; nothing was written.
    Refused(StoreError),
}

/// A page of records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordPage {
    /// The records.
    pub records: Vec<Record>,
    /// After which key the next page begins; nothing at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<RecordKey>,
}

impl RecordPage {
    /// A page of these records, which were read in order, up to one more than the limit.
    pub fn of(mut records: Vec<Record>, limit: u32) -> Self {
        let mut bytes = 0;
        let mut fits = |record: &Record| {
            let is_room = bytes < PAGE_BYTES;
            bytes += record.value.len();
            is_room
        };
        let count = records.iter().take_while(|record| fits(record)).count().min(limit as usize);
        let has_more = records.len() > count;
        records.truncate(count);
        let next = records.last().filter(|_| has_more).map(|record| record.key.clone());
        Self { records, next }
    }
}

/// How much a queue remembers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordTotals {
    /// Records.
    pub count: u64,
    /// Bytes of their values.
    pub bytes: u64,
    /// Whether there are more, which were not counted.
    pub has_more: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;
    use crate::job::{Counters, Facts, NewJob, Spec};
    use crate::judge::judge;
    use crate::options::Options;
    use crate::outcome::Outcome;
    use crate::record::Version;

    #[test]
    fn a_page_ends_at_its_limit_or_its_bytes() {
        let record = |i: usize, size: usize| Record {
            key: RecordKey::new(format!("{i}")).unwrap(),
            version: Version::new(),
            value: vec![0; size].into(),
            written_at: Timestamp::from_micros(0),
            expires_at: None,
        };
        let page = |sizes: &[usize], limit| {
            let records = sizes.iter().enumerate().map(|(i, &size)| record(i, size)).collect();
            let page = RecordPage::of(records, limit);
            (page.records.len(), page.next.map(|key| key.to_string()))
        };
        assert_eq!(page(&[1, 1, 1], 3), (3, None));
        assert_eq!(page(&[1, 1, 1], 2), (2, Some("1".into())));
        assert_eq!(page(&[1, 1], 0), (0, None));
        assert_eq!(page(&[PAGE_BYTES, 1, 1], 9), (1, Some("0".into())));
        assert_eq!(page(&[], 9), (0, None));
    }

    fn write(outcome: Option<Outcome>, jobs: Vec<NewJob>) -> AttemptWrite {
        let facts = Facts { counters: Counters::default(), spec: Spec::default() };
        AttemptWrite {
            queue: Name::new("q").unwrap(),
            id: JobId::new(),
            fence: Fence { number: 1, nonce: 2 },
            transition: outcome.map(|outcome| judge(&facts, outcome, 0.5)),
            then: FollowUps { jobs, records: Vec::new() },
        }
    }

    #[test]
    fn what_a_request_to_cancel_turns_into_another_end_is_not_followed() {
        let completed = write(Some(Outcome::Completed { output: None }), Vec::new());
        let put_back = write(Some(Outcome::Returned), Vec::new());
        let goes_on = write(None, Vec::new());
        for (item, is_followed) in [(completed, true), (put_back, false), (goes_on, true)] {
            assert!(item.is_followed(false));
            assert_eq!(item.is_followed(true), is_followed);
            let end = item.settlement().map(|end| end.transition);
            let is_turned = end.is_some_and(|end| end.clone().honoring_cancel(true) != end);
            assert_eq!(is_turned, !is_followed, "as the transition says it");
        }
    }

    #[test]
    fn an_attempt_is_not_followed_by_itself() {
        let job = NewJob::new("k", "", Options::new()).unwrap();
        let mut item = write(None, vec![job.clone()]);
        assert!(item.check().is_ok());
        item.id = job.id;
        assert!(matches!(item.check(), Err(StoreError::IdTaken { id }) if id == job.id));
        let many = write(None, vec![job; 1_001]);
        assert!(matches!(many.check(), Err(StoreError::FollowUps(_))));
    }
}
