//! The table: all jobs, and the orders in which they are looked for.
//!
//! Jobs change only through [`Table::change`], which takes a job out of every order, lets it change and puts
//! it back. So the orders, the counters and the owed rings cannot drift from the jobs, and no operation has
//! to keep them in step itself.

use std::collections::{BTreeMap, HashMap};

use windlass_core::bell::Rings;
use windlass_core::clock::{Clock, Steps, Timestamp};
use windlass_core::job::NewJob;
use windlass_core::queue::QueueConfig;
use windlass_core::{Fence, JobId, Name, State};

use crate::bug::Bug;
use crate::calls::Calls;
use crate::job::{Job, Seq};
use crate::lease::LeaseBook;
use crate::queue::Queue;

#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Jobs in the order of acceptance. Boxed, for the tree's nodes are half empty and a job is large.
    pub(crate) jobs: BTreeMap<Seq, Box<Job>>,
    ids: HashMap<JobId, Seq>,
    pub(crate) queues: BTreeMap<Name, Queue>,
    pub(crate) leases: LeaseBook,
    pub(crate) calls: Calls,
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

    pub(crate) fn insert(&mut self, new: NewJob, now: Timestamp) {
        self.accepted += 1;
        let job = Job::accepted(new, self.accepted, now);
        if !self.queues.contains_key(&job.new.queue) {
            self.queues.insert(job.new.queue.clone(), Queue::default());
        }
        self.queue_of(&job).add(&job);
        self.ring(Rings::entered(job.state));
        self.ids.insert(job.new.id, job.seq);
        self.jobs.insert(job.seq, Box::new(job));
    }

    /// The only way to change a job. Answers its state now.
    pub(crate) fn change(&mut self, seq: Seq, change: impl FnOnce(&mut Job)) -> State {
        let job = self.jobs.get_mut(&seq).expect("orders and ids name only jobs of the table");
        let queue = self.queues.get_mut(&job.new.queue).expect("a queue stays as long as it holds jobs");
        let before = job.state;
        queue.take_out(job);
        self.leases.take_out(job);
        change(job);
        queue.add(job);
        self.leases.add(job);
        if job.state != before {
            self.rings = self.rings.and(Rings::entered(job.state));
        }
        job.state
    }

    /// Owes more rings when the running call is done.
    pub(crate) fn ring(&mut self, more: Rings) {
        self.rings = self.rings.and(more);
    }

    pub(crate) fn remove(&mut self, seq: Seq) {
        let job = self.jobs.remove(&seq).expect("orders and ids name only jobs of the table");
        self.ids.remove(&job.new.id);
        self.leases.take_out(&job);
        let keeps_count = self.has(Bug::DriftCounts);
        let queue = self.queue_of(&job);
        queue.take_out(&job);
        if keeps_count {
            queue.counts.set(job.state, queue.counts.of(job.state) + 1);
        }
        if queue.counts.total() == 0 && !queue.is_defined {
            self.queues.remove(&job.new.queue);
        }
    }

    fn queue_of(&mut self, job: &Job) -> &mut Queue {
        self.queues.get_mut(&job.new.queue).expect("a queue stays as long as it holds jobs")
    }

    /// The definition of a queue, or the default one.
    pub(crate) fn config(&self, queue: &Name) -> QueueConfig {
        self.queues.get(queue).map(|queue| queue.config.clone()).unwrap_or_default()
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
