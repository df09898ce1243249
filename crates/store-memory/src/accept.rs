//! How a job gets in: the only code that does it. Every enqueue comes through [`Table::accept_call`].

use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::queue::{RULE_OF_KEYS, check_rules};
use windlass_core::store::{Cause, Enqueued, StoreResult, Taken};
use windlass_core::unique::{Digest, OnConflict};
use windlass_core::{CallId, JobId, Name, State, StoreError};

use crate::bug::Bug;
use crate::job::Job;
use crate::table::Table;

/// Whether a full queue refuses new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Capacity {
    Binds,
    Open,
}

/// A job that is accepted before another one of the same write.
fn taken(job: &NewJob) -> Taken<'_> {
    Taken { state: State::Ready, queue: job.queue.as_str(), kind: job.kind.as_str(), payload: &job.payload }
}

impl Table {
    /// Accepts all jobs of a call or none, unless the call was accepted before.
    pub(crate) fn accept_call(
        &mut self,
        call: CallId,
        jobs: &[NewJob],
        now: Timestamp,
    ) -> StoreResult<Vec<Enqueued>> {
        if self.calls.knows(call) && !self.has(Bug::ForgetCall) {
            if self.has(Bug::CountRepeat) {
                jobs.iter().for_each(|job| self.count_accepted(job));
            }
            return Ok(vec![Enqueued::Repeated; jobs.len()]);
        }
        self.check_keys(jobs)?;
        let answers = self.accept_all(jobs, now, Capacity::Binds)?;
        // A call of duplicates only is tested anew when it is repeated.
        if jobs.is_empty() || !answers.iter().all(Enqueued::is_duplicate) {
            self.calls.remember(call, now);
        }
        Ok(answers)
    }

    /// Accepts what an attempt carries, whatever the capacity of its queues. What may be refused was tested
    /// ([`Table::check_acceptable`]).
    pub(crate) fn accept_following(&mut self, jobs: &[NewJob], now: Timestamp) -> StoreResult<()> {
        let binds = if self.has(Bug::FollowUpsNeedRoom) { Capacity::Binds } else { Capacity::Open };
        self.accept_all(jobs, now, binds).map(|_| ())
    }

    /// Tests jobs as they are tested when they are accepted, without accepting them.
    pub(crate) fn check_acceptable(&self, jobs: &[NewJob]) -> StoreResult<()> {
        if self.has(Bug::EndBeforeFollowUps) {
            return Ok(());
        }
        self.check_keys(jobs)?;
        for (place, job) in jobs.iter().enumerate() {
            let earlier = jobs[..place].iter().find(|earlier| earlier.id == job.id);
            let taken = self.get(job.id).map(Job::taken).or(earlier.map(taken));
            match taken {
                Some(taken) => _ = taken.answer(job)?,
                None => self.check_job(job)?,
            }
        }
        Ok(())
    }

    fn check_keys(&self, jobs: &[NewJob]) -> StoreResult<()> {
        let has_none = |job: &&NewJob| job.key.is_some() && self.rules(&job.queue) < RULE_OF_KEYS;
        match jobs.iter().find(has_none).filter(|_| !self.has(Bug::AcceptAnyKey)) {
            Some(job) => Err(StoreError::NoKeys { queue: job.queue.clone() }),
            None => Ok(()),
        }
    }

    /// Tests a job whose id is free.
    fn check_job(&self, job: &NewJob) -> StoreResult<()> {
        check_rules(&job.queue, self.rules(&job.queue))?;
        job.check_payload(self.config(&job.queue).caps.payload)
    }

    /// Accepts one after the other and takes all of them back at the first that is refused. What holders of unique keys
    /// take over is written when none was. The lock keeps callers from looking in between.
    fn accept_all(
        &mut self,
        jobs: &[NewJob],
        now: Timestamp,
        capacity: Capacity,
    ) -> StoreResult<Vec<Enqueued>> {
        let mut answers = Vec::with_capacity(jobs.len());
        let new_gates = self.missing_gates(jobs);
        for job in jobs {
            match self.accept(job, now) {
                Ok(answer) => answers.push(answer),
                Err(refusal) => {
                    if !self.has(Bug::EnqueuePartial) {
                        self.take_back(&jobs[..answers.len()], &answers, new_gates);
                    }
                    return Err(refusal);
                }
            }
        }
        if capacity == Capacity::Binds
            && let Err(full) = self.check_room(jobs, &answers)
        {
            self.take_back(jobs, &answers, new_gates);
            return Err(full);
        }
        for (job, answer) in jobs.iter().zip(&answers) {
            if *answer == Enqueued::New {
                self.count_accepted(job);
            }
            if let Enqueued::Replaced(holder) = *answer {
                let seq = self.get(holder).expect("it held the key").seq;
                let mut job = job.clone();
                if self.has(Bug::DebounceForEver) {
                    job.on_conflict = OnConflict::Debounce { wait_max: None };
                }
                // A holder that is due earlier now is worth a look.
                self.ring(Rings::entered(State::Ready, &job.queue));
                self.note(seq, |holder| holder.say(job, now));
            }
        }
        if self.has(Bug::LoseWakeup) {
            self.rings = std::mem::take(&mut self.rings).without(Topic::Work);
        }
        Ok(answers)
    }

    /// Whether the queues of new jobs have room for them, which are counted already.
    fn check_room(&self, jobs: &[NewJob], answers: &[Enqueued]) -> Result<(), StoreError> {
        if self.has(Bug::IgnoreCapacity) {
            return Ok(());
        }
        let is_new = |answer: &Enqueued| *answer == Enqueued::New;
        for job in jobs.iter().zip(answers).filter(|(_, answer)| is_new(answer)).map(|(job, _)| job) {
            let queue = self.queues.get(&job.queue).expect("it has a new job");
            if queue.config.capacity.is_none() {
                continue;
            }
            let more =
                jobs.iter().zip(answers).filter(|(other, answer)| other.queue == job.queue && is_new(answer));
            let more = more.count() as u64;
            queue.config.check_room(&job.queue, queue.counts.waiting() - more, more)?;
        }
        Ok(())
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
        self.check_job(job)?;
        if let Some(key) = job.unique {
            if let Some(holder) = self.keys.holder(&job.queue, key.digest, now) {
                return Ok(self.met(holder, key.digest, job));
            }
            self.keys.take(&job.queue, key, job.id, now);
        }
        let mut job = Job::accepted(job.clone(), self.next_seq(), now);
        if job.state == State::Blocked && self.has(Bug::AcceptHeldAsReady) {
            job.state = State::Ready;
        }
        self.enter(job);
        Ok(Enqueued::New)
    }

    /// The answer for a job whose key another one holds. If that one is gone, a job under its id is not the holder.
    fn met(&self, holder: JobId, digest: Digest, job: &NewJob) -> Enqueued {
        let holds = |found: &&Job| {
            found.new.queue == job.queue && found.new.unique.is_some_and(|key| key.digest == digest)
        };
        let state = self.get(holder).filter(holds).map(|holder| holder.state);
        if job.on_conflict.replaces(state) || (self.has(Bug::ReplaceRunning) && state == Some(State::Running))
        {
            Enqueued::Replaced(holder)
        } else {
            Enqueued::Duplicate { id: holder, state }
        }
    }

    /// The keys of these jobs that have no gate, with their queues.
    fn missing_gates(&self, jobs: &[NewJob]) -> Vec<(Name, Name)> {
        let keys = jobs.iter().filter_map(|job| Some((job.queue.clone(), job.key.clone()?)));
        let has_gate =
            |(queue, key): &(Name, Name)| self.queues.get(queue).is_some_and(|queue| queue.gates.has(key));
        keys.filter(|of_job| !has_gate(of_job)).collect()
    }

    /// A refused call leaves no job, no key and no gate behind.
    fn take_back(&mut self, jobs: &[NewJob], answers: &[Enqueued], new_gates: Vec<(Name, Name)>) {
        for (job, _) in jobs.iter().zip(answers).filter(|(_, answer)| **answer == Enqueued::New) {
            let seq = self.get(job.id).expect("this call inserted it").seq;
            self.remove(seq, Cause::NotKept);
            if let Some(key) = job.unique.filter(|_| !self.has(Bug::RefusedTakesKey)) {
                self.keys.give_up(&job.queue, key.digest, job.id);
            }
        }
        for (queue, key) in new_gates {
            if let Some(queue) = self.queues.get_mut(&queue) {
                queue.gates.forget(&key);
            }
        }
    }
}
