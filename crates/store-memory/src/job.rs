//! One job as the table holds it, and what a claim, an outcome or a person makes of it. Nothing here knows
//! of the orders that jobs are kept in: changes go through the table, which keeps those in step.

use std::sync::Arc;

use windlass_core::clock::Timestamp;
use windlass_core::job::{
    ATTEMPTS_KEPT, AttemptRecord, ClaimedJob, Counters, Facts, JobRecord, LastClaim, LostJob, NewJob,
};
use windlass_core::judge::Transition;
use windlass_core::outcome::Reason;
use windlass_core::size::Caps;
use windlass_core::store::Taken;
use windlass_core::{Bytes, Fence, LeaseId, State};

/// Where a job stands in the order of acceptance.
pub(crate) type Seq = u64;

#[derive(Debug)]
pub(crate) struct Job {
    /// As it was handed in.
    pub(crate) new: NewJob,
    pub(crate) seq: Seq,
    pub(crate) state: State,
    pub(crate) reason: Option<Reason>,
    pub(crate) output: Option<Bytes>,
    pub(crate) progress: Option<Bytes>,
    pub(crate) counters: Counters,
    /// The fence of the newest claim; its number is 0 before the first.
    pub(crate) fence: Fence,
    /// The newest claim, also after it ended.
    pub(crate) claim: Option<Claim>,
    /// Whether the handler of the newest claim has begun.
    pub(crate) has_begun: bool,
    /// The newest attempt was taken back by a reaper, and nothing has happened to the job since.
    pub(crate) is_reaped: bool,
    pub(crate) cancel_requested: bool,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) due_at: Timestamp,
    pub(crate) expires_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    /// Attempts that ended in any way but completed, oldest first.
    pub(crate) attempts: Vec<AttemptRecord>,
}

/// Who took a job, and when.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) lease: LeaseId,
    pub(crate) worker: Arc<str>,
    pub(crate) at: Timestamp,
}

impl Job {
    pub(crate) fn accepted(new: NewJob, seq: Seq, now: Timestamp) -> Self {
        let (state, due_at) = new.entry(now);
        Self {
            seq,
            state,
            reason: None,
            output: None,
            progress: None,
            counters: Counters::default(),
            fence: Fence { number: 0, nonce: 0 },
            claim: None,
            has_begun: false,
            is_reaped: false,
            cancel_requested: false,
            enqueued_at: now,
            due_at,
            expires_at: new.expires.map(|expiry| now.plus(expiry)),
            finished_at: None,
            attempts: Vec::new(),
            new,
        }
    }

    /// What tells whether a job that is handed in under the same id is this one once more.
    pub(crate) fn taken(&self) -> Taken<'_> {
        let NewJob { queue, kind, payload, .. } = &self.new;
        Taken { state: self.state, queue: queue.as_str(), kind: kind.as_str(), payload }
    }

    /// When it expires, as long as it can: it waits, and no attempt of it counts.
    pub(crate) fn expiry(&self) -> Option<Timestamp> {
        self.expires_at.filter(|_| self.state.is_waiting() && self.counters.attempt == 0)
    }

    /// The lease that it hangs on.
    pub(crate) fn lease(&self) -> Option<LeaseId> {
        self.claim.as_ref().filter(|_| self.state == State::Running).map(|claim| claim.lease)
    }

    pub(crate) fn start(&mut self, claim: Claim, nonce: u64) {
        self.state = State::Running;
        self.counters.attempt = self.counters.attempt.saturating_add(1);
        self.fence = Fence { number: self.fence.number + 1, nonce };
        self.claim = Some(claim);
        self.has_begun = false;
        self.is_reaped = false;
    }

    /// Writes what the judge decided, unless it would put back a job that was asked to cancel.
    pub(crate) fn apply(&mut self, transition: Transition, error_cap: usize, now: Timestamp) {
        let next = transition.honoring_cancel(self.cancel_requested);
        if let (true, Some(claim)) = (next.is_recorded(), self.last_claim()) {
            self.attempts.push(AttemptRecord {
                ended_at: Some(now),
                ending: Some(next.ending),
                error: next.bounded_error(error_cap),
                ..claim.attempt(self.fence.number, self.counters.attempt)
            });
            let surplus = self.attempts.len().saturating_sub(ATTEMPTS_KEPT);
            self.attempts.drain(..surplus);
        }
        self.state = next.state;
        self.is_reaped = false;
        self.reason = next.reason;
        self.counters = next.counters;
        self.cancel_requested = false;
        if let Some(delay) = next.delay() {
            self.due_at = now.plus(delay);
        }
        self.output = next.kept_output().cloned();
        self.finished_at = next.finished_at(now);
    }

    /// Says from now on what a job says that met this one as the holder of its key. Its place stays, but for the due
    /// instant of one that waits for its time.
    pub(crate) fn say(&mut self, new: NewJob, now: Timestamp) {
        let (_, new_due) = new.entry(now);
        let NewJob { payload, spec, tags, on_conflict, .. } = new;
        (self.new.payload, self.new.spec, self.new.tags) = (payload, spec, tags);
        // An outcome of before was about another payload.
        self.is_reaped = false;
        if self.state == State::Scheduled
            && let Some(due_at) = on_conflict.due_at(self.enqueued_at, new_due)
        {
            self.due_at = due_at;
        }
    }

    /// Ends a waiting job.
    pub(crate) fn end(&mut self, state: State, reason: Reason, now: Timestamp) {
        self.state = state;
        self.is_reaped = false;
        self.reason = Some(reason);
        self.finished_at = Some(now);
    }

    /// Sends a job back by hand. One that had ended begins anew, but its fence and its history go on, and
    /// its expiry does not count any more: the caller asks for it to run now.
    pub(crate) fn restart(&mut self, now: Timestamp) {
        if self.state.is_terminal() {
            self.counters = Counters::default();
            self.reason = None;
            self.output = None;
            self.progress = None;
            self.expires_at = None;
            self.finished_at = None;
        }
        self.state = State::Ready;
        self.is_reaped = false;
        self.due_at = now;
    }

    /// The newest claim, as records of attempts begin.
    pub(crate) fn last_claim(&self) -> Option<LastClaim> {
        let claim = self.claim.as_ref()?;
        Some(LastClaim { worker: claim.worker.to_string(), at: claim.at })
    }

    fn facts(&self) -> Facts {
        Facts { counters: self.counters, spec: self.new.spec.clone() }
    }

    /// What its worker gets.
    pub(crate) fn claimed(&self, caps: Caps, now: Timestamp) -> ClaimedJob {
        let new = &self.new;
        ClaimedJob {
            id: new.id,
            queue: new.queue.clone(),
            kind: new.kind.clone(),
            payload: new.payload.clone(),
            priority: new.priority,
            key: new.key.clone(),
            fence: self.fence,
            facts: self.facts(),
            caps,
            tags: new.tags.clone(),
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            claimed_at: now,
        }
    }

    /// What a reaper gets.
    pub(crate) fn lost(&self) -> LostJob {
        LostJob {
            id: self.new.id,
            fence: self.fence,
            facts: self.facts(),
            queue: self.new.queue.clone(),
            kind: self.new.kind.clone(),
            worker: self.claim.as_ref().map(|claim| claim.worker.to_string()).unwrap_or_default(),
            has_begun: self.has_begun,
            unreadable: None,
        }
    }

    /// What anyone can look at, without its attempts.
    pub(crate) fn record(&self) -> JobRecord {
        let new = &self.new;
        JobRecord {
            id: new.id,
            queue: new.queue.clone(),
            kind: new.kind.clone(),
            state: self.state,
            reason: self.reason,
            payload: new.payload.clone(),
            output: self.output.clone(),
            progress: self.progress.clone(),
            priority: new.priority,
            key: new.key.clone(),
            unique: new.unique,
            counters: self.counters,
            spec: new.spec.clone(),
            tags: new.tags.clone(),
            fence: self.fence.number,
            cancel_requested: self.cancel_requested,
            has_begun: self.has_begun && self.state == State::Running,
            unreadable: None,
            enqueued_at: self.enqueued_at,
            due_at: self.due_at,
            expires_at: self.expires_at,
            finished_at: self.finished_at,
            attempts: Vec::new(),
        }
    }
}
