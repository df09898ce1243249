//! How a job gets in: the only code that does it. Every enqueue comes through [`Table::accept_call`].

use windlass_core::bell::Topic;
use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::queue::check_rules;
use windlass_core::store::{Cause, Enqueued, StoreResult};
use windlass_core::{CallId, StoreError};

use crate::bug::Bug;
use crate::job::Job;
use crate::table::Table;

impl Table {
    /// Accepts all jobs of a call or none, unless the call was accepted before.
    pub(crate) fn accept_call(
        &mut self,
        call: CallId,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> StoreResult<Vec<Enqueued>> {
        if self.calls.knows(call) && !self.has(Bug::ForgetCall) {
            return Ok(vec![Enqueued::Repeated; jobs.len()]);
        }
        let answers = self.accept_all(jobs, now)?;
        self.calls.remember(call, now);
        Ok(answers)
    }

    /// Accepts one after the other and takes all of them back at the first that is refused. The lock keeps callers from
    /// looking in between.
    fn accept_all(&mut self, jobs: &[NewJob], now: Timestamp) -> StoreResult<Vec<Enqueued>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            match self.accept(job, now) {
                Ok(answer) => answers.push(answer),
                Err(refusal) => {
                    if !self.has(Bug::EnqueuePartial) {
                        self.take_back(&jobs[..answers.len()], &answers);
                    }
                    return Err(refusal);
                }
            }
        }
        if self.has(Bug::LoseWakeup) {
            self.rings = std::mem::take(&mut self.rings).without(Topic::Work);
        }
        Ok(answers)
    }

    /// Accepts one job. The id is tested before the payload, so that a repeat is answered even if the cap has shrunk.
    fn accept(&mut self, job: &NewJob, now: Timestamp) -> Result<Enqueued, StoreError> {
        if let Some(same_id) = self.get(job.id) {
            if !self.has(Bug::AcceptDuplicate) {
                return same_id.taken().answer(job);
            }
            let seq = same_id.seq;
            self.remove(seq, Cause::NotKept);
        }
        check_rules(&job.queue, self.rules(&job.queue))?;
        // A unique key is tested here: whether another job of the queue and kind holds it, and what its policy answers.
        job.check_payload(self.config(&job.queue).caps.payload)?;
        let job = Job::accepted(job.clone(), self.next_seq(), now);
        // Links are written here: a job with open parents begins as blocked.
        self.enter(job);
        Ok(Enqueued::New)
    }

    fn take_back(&mut self, jobs: &[NewJob], answers: &[Enqueued]) {
        for (job, _) in jobs.iter().zip(answers).filter(|(_, answer)| **answer == Enqueued::New) {
            let seq = self.get(job.id).expect("this call inserted it").seq;
            self.remove(seq, Cause::NotKept);
        }
    }
}
