//! What is asked about jobs. [`claim`] and the way in (`accept`) have their own files; the rest is here.

mod claim;

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::job::{JobRecord, NewJob};
use windlass_core::outcome::Reason;
use windlass_core::queue::QueueConfig;
use windlass_core::size::TooLarge;
use windlass_core::store::{
    Amended, Begin, Cause, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Progress, Right, Seen, Settled,
    Settlement, StoreResult,
};
use windlass_core::{CallId, Fence, JobId, Name, State};

use crate::MemoryStore;
use crate::bug::Bug;
use crate::job::{Job, Seq};
use crate::table::Table;

#[async_trait]
impl Jobs for MemoryStore {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.write(|table, now| table.accept_call(call, &jobs, now))
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        Ok(self.write(|table, now| table.claim(&request, now)))
    }

    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        Ok(self.write(|table, now| {
            settlements.iter().map(|each| table.settle(each, Cause::Settled, now)).collect()
        }))
    }

    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        Ok(self.write(|table, _| attempts.iter().map(|each| table.begin(each)).collect()))
    }

    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        Ok(self.write(|table, now| settlements.iter().map(|each| table.settle_late(each, now)).collect()))
    }

    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        Ok(self.write(|table, _| reports.iter().map(|each| table.progress(each)).collect()))
    }

    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        let record = |job: &Job| job.record().with_attempts(job.attempts.clone(), job.last_claim());
        Ok(self.read(|table, _| ids.iter().map(|&id| table.get(id).map(record)).collect()))
    }

    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        Ok(self.write(|table, now| ids.iter().map(|&id| table.cancel(id, now)).collect()))
    }

    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        Ok(self.write(|table, now| ids.iter().map(|&id| table.withdraw(id, now)).collect()))
    }

    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        Ok(self.write(|table, now| ids.iter().map(|&id| table.retry(id, now)).collect()))
    }

    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        Ok(self.write(|table, _| ids.iter().map(|&id| table.delete(id)).collect()))
    }

    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        let retry = |table: &mut Table, now, seen: &Seen| {
            table.changed_since(seen).map_or_else(|| table.retry(seen.id, now), Amended::Refused)
        };
        Ok(self.write(|table, now| jobs.iter().map(|seen| retry(table, now, seen)).collect()))
    }

    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        let delete = |table: &mut Table, seen: &Seen| {
            table.changed_since(seen).map_or_else(|| table.delete(seen.id), Amended::Refused)
        };
        Ok(self.write(|table, _| jobs.iter().map(|seen| delete(table, seen)).collect()))
    }
}

impl Table {
    /// Writes the outcome of an attempt if its fence still holds. That its lease may have run out meanwhile
    /// does not matter as long as no reaper has taken the job back.
    pub(crate) fn settle(&mut self, settlement: &Settlement, cause: Cause, now: Timestamp) -> Settled {
        let Settlement { queue, id, fence, .. } = settlement;
        let unfenced =
            self.get(*id).filter(|job| self.has(Bug::SettleUnfenced) && job.state == State::Running);
        let Some(job) = self.fenced(queue, *id, *fence).or(unfenced) else {
            if self.has(Bug::CountStale) {
                self.count_stale(settlement);
            }
            return Settled::Fenced;
        };
        self.write_outcome(job.seq, settlement, cause, now)
    }

    /// Writes the end of an attempt that was reaped, if nothing has happened to its job since.
    fn settle_late(&mut self, settlement: &Settlement, now: Timestamp) -> Settled {
        let Settlement { queue, id, fence, transition } = settlement;
        match self.reaped(queue, *id, *fence) {
            Some(job) if transition.state.is_terminal() => {
                self.write_outcome(job.seq, settlement, Cause::Settled, now)
            }
            _ => Settled::Fenced,
        }
    }

    /// The job that was taken back from this attempt, if nothing has happened to it since.
    pub(crate) fn reaped(&self, queue: &Name, id: JobId, fence: Fence) -> Option<&Job> {
        let is_untouched =
            |job: &&Job| job.is_reaped || (self.has(Bug::SettleLateAlways) && job.state.is_waiting());
        self.get(id).filter(is_untouched).filter(|job| job.new.queue == *queue && job.fence == fence)
    }

    /// Writes the outcome of an attempt by this right.
    pub(crate) fn end(&mut self, right: Right, settlement: &Settlement, now: Timestamp) -> Settled {
        match right {
            Right::Fence => self.settle(settlement, Cause::Settled, now),
            Right::LostLease => self.reap(settlement, now),
            Right::Late => self.settle_late(settlement, now),
        }
    }

    fn begin(&mut self, attempt: &Begin) -> Settled {
        match self.fenced(&attempt.queue, attempt.id, attempt.fence).map(|job| job.seq) {
            Some(seq) => Settled::Applied(self.note(seq, |job| job.has_begun = true)),
            None => Settled::Fenced,
        }
    }

    fn write_outcome(&mut self, seq: Seq, settlement: &Settlement, cause: Cause, now: Timestamp) -> Settled {
        let Settlement { queue, transition, .. } = settlement;
        let &QueueConfig { caps, retention, .. } = self.config(queue);
        if let Err(error) = transition.check_output(caps.output) {
            return Settled::Refused(error);
        }
        let mut transition = transition.clone();
        if self.has(Bug::CountAttemptLate) {
            transition.counters.attempt += 1;
        }
        let error_cap = if self.has(Bug::UncutErrors) { usize::MAX } else { caps.error };
        let forgets_cancel = self.has(Bug::ForgetCancel);
        let ending = Some(transition.ending);
        let state = self.change(seq, (cause, ending), |job| {
            job.cancel_requested &= !forgets_cancel;
            job.apply(transition, error_cap, now);
        });
        if !retention.keeps(state) && !self.has(Bug::StoreUnkept) {
            self.remove(seq, Cause::NotKept);
        }
        Settled::Applied(state)
    }

    fn progress(&mut self, report: &Progress) -> Settled {
        let unfenced = self.get(report.id).filter(|_| self.has(Bug::ProgressUnfenced));
        let Some(job) = self.fenced(&report.queue, report.id, report.fence).or(unfenced) else {
            return Settled::Fenced;
        };
        let (seq, cap) = (job.seq, self.config(&job.new.queue).caps.output);
        match TooLarge::check("progress", report.progress.len(), cap) {
            Ok(()) => Settled::Applied(self.note(seq, |job| job.progress = Some(report.progress.clone()))),
            Err(error) => Settled::Refused(error),
        }
    }

    fn withdraw(&mut self, id: JobId, now: Timestamp) -> Amended {
        match self.get(id).map(|job| job.state) {
            Some(State::Running) if !self.has(Bug::WithdrawRunning) => Amended::Refused(State::Running),
            _ => self.cancel(id, now),
        }
    }

    fn cancel(&mut self, id: JobId, now: Timestamp) -> Amended {
        let Some((seq, state)) = self.get(id).map(|job| (job.seq, job.state)) else {
            return Amended::Missing;
        };
        if state.is_terminal() {
            return Amended::Refused(state);
        }
        if state.is_waiting() {
            return Amended::Done(self.change(seq, (Cause::Requested, None), |job| {
                job.end(State::Cancelled, Reason::Requested, now);
            }));
        }
        if !self.has(Bug::LoseCancelRing) {
            self.ring(Rings::cancel(id));
        }
        Amended::Done(self.note(seq, |job| job.cancel_requested = true))
    }

    fn retry(&mut self, id: JobId, now: Timestamp) -> Amended {
        let Some((seq, state)) = self.get(id).map(|job| (job.seq, job.state)) else {
            return Amended::Missing;
        };
        let is_sent = match state {
            State::Blocked => !self.has(Bug::HoldForEver),
            State::Scheduled | State::Dead | State::Cancelled => true,
            State::Ready | State::Running | State::Completed => false,
        };
        if !is_sent {
            return Amended::Refused(state);
        }
        if state.is_terminal()
            && let Some(holder) = self.take_key_again(id, now)
        {
            return Amended::Held(holder);
        }
        let resets_fence = self.has(Bug::ResetFenceOnRetry);
        Amended::Done(self.change(seq, (Cause::Requested, None), |job| {
            job.restart(now);
            if resets_fence {
                job.fence.number = 0;
            }
        }))
    }

    /// Takes the unique key of a job that begins anew, if it has one that ends with it. Answers the job that holds it.
    fn take_key_again(&mut self, id: JobId, now: Timestamp) -> Option<JobId> {
        let NewJob { queue, unique, .. } = &self.get(id)?.new;
        let key = unique.filter(|key| key.lifetime.free_at(now).is_none())?;
        let queue = queue.clone();
        let holder = self.keys.holder(&queue, key.digest, now).filter(|_| !self.has(Bug::RetryTakesHeldKey));
        if holder.is_none() {
            self.keys.take(&queue, key, id, now);
        }
        holder
    }

    /// The state of a job that is not as it was seen.
    fn changed_since(&self, seen: &Seen) -> Option<State> {
        let job = self.get(seen.id).filter(|job| !seen.is(job.state, job.fence.number))?;
        (!self.has(Bug::IgnoreSeen)).then_some(job.state)
    }

    fn delete(&mut self, id: JobId) -> Amended {
        let Some((seq, state)) = self.get(id).map(|job| (job.seq, job.state)) else {
            return Amended::Missing;
        };
        if state == State::Running {
            return Amended::Refused(state);
        }
        self.remove(seq, Cause::Requested);
        Amended::Done(state)
    }
}
