//! The part every job goes through.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::{ClaimAnswer, ClaimRequest, StoreResult};
use crate::error::StoreError;
use crate::id::{CallId, Fence, JobId};
use crate::job::{JobRecord, NewJob};
use crate::judge::Transition;
use crate::name::Name;
use crate::size::TooLarge;
use crate::state::State;
use crate::stored;

/// Accepting, handing out and finishing jobs.
#[async_trait]
pub trait Jobs {
    /// Accepts all of the jobs or none of them, in order. A job whose id the store has already is answered
    /// with [`Enqueued::Existing`] and changes nothing, if queue, kind and payload are the same; otherwise
    /// the whole call is refused with `IdTaken`. A payload above its queue's cap refuses the whole call. The
    /// first job that something is wrong with names the refusal; of one job, the id is tested before the
    /// payload, so a repeat is answered even if the cap was lowered meanwhile. The id of a removed job is
    /// free again.
    ///
    /// A new job with a unique key takes the key for its queue, in the same write, unless another job of the queue holds
    /// it: then nothing is stored under the new id, and the answer names the holder, which stays as it is
    /// ([`Enqueued::Duplicate`]) or, if it waits and the new job says so ([`OnConflict::replaces`]), takes over the payload,
    /// the spec and the tags ([`Enqueued::Replaced`]); a scheduled one also the due instant that [`OnConflict::due_at`]
    /// says. What a holder takes over is written when no job of the call was refused. The payload is tested before the key.
    /// A key whose [instant](crate::unique::Lifetime::free_at) has come is free. Other keys
    /// are given up in the write in which their job changes its state ([`Lifetime::ends_with`]), and are not taken again by a
    /// job that comes back from a worker. A queue that is removed holds no key.
    ///
    /// A call that brings a job with a key for a queue that does not use the [rule of keys](crate::queue::RULE_OF_KEYS) is
    /// refused ([`StoreError::NoKeys`]) before anything else is tested. When all else is in order, a call that brings more jobs
    /// than the [capacity] of a queue leaves room for is refused as a whole ([`StoreError::QueueFull`]): what waits counts
    /// (blocked, scheduled and ready jobs), what the store has already and what meets the holder of its unique key does not.
    /// Calls that a store takes side by side may exceed the capacity by what they bring.
    ///
    /// A job that is [held](crate::options::Due::Held) is stored as `blocked`, due at the instant of its acceptance. It waits as
    /// others do (it counts, expires, holds keys, is cancelled and removed), but stands in no order: neither a claim nor a
    /// promotion moves it, nothing rings for it, and no claim names it as due next.
    ///
    /// [capacity]: crate::queue::QueueConfig::capacity
    /// [`Lifetime::ends_with`]: crate::unique::Lifetime::ends_with
    /// [`OnConflict::replaces`]: crate::unique::OnConflict::replaces
    /// [`OnConflict::due_at`]: crate::unique::OnConflict::due_at
    async fn enqueue(&self, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.enqueue_once(CallId::new(), jobs).await
    }

    /// As [`enqueue`](Jobs::enqueue), under an id of the call: one call is one acceptance, however often it is
    /// repeated. A call that the store has accepted within [`CALL_MEMORY`](super::CALL_MEMORY) stores nothing and is
    /// answered with [`Enqueued::Repeated`] for each of its jobs, also for those that have ended and are gone. The call
    /// is remembered in the same write as its jobs; one that is refused is not, and neither is one whose jobs all met the
    /// holder of their key: a repeat of that is tested anew. A repeat that comes while the first
    /// call is on its way never stores the jobs a second time.
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>>;

    /// Hands out ready jobs under a lease.
    ///
    /// For each queue of the request it first moves jobs whose expiry has passed to `dead` and jobs whose
    /// time has come to `ready`, at most [`PROMOTE_MAX`](super::PROMOTE_MAX) of each, and of those that are due at
    /// least as many as it may take; then takes jobs of the requested kinds in the documented order, up to the
    /// queue's share, until the request's limits are reached. Queues are served in the order of the request. Each
    /// taken job becomes `running`, its attempt counter (staying at its maximum) and fence rise by one, and it hangs
    /// on the lease. The nonce of all these fences is the request's. The attempt has not begun until
    /// [`begin`](Jobs::begin) says so.
    ///
    /// A queue whose definition has [rules](crate::queue::RULES) gives what they leave, decided in the same write and by the
    /// store's clock: nothing of what is paused ([`Pauses::permit`]); no more than its concurrency, counting every job of the
    /// queue that runs; no more than its rate permits, and what it gives is spent ([`Rate`]); and, where it has a concurrency or
    /// a rate ([`QueueConfig::limits`]), no more than can begin [at once](ClaimRequest::at_once): the answer names such queues.
    /// What it does not give stays as it is. The answer tells when to come back, for the end
    /// of a pause and for the next permit; for a job that ends where the concurrency was reached the bell rings instead. A
    /// permit is spent also if the job is given back.
    ///
    /// # Keys
    ///
    /// In a queue that uses the [rule of keys](crate::queue::RULE_OF_KEYS), ready jobs with a key stand behind the gate of their
    /// key, in the documented order. Such a queue gives jobs without a key first and then jobs with one where the request's
    /// nonce is even, and the other way round where it is odd; what the first part leaves of the limits is for the second.
    /// A gate comes into being, open, when a job of its key becomes ready and there is none. It has a *turn*, a number. A gate
    /// that is made or opens gets the lowest turn of those that are open then, or 0.
    ///
    /// A claim first opens the gates whose time has come. It then goes in rounds, as long as it wants more jobs, of kinds that are
    /// not paused. In a round it
    /// asks the first gates that are open, by turn and then by key in byte order, as many as it wants jobs; not those that gave
    /// less than their quota in a round before, and no more than [`GATES_LOOKED_MAX`] in all. Each may give
    /// [its part](crate::queue::KeyRules::quota) of the jobs wanted at the beginning of the round, as far as the limits of the request and the
    /// [rules for keys](crate::queue::KeyRules::leave) leave them, of the requested kinds that are not paused; it looks at its first jobs only,
    /// [`PASSED_MAX`] more than it may give. Its turn moves by [`KeyRules::cost`]. Then, of these, the first that is true:
    /// - no ready job of any kind is left behind it: the gate is forgotten;
    /// - its key is paused: it is closed until the pause ends, or the queue is defined;
    /// - so many jobs of its key run as may: it is closed until one of them no longer runs, or the queue is defined;
    /// - its rate has no permit: it is closed until there is one, or the queue is defined.
    ///
    /// An end opens the gate of its key, if there is one that is closed, and rings where the rules for keys have a concurrency.
    /// Permits of keys are spent as those of the queue are, and begin anew where their rate changes.
    ///
    /// # Aged priority
    ///
    /// A queue with an [aging](crate::queue::QueueConfig::aging) gives its ready jobs, and those behind each gate, by another
    /// order than the documented one: by [rank](crate::queue::Aged::rank), the due instant less the priority times the worth of a level, the
    /// lowest first; of one rank the higher priority first, then in the order of acceptance. So a job waits behind none of the
    /// same line that came more than the difference of their levels times the worth later. The definition at the time of the
    /// claim decides, also for jobs that waited before.
    ///
    /// A line is the ready jobs without a key of one kind, or those of all kinds behind one gate. Of a line a claim looks at no
    /// more than [`LEVELS_LOOKED_MAX`] levels that have ready jobs: from [a level](crate::queue::Aged::start) on that differs from claim to
    /// claim, downwards, and after the lowest from the highest on. So where a line has more levels, the order is that of the
    /// levels which a claim looks at, and each level has its claims.
    ///
    /// [`LEVELS_LOOKED_MAX`]: crate::queue::LEVELS_LOOKED_MAX
    /// [`GATES_LOOKED_MAX`]: crate::queue::GATES_LOOKED_MAX
    /// [`PASSED_MAX`]: crate::queue::PASSED_MAX
    /// [`KeyRules::cost`]: crate::queue::KeyRules::cost
    /// [`QueueConfig::limits`]: crate::queue::QueueConfig::limits
    /// [`Pauses::permit`]: crate::queue::Pauses::permit
    /// [`Rate`]: crate::queue::Rate
    ///
    /// A job that is taken and does not read is answered apart, for the worker to settle by its fence; a queue that
    /// cannot be asked is named. Neither keeps other jobs from being handed out.
    ///
    /// A job whose payload no longer fits ends the claim, so that it does not lose its turn to smaller ones.
    /// An expired job is never handed out: a queue in which more has expired than one call moves may give
    /// nothing this time. Every queue of the request is moved along, also when a limit is reached before its
    /// turn or no kinds are named; under a lost lease nothing is.
    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer>;

    /// Notes that the handlers of attempts have begun, each only if its fence still holds. What was claimed and has
    /// not begun did not stall when its lease is lost.
    ///
    /// In a call about several attempts, one whose job an open transaction has locked may be passed over and answered as
    /// fenced, so that it holds up no other. Alone it is waited for, briefly; if it stays locked, the store is unavailable.
    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>>;

    /// Records the outcome of attempts, each only if its fence still holds; whether the lease has run out
    /// does not matter as long as the job was not reaped. State, reason and counters are written as the
    /// transition says, after it has heeded a request to cancel; the request is then forgotten. The due
    /// instant moves only for [`NextDue::After`](crate::judge::NextDue::After). A terminal state is stamped
    /// with the time; progress stays.
    ///
    /// A queue may keep none: when its retention, as of this write, keeps none of the terminal state that the
    /// job comes to ([`Retention::keeps`](crate::queue::Retention::keeps)), the job is removed with its
    /// attempts in the same write instead of being stored. The answer is the same, and the bell rings as for
    /// any end; a repeat is fenced, and the id is free again.
    ///
    /// An attempt that did not complete is added to the job's records; a completed one is recorded by the
    /// job itself. Error texts are cut to the queue's cap by [`bounded_text`](crate::size::bounded_text); an
    /// output above its cap refuses that item. A call that is repeated after an unknown outcome is answered
    /// with [`Settled::Fenced`] where the first one took effect.
    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>>;

    /// Records the end of attempts that were reaped meanwhile, so that what was done is not done again: as
    /// [`settle`](Jobs::settle), for a job that `reap` has put back and that nothing has happened to since (no claim, no
    /// cancel, no retry by hand, no other payload by its unique key), if the fence is that of the reaped attempt and the
    /// transition is terminal. All else is fenced. The record of the lost attempt stays.
    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>>;

    /// Stores what running attempts report of themselves, each only if its fence still holds and it is not
    /// above the queue's cap for outputs.
    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>>;

    /// The jobs as they are now, with their attempts; nothing for an id that the store does not have.
    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>>;

    /// The states of jobs, of which nothing else is needed; nothing for an id that the store does not have.
    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<State>>> {
        let records = self.get(ids).await?;
        Ok(records.into_iter().map(|record| record.map(|record| record.state)).collect())
    }

    /// Tells in which queue jobs are, as a caller knows: a store that spreads queues over servers then need not look for them.
    /// Nothing depends on it, not even on its truth.
    fn seen_in(&self, _queue: &Name, _ids: &[JobId]) {}

    /// Cancels: a waiting job at once and with reason `requested`, a running one by a request that its worker
    /// hears of with its next renewal. Anything that came to its end is refused and stays.
    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>>;

    /// Cancels waiting jobs as [`cancel`](Jobs::cancel) does. One that runs is refused, and hears nothing of it.
    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>>;

    /// Sends jobs to `ready`, due now; a job that is [held](crate::options::Due::Held) starts in no other way. Dead and cancelled ones begin anew: counters, reason, output, progress,
    /// expiry and end are cleared, while the fence goes on and the records of attempts stay. They take their unique key
    /// again if its lifetime ends with them; while another job holds it they stay as they are ([`Amended::Held`]).
    /// Scheduled and blocked ones go as they are. Others are refused.
    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>>;

    /// Removes jobs for good, running ones excepted.
    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>>;

    /// As [`retry`](Jobs::retry), for jobs that are still as they were [seen](Seen), tested in the same write; others are
    /// refused with the state that they are in. A call names each job once.
    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>>;

    /// As [`delete`](Jobs::delete), for jobs that are still as they were [seen](Seen), as by
    /// [`retry_seen`](Jobs::retry_seen).
    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>>;
}

/// The answer for one enqueued job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Enqueued {
    /// It was stored.
    New,
    /// It was there already, in this state.
    Existing(State),
    /// This very call was accepted before.
    Repeated,
    /// It was not stored: this job holds its unique key.
    Duplicate {
        /// The job that holds the key.
        id: JobId,
        /// Its state; nothing where the job is gone and only its key is still held, also if its id is used again.
        state: Option<State>,
    },
    /// It was not stored: this job holds its unique key, and says now what it says.
    Replaced(JobId),
}

impl Enqueued {
    /// Whether the job was not stored because another one holds its unique key.
    pub const fn is_duplicate(&self) -> bool {
        matches!(self, Self::Duplicate { .. } | Self::Replaced(_))
    }
}

/// The job that a store has under the id of one that is handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Taken<'a> {
    /// Where it is in its life.
    pub state: State,
    /// Its queue.
    pub queue: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its payload.
    pub payload: &'a [u8],
}

impl Taken<'_> {
    /// The answer for a job that is handed in under the same id: it is the same job once more if queue, kind
    /// and payload are the same, whatever its other options; otherwise it is refused.
    pub fn answer(&self, job: &NewJob) -> StoreResult<Enqueued> {
        let has = (self.queue, self.kind, self.payload);
        if has == (job.queue.as_str(), job.kind.as_str(), &job.payload[..]) {
            Ok(Enqueued::Existing(self.state))
        } else {
            Err(StoreError::IdTaken { id: job.id })
        }
    }
}

/// An attempt that has begun.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begin {
    /// The queue that the job was claimed from, as in [`Settlement`].
    pub queue: Name,
    /// The job.
    pub id: JobId,
    /// The right to write.
    pub fence: Fence,
}

/// The outcome of one attempt on its way into the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settlement {
    /// The queue that the job was claimed from: a store that spreads queues finds the job by it. Another
    /// queue than the job's is answered as a stale fence is.
    pub queue: Name,
    /// The job.
    pub id: JobId,
    /// The right to write.
    pub fence: Fence,
    /// What the judge decided.
    pub transition: Transition,
}

/// What a running attempt reports of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The queue that the job was claimed from, as in [`Settlement`].
    pub queue: Name,
    /// The job.
    pub id: JobId,
    /// The right to write.
    pub fence: Fence,
    /// The report, encoded.
    #[serde(with = "stored::bytes")]
    pub progress: Bytes,
}

/// The answer for one fenced write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Settled {
    /// It was written, and this is the job's state now.
    Applied(State),
    /// The fence is stale, the job does not run, or it is gone; nothing was written.
    Fenced,
    /// The fence holds, but the output or progress is above the queue's cap; nothing was written.
    Refused(TooLarge),
}

/// A job as it was seen. One that has ended and has the same state and fence later has not run meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The job.
    pub id: JobId,
    /// The state that it was in.
    pub state: State,
    /// How often it had been claimed.
    pub fence: u64,
}

impl Seen {
    /// A job as this record shows it.
    pub fn of(job: &JobRecord) -> Self {
        Self { id: job.id, state: job.state, fence: job.fence }
    }

    /// Whether a job that is like this now is as it was seen.
    pub fn is(&self, state: State, fence: u64) -> bool {
        self.state == state && self.fence == fence
    }
}

/// The answer for one change that a person asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Amended {
    /// Done; the job's state now, or before it was deleted. For a running job that was asked to stop this
    /// is still `running`.
    Done(State),
    /// Not possible in this state.
    Refused(State),
    /// Not possible while this job holds its unique key.
    Held(JobId),
    /// The store does not have it.
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;

    #[test]
    fn queue_kind_and_payload_make_the_same_job() {
        let job = NewJob::new("k", "p", Options::new().queue("q").priority(9)).unwrap();
        let same = Taken { state: State::Dead, queue: "q", kind: "k", payload: b"p" };
        assert_eq!(same.answer(&job).unwrap(), Enqueued::Existing(State::Dead));
        for other in
            [Taken { queue: "r", ..same }, Taken { kind: "K", ..same }, Taken { payload: b"", ..same }]
        {
            assert!(matches!(other.answer(&job), Err(StoreError::IdTaken { id }) if id == job.id));
        }
    }
}
