//! What comes back where the contract's own type is not enough for the wire: it is read item by item, or says more.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::job::LostJob;
use windlass_core::queue::{QueueRecord, Removed};
use windlass_core::record::Record;
use windlass_core::store::{
    self, Amended, AttemptWritten, ClaimAnswer, Durability, Ended, Enqueued, Finding, JobPage, LeaseRecord,
    PAGE_MAX, Promotion, RecordPage, RecordTotals, Renewal, Settled, Sharing, Shift, SickQueue, StoreResult,
    Swept,
};
use windlass_core::tally::Row;
use windlass_core::{JobRecord, Name, State, Store, Timestamp};

use crate::wire::each::Claimed as Item;
use crate::wire::{Answer, Each, VERSION, WireError};

/// What a server says of its store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreAbout {
    /// The version of the wire.
    pub wire: u32,
    /// What kind of store it is.
    pub scheme: String,
    /// What an accepted job survives.
    pub durability: Durability,
    /// Which calls may share one.
    pub sharing: Sharing,
    /// Whether it keeps records.
    pub records: bool,
    /// Whether it can be examined.
    pub checkup: bool,
    /// Whether it counts what happens to jobs.
    #[serde(default)]
    pub tallies: bool,
}

impl StoreAbout {
    pub(super) fn of(store: &dyn Store) -> Self {
        // Where it is, is the server's own affair.
        let store::About { scheme, place: _, durability, sharing } = store.about();
        let (records, checkup) = (store.records().is_some(), store.checkup().is_some());
        let tallies = store.tallies().is_some();
        Self { wire: VERSION, scheme: scheme.to_owned(), durability, sharing, records, checkup, tallies }
    }
}

/// What a worker gets, read job by job.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as the contract has it")]
pub enum Claimed {
    Jobs {
        jobs: Each<Item>,
        next_due: Option<Duration>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unreadable: Vec<LostJob>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        sick: Vec<SickQueue>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        limited: Vec<Name>,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ample: Vec<Name>,
    },
    LeaseLost,
}

impl From<ClaimAnswer> for Claimed {
    fn from(answer: ClaimAnswer) -> Self {
        match answer {
            ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited, ample } => {
                let jobs = Each(jobs.into_iter().map(|job| Item(Ok(Box::new(job)))).collect());
                Self::Jobs { jobs, next_due, unreadable, sick, limited, ample }
            }
            ClaimAnswer::LeaseLost => Self::LeaseLost,
        }
    }
}

impl From<Claimed> for ClaimAnswer {
    fn from(answer: Claimed) -> Self {
        let Claimed::Jobs { jobs: sent, next_due, mut unreadable, sick, limited, ample } = answer else {
            return Self::LeaseLost;
        };
        let mut jobs = Vec::with_capacity(sent.0.len());
        for Item(job) in sent.0 {
            match job {
                Ok(job) => jobs.push(*job),
                Err(lost) => unreadable.push(*lost),
            }
        }
        Self::Jobs { jobs, next_due, unreadable, sick, limited, ample }
    }
}

/// A page of queues, and the queue after which the next one begins: some may have been left out.
#[derive(Debug, Serialize, Deserialize)]
pub struct QueuePage {
    /// The queues.
    pub queues: Each<QueueRecord>,
    /// The last that was looked at, where there may be more.
    pub next: Option<Name>,
}

impl QueuePage {
    pub(super) async fn of(store: &dyn Store, after: Option<Name>, limit: u32) -> StoreResult<Self> {
        let limit = limit.min(PAGE_MAX);
        let queues = store.queues(after.as_ref(), limit).await?;
        let is_full = limit > 0 && queues.len() >= limit as usize;
        let next = queues.last().filter(|_| is_full).map(|queue| queue.name.clone());
        Ok(Self { queues: Each(queues), next })
    }
}

/// The answer for one write of an attempt.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "as the contract has it")]
pub enum Written {
    Applied(State),
    Fenced,
    Refused(Box<WireError>),
}

impl From<AttemptWritten> for Written {
    fn from(answer: AttemptWritten) -> Self {
        match answer {
            AttemptWritten::Applied(state) => Self::Applied(state),
            AttemptWritten::Fenced => Self::Fenced,
            AttemptWritten::Refused(error) => Self::Refused(Box::new(WireError::of(&error))),
        }
    }
}

impl From<Written> for AttemptWritten {
    fn from(answer: Written) -> Self {
        match answer {
            Written::Applied(state) => Self::Applied(state),
            Written::Fenced => Self::Fenced,
            Written::Refused(problem) => Self::Refused(problem.into_error()),
        }
    }
}

macro_rules! plain {
    ($($Type:ty)*) => { $(impl Answer for $Type {})* };
}

// These hold nothing of a queue that their call has not named.
plain! {
    () bool u32 Timestamp
    StoreAbout Claimed Renewal Swept Removed Promotion Shift RecordTotals RecordPage
    Vec<Enqueued> Vec<Settled> Vec<Option<State>> Vec<Amended> Vec<Ended> Vec<Finding> Vec<Option<Record>>
    Vec<Written> Vec<Row> Option<Each<QueueRecord>>
}

impl Answer for Each<Option<JobRecord>> {
    fn keep(&mut self, may_see: &dyn Fn(&Name) -> bool) {
        for job in &mut self.0 {
            *job = job.take().filter(|job| may_see(&job.queue));
        }
    }

    fn jobs(&mut self) -> Vec<&mut JobRecord> {
        self.0.iter_mut().flatten().collect()
    }
}

impl Answer for JobPage {
    fn keep(&mut self, may_see: &dyn Fn(&Name) -> bool) {
        self.jobs.retain(|job| may_see(&job.queue));
    }

    fn jobs(&mut self) -> Vec<&mut JobRecord> {
        self.jobs.iter_mut().collect()
    }
}

impl Answer for Vec<LostJob> {
    fn keep(&mut self, may_see: &dyn Fn(&Name) -> bool) {
        self.retain(|job| may_see(&job.queue));
    }
}

impl Answer for Vec<LeaseRecord> {
    /// A worker of which some queue may be seen is seen, with those.
    fn keep(&mut self, may_see: &dyn Fn(&Name) -> bool) {
        for lease in &mut *self {
            lease.queues.retain(may_see);
        }
        self.retain(|lease| !lease.queues.is_empty());
    }
}

impl Answer for QueuePage {
    fn keep(&mut self, may_see: &dyn Fn(&Name) -> bool) {
        self.queues.0.retain(|queue| may_see(&queue.name));
    }
}
