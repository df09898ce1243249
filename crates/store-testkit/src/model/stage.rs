//! Two stores side by side, told the same.

use std::fmt::Debug;
use std::sync::Arc;

use windlass_core::clock::{ManualClock, Timestamp};
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::store::{
    AttemptWrite, AttemptWritten, Begin, ClaimAnswer, ClaimRequest, Enqueued, NewLease, Progress, Records,
    Right, Settlement, SharedStore, StoreResult,
};
use windlass_core::{CallId, Fence, JobId, LeaseId, Outcome, judge};
use windlass_store_memory::MemoryStore;

use super::operation::{Operation, QUEUES, Settling, job_id};
use super::view::{
    View, comparable_claim, comparable_facts, comparable_lost, comparable_renewal, counted, listed,
};
use crate::Harness;
use crate::scene::{name, seconds, taken_back};

/// More than any run has, so that nothing depends on the order that the contract leaves open.
const ALL: u32 = 1_000;

/// The reference, the store under test, and what a run remembers.
pub(super) struct Stage<'a, H> {
    harness: &'a H,
    clock: ManualClock,
    reference: Side,
    tested: Side,
    leases: Vec<LeaseId>,
}

/// One of the two stores.
struct Side {
    store: SharedStore,
    /// Its time when the run began.
    start: Timestamp,
    /// Attempts that it handed out, the newest last, whatever became of them.
    attempts: Vec<ClaimedJob>,
    /// The newest call that handed jobs in, and what it handed in: a repeat is the same call.
    call: (CallId, Vec<NewJob>),
    /// Whether both stores count.
    compares_tallies: bool,
}

impl<'a, H: Harness> Stage<'a, H> {
    pub(super) async fn set(harness: &'a H) -> Self {
        let clock = ManualClock::default();
        let reference: SharedStore = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let first = lease(LeaseId::new(), seconds(20));
        let mut reference = Side::open(reference, &first).await;
        let mut tested = Side::open(harness.fresh().await, &first).await;
        let compares_tallies = tested.store.tallies().is_some();
        (reference.compares_tallies, tested.compares_tallies) = (compares_tallies, compares_tallies);
        let leases =
            (0..super::operation::LEASES).map(|index| if index == 0 { first.id } else { LeaseId::new() });
        Self { harness, clock, reference, tested, leases: leases.collect() }
    }

    /// Plays one operation on both and answers what differs then.
    pub(super) async fn play(&mut self, operation: &Operation) -> Result<(), String> {
        if let Operation::Advance(by) = operation {
            self.clock.advance(*by);
            self.harness.advance(*by).await;
        }
        let expected = self.reference.act(operation, &self.leases).await;
        let seen = self.tested.act(operation, &self.leases).await;
        if expected != seen {
            return Err(format!("the answer differs\nreference: {expected}\nstore:     {seen}"));
        }
        let expected = self.reference.view().await?;
        let seen = self.tested.view().await?;
        expected.difference(&seen).map_or(Ok(()), Err)
    }
}

impl Side {
    async fn open(store: SharedStore, first: &NewLease) -> Self {
        store.open(first).await.expect("a lease opens");
        let start = store.leases(1).await.expect("leases can be listed")[0].opened_at;
        let compares_tallies = false;
        Self { store, start, attempts: Vec::new(), call: (CallId::new(), Vec::new()), compares_tallies }
    }

    async fn view(&self) -> Result<View, String> {
        View::of(&self.store, self.start).await.map_err(|error| format!("looking fails: {error}"))
    }

    /// Hands jobs in, or the call before once more.
    async fn enqueue(&mut self, jobs: &[NewJob], is_repeat: bool) -> StoreResult<Vec<Enqueued>> {
        if !is_repeat {
            self.call = (CallId::new(), jobs.to_vec());
        }
        let (call, jobs) = &self.call;
        self.store.enqueue_once(*call, jobs.as_slice().into()).await
    }

    /// Does one operation and answers it as a comparable text.
    async fn act(&mut self, operation: &Operation, leases: &[LeaseId]) -> String {
        let store = Arc::clone(&self.store);
        let lease_id = |index: usize| leases[index % leases.len()];
        let ids = |jobs: &[usize]| jobs.iter().map(|&index| job_id(index)).collect::<Vec<JobId>>();
        match operation {
            Operation::Enqueue { jobs, is_repeat } => text(self.enqueue(jobs, *is_repeat).await),
            Operation::Begin { attempt, is_forged } => {
                let begin = self.attempt(*attempt).map(|job| Begin {
                    queue: job.queue.clone(),
                    id: job.id,
                    fence: fence(job, *is_forged),
                });
                text(store.begin(begin.as_slice().into()).await)
            }
            Operation::SettleLate(settling) => {
                text(store.settle_late(self.settlement(settling).as_slice().into()).await)
            }
            Operation::Held { lease, attempt } => {
                let nonce = self.attempt(*attempt).map_or(0, |job| job.fence.nonce);
                let held = store.held(lease_id(*lease), nonce, QUEUES.map(name).into(), ALL).await;
                text(held.map(comparable_lost))
            }
            Operation::Claim { lease, queues, kinds, limit, at_once, bytes, is_odd } => {
                let (queues, kinds) = (queues.clone(), kinds.clone());
                // Whether jobs with a key come first is decided by the nonce.
                let nonce = Fence::nonce() & !1 | u64::from(*is_odd);
                let (lease, limit, at_once, bytes) = (lease_id(*lease), *limit, *at_once, *bytes);
                let request = ClaimRequest { lease, nonce, queues, kinds, limit, at_once, bytes };
                text(store.claim(request).await.map(|answer| self.remember(answer, nonce)))
            }
            Operation::Settle(batch) => {
                let batch: Vec<_> = batch.iter().filter_map(|each| self.settlement(each)).collect();
                text(store.settle(batch.as_slice().into()).await)
            }
            Operation::Progress { attempt, is_forged, bytes } => {
                let report = self.attempt(*attempt).map(|job| Progress {
                    queue: job.queue.clone(),
                    id: job.id,
                    fence: fence(job, *is_forged),
                    progress: bytes.clone(),
                });
                text(store.progress(report.as_slice().into()).await)
            }
            Operation::Write { queue, what } => {
                text(records(&store).write(CallId::new(), queue, what.clone()).await)
            }
            Operation::Follow { right, settling, ends, then } => {
                self.follow(*right, settling, *ends, then.clone()).await
            }
            Operation::Open { lease: index, ttl } => text(store.open(&lease(lease_id(*index), *ttl)).await),
            Operation::Renew { lease, ttl } => {
                text(store.renew(lease_id(*lease), *ttl, ALL).await.map(comparable_renewal))
            }
            Operation::Close { lease } => text(store.close(lease_id(*lease)).await),
            Operation::ReapLost => self.reap_lost().await,
            Operation::ReapHastily { attempt } => self.reap_hastily(*attempt).await,
            Operation::Sweep => text(store.sweep(ALL).await),
            Operation::Cancel(jobs) => text(store.cancel(ids(jobs).into()).await),
            Operation::Withdraw(jobs) => text(store.withdraw(ids(jobs).into()).await),
            Operation::Retry(jobs) => text(store.retry(ids(jobs).into()).await),
            Operation::Delete(jobs) => text(store.delete(ids(jobs).into()).await),
            Operation::Define { queue, config } => text(store.define(queue, config).await),
            Operation::Remove(queue) => text(store.remove(queue).await),
            Operation::Promote => text(store.promote(ALL).await),
            Operation::Prune => text(store.prune(ALL).await),
            Operation::List { filter, limit } => text(listed(&store, filter, *limit).await),
            // Now and then, for this takes longer than to look at all else.
            Operation::Advance(_) if self.compares_tallies => text(counted(&store).await),
            Operation::Advance(_) => String::new(),
        }
    }

    /// Writes follow-ups of an attempt, with its end or without.
    async fn follow(&self, right: Right, settling: &Settling, ends: bool, then: FollowUps) -> String {
        let item = self.settlement(settling).map(|settlement| AttemptWrite {
            queue: settlement.queue,
            id: settlement.id,
            fence: settlement.fence,
            transition: ends.then_some(settlement.transition),
            then,
        });
        let answers = records(&self.store).write_fenced(right, item.as_slice().into()).await;
        text(answers.map(|answers| answers.into_iter().map(comparable_write).collect::<Vec<_>>()))
    }

    async fn reap_hastily(&self, attempt: usize) -> String {
        let outcome = Outcome::Stalled { worker: "model".into() };
        let hasty = Settling { attempt, is_forged: false, outcome, dice: 0.5 };
        text(self.store.reap(self.settlement(&hasty).as_slice().into()).await)
    }

    async fn reap_lost(&self) -> String {
        let mut lost = match self.store.lost(ALL).await {
            Ok(lost) => lost,
            Err(error) => return error.to_string(),
        };
        lost.sort_by_key(|job| job.id);
        let batch: Vec<_> = lost.iter().map(taken_back).collect();
        format!("{:?} {}", comparable_lost(lost), text(self.store.reap(batch.as_slice().into()).await))
    }

    fn remember(&mut self, answer: ClaimAnswer, nonce: u64) -> ClaimAnswer {
        match answer {
            // Stores say of limits what they know.
            ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited, ample: _ } => {
                self.attempts.extend(jobs.iter().cloned());
                let jobs = jobs.into_iter().map(|job| comparable_claim(job, nonce, self.start)).collect();
                ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited, ample: Vec::new() }
            }
            ClaimAnswer::LeaseLost => ClaimAnswer::LeaseLost,
        }
    }

    /// An attempt by its number, counted from the newest.
    fn attempt(&self, number: usize) -> Option<&ClaimedJob> {
        self.attempts.iter().rev().nth(number)
    }

    fn settlement(&self, settling: &Settling) -> Option<Settlement> {
        let job = self.attempt(settling.attempt)?;
        let facts = comparable_facts(job.facts.clone());
        let transition = judge(&facts, settling.outcome.clone(), settling.dice);
        Some(Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: fence(job, settling.is_forged),
            transition,
        })
    }
}

fn records(store: &SharedStore) -> &dyn Records {
    store.records().expect("the store keeps records")
}

fn comparable_write(answer: AttemptWritten) -> String {
    match answer {
        AttemptWritten::Refused(error) => error.to_string(),
        other => format!("{other:?}"),
    }
}

fn fence(job: &ClaimedJob, is_forged: bool) -> Fence {
    Fence { nonce: job.fence.nonce ^ u64::from(is_forged), ..job.fence }
}

fn lease(id: LeaseId, ttl: std::time::Duration) -> NewLease {
    NewLease { id, worker: "model".into(), ttl, queues: QUEUES.map(name).to_vec(), kinds: Vec::new() }
}

fn text<T: Debug>(answer: StoreResult<T>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => format!("error: {error}"),
    }
}
