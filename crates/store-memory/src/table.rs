//! The table: all jobs, and the orders in which they are looked for. Jobs get in by `accept` and change by `moves`.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use windlass_core::bell::Rings;
use windlass_core::clock::{Clock, Steps, Timestamp};
use windlass_core::queue::QueueConfig;
use windlass_core::store::Duty;
use windlass_core::{Fence, HolderId, JobId, Name, State};

use crate::bug::Bug;
use crate::calls::Calls;
use crate::job::{Job, Seq};
use crate::keys::Keys;
use crate::lease::LeaseBook;
use crate::queue::Queue;
use crate::records::RecordBook;
use crate::tallies::TallyBook;

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Jobs in the order of acceptance. Boxed, for the tree's nodes are half empty and a job is large.
    pub(crate) jobs: BTreeMap<Seq, Box<Job>>,
    pub(crate) ids: HashMap<JobId, Seq>,
    pub(crate) queues: BTreeMap<Name, Queue>,
    pub(crate) keys: Keys,
    pub(crate) leases: LeaseBook,
    pub(crate) calls: Calls,
    pub(crate) records: RecordBook,
    pub(crate) tallies: TallyBook,
    /// Who has each duty, and until when.
    pub(crate) duties: BTreeMap<Duty, (HolderId, Timestamp)>,
    /// Whether the clock was set, which leases and calls must outlive.
    pub(crate) steps: Steps,
    /// What the running call has to ring about when it is done.
    pub(crate) rings: Rings,
    accepted: Seq,
    bug: Option<Bug>,
}

impl Table {
    /// The time. A clock that was set ends no lease that lives and forgets no call early.
    pub(crate) fn now(&mut self, clock: &dyn Clock) -> Timestamp {
        let (now, step) = self.steps.look(clock);
        if let Some(step) = step {
            self.leases.outlive(step);
            self.calls.outlive(step);
        }
        self.tallies.now = now;
        now
    }

    pub(crate) fn get(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(self.ids.get(&id)?).map(AsRef::as_ref)
    }

    /// The running job that this fence gives the right to write about.
    pub(crate) fn fenced(&self, queue: &Name, id: JobId, fence: Fence) -> Option<&Job> {
        let is_nonce_right = |job: &Job| job.fence.nonce == fence.nonce || self.has(Bug::IgnoreNonce);
        let is_running = |job: &&Job| job.state == State::Running && job.new.queue == *queue;
        self.get(id).filter(is_running).filter(|job| job.fence.number == fence.number && is_nonce_right(job))
    }

    /// The place of the next job in the order of acceptance.
    pub(crate) fn next_seq(&mut self) -> Seq {
        self.accepted += 1;
        self.accepted
    }

    /// Owes more rings when the running call is done.
    pub(crate) fn ring(&mut self, more: Rings) {
        self.rings = std::mem::take(&mut self.rings).and(more);
    }

    /// The definition of a queue, or the default one.
    pub(crate) fn config(&self, queue: &Name) -> &QueueConfig {
        static DEFAULT: LazyLock<QueueConfig> = LazyLock::new(QueueConfig::default);
        self.queues.get(queue).map_or_else(|| &*DEFAULT, |queue| &queue.config)
    }

    /// The newest rule that a queue uses; where that is not known here, this program stays out.
    pub(crate) fn rules(&self, queue: &Name) -> u32 {
        let ignores = self.has(Bug::IgnoreRules);
        self.queues.get(queue).filter(|_| !ignores).map_or(0, |queue| queue.rules)
    }

    /// The bug that was planted; none without the feature.
    pub(crate) fn planted(&self) -> Option<Bug> {
        self.bug.filter(|_| cfg!(feature = "planted-bugs"))
    }

    /// Whether this bug was planted; never without the feature.
    pub(crate) fn has(&self, bug: Bug) -> bool {
        cfg!(feature = "planted-bugs") && self.bug == Some(bug)
    }

    #[cfg(feature = "planted-bugs")]
    pub(crate) fn plant(&mut self, bug: Bug) {
        self.bug = Some(bug);
    }
}
