//! Calls at once, through two handles where the store has such a thing: whatever they share, each takes effect
//! as if one had come after the other. No order of ids in a batch may make two calls wait for each other.

use std::collections::HashSet;

use windlass_core::job::NewJob;
use windlass_core::judge::stall_pause;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{Amended, ClaimRequest, Enqueued, Filter, Settled, Settlement, SharedStore};
use windlass_core::{JobId, Options, Outcome, State, StoreError, judge};

use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, TTL, claim_at_once, completed, failed, failed_for_good, ids, job, jobs, name,
    request, seconds, settlement, stalled,
};

/// A scene, and another handle on its content; the same one where there is no other.
pub(super) async fn pair(h: &impl Harness) -> (Scene, Scene) {
    let here = Scene::new(h).await;
    let store = h.another(&here.store).await.unwrap_or_else(|| here.store.clone());
    (here, Scene { store })
}

/// Runs two calls at once and answers both.
pub(super) async fn both<A, B>(
    first: impl Future<Output = A> + Send + 'static,
    second: impl Future<Output = B> + Send + 'static,
) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let (first, second) = (tokio::spawn(first), tokio::spawn(second));
    (first.await.expect("no call panics"), second.await.expect("no call panics"))
}

async fn settle(store: SharedStore, batch: Vec<Settlement>) -> Vec<Settled> {
    store.settle(batch.as_slice().into()).await.expect("settling is answered")
}

async fn reap(store: SharedStore, batch: Vec<Settlement>) -> Vec<Settled> {
    store.reap(batch.as_slice().into()).await.expect("reaping is answered")
}

async fn states(scene: &Scene, ids: &[JobId]) -> Vec<State> {
    let found = scene.store.get(ids.into()).await.expect("jobs can be read");
    found.into_iter().map(|job| job.expect("the job is there").state).collect()
}

fn reversed<T>(mut items: Vec<T>) -> Vec<T> {
    items.reverse();
    items
}

/// The same jobs in two batches, in opposite orders: each is new once.
pub async fn of_overlapping_batches_each_job_is_new_once(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..10 {
        let batch = jobs(30);
        let enqueue = |store: SharedStore, batch: Vec<NewJob>| async move {
            store.enqueue(batch.as_slice().into()).await.expect("a repeat is answered")
        };
        let first = enqueue(here.store.clone(), batch.clone());
        let second = enqueue(there.store.clone(), reversed(batch));
        let (first, second) = both(first, second).await;
        for answers in first.iter().zip(second.iter().rev()) {
            let existing = Enqueued::Existing(State::Ready);
            let is_new_once =
                answers == (&Enqueued::New, &existing) || answers == (&existing, &Enqueued::New);
            assert!(is_new_once, "round {round}: {answers:?}");
        }
    }
    assert_eq!(here.list(&Filter::default()).await.len(), 300);
    here.assert_counts().await;
}

/// Other jobs under the same ids: one batch is accepted as a whole, the other is refused as a whole.
pub async fn of_batches_that_take_the_same_ids_one_is_accepted(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..10 {
        let batch = jobs(10);
        let mut other: Vec<_> = batch
            .iter()
            .map(|job| NewJob::new("other", "{}", Options::new()).expect("a proper job").with_id(job.id))
            .collect();
        other.reverse();
        // Something of its own in each, which must not stay when the batch is refused.
        let (mut batch, ids) = (batch, other.iter().map(|job| job.id).collect::<Vec<_>>());
        batch.insert(0, job(Options::new()));
        other.insert(0, job(Options::new()));
        let enqueue = |store: SharedStore, batch: Vec<NewJob>| async move {
            store.enqueue(batch.as_slice().into()).await
        };
        let answers = both(enqueue(here.store.clone(), batch), enqueue(there.store.clone(), other)).await;
        match &answers {
            (Ok(accepted), Err(StoreError::IdTaken { id }))
            | (Err(StoreError::IdTaken { id }), Ok(accepted)) => {
                assert_eq!(*accepted, vec![Enqueued::New; 11], "round {round}");
                assert!(ids.contains(id), "round {round}");
            }
            _ => panic!("round {round}: {answers:?}"),
        }
        assert_eq!(here.list(&Filter::default()).await.len(), 11 * (round + 1), "round {round}");
    }
    here.assert_counts().await;
}

/// First jobs of a queue through both handles: the queue is there once and counts both.
pub async fn a_new_queue_counts_both(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..10 {
        let queue = format!("new-{round}");
        let batch = || (0..5).map(|_| job(Options::new().queue(&queue))).collect::<Vec<_>>();
        let enqueue = |store: SharedStore, batch: Vec<NewJob>| async move {
            store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted")
        };
        both(enqueue(here.store.clone(), batch()), enqueue(there.store.clone(), batch())).await;
        assert_eq!(there.count(&queue, State::Ready).await, 10);
    }
    here.assert_counts().await;
}

/// A queue without a definition comes with its first job and goes with its last, and its counts never drift.
pub async fn a_queue_may_come_and_go(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let come_and_go = |store: SharedStore| async move {
        for _ in 0..20 {
            let new = job(Options::new().queue("brief"));
            store.enqueue([new.clone()].into()).await.expect("a proper job is accepted");
            let answers = store.delete([new.id].into()).await.expect("deleting is answered");
            assert_eq!(answers, [Amended::Done(State::Ready)]);
        }
    };
    both(come_and_go(here.store.clone()), come_and_go(there.store.clone())).await;
    assert_eq!(here.store.queues(None, 9).await.expect("queues can be listed"), []);
    let last = here.add(Options::new().queue("brief")).await;
    assert_eq!(there.count("brief", State::Ready).await, 1);
    here.delete(last).await;
    there.assert_counts().await;
}

/// Claims that are limited by bytes hand out each job once, and together all of them.
pub async fn claims_of_few_bytes_share_out_the_jobs(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let sized = |bytes: usize| NewJob::new(KIND, vec![b'x'; bytes], Options::new()).expect("a proper job");
    let batch: Vec<_> = (0..120).map(|index| sized([0, 90, 100, 700][index % 4])).collect();
    here.store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted");
    let few = |lease| ClaimRequest { bytes: 300, ..request(lease, 9) };
    let handed_out = claim_at_once(&[&here, &there, &here, &there], few).await;
    assert_eq!(handed_out.len(), 120);
    assert_eq!(handed_out.into_iter().collect::<HashSet<_>>().len(), 120);
    here.assert_counts().await;
}

/// A claim never hands out what another one has found expired, and every job is handed out or dead.
pub async fn claims_do_not_hand_out_what_expires(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let mut plain = HashSet::new();
    for _ in 0..60 {
        let pair = [job(Options::new().expires_in(seconds(5))), job(Options::new())];
        plain.insert(pair[1].id);
        here.store.enqueue(pair.clone().into()).await.expect("proper jobs are accepted");
    }
    h.advance(seconds(5)).await;
    let mut handed_out = claim_at_once(&[&here, &there, &here, &there], |lease| request(lease, 7)).await;
    // Each may have stepped aside for the other.
    handed_out.extend(ids(&here.claim(here.lease().await, 999).await));
    assert_eq!(handed_out.len(), 60);
    assert_eq!(handed_out.into_iter().collect::<HashSet<_>>(), plain);
    assert_eq!(here.count(QUEUE, State::Dead).await, 60);
    here.assert_counts().await;
}

/// Amends jobs from the last one on while they are claimed from the first one on; answers each job's answer,
/// and whether it was handed out.
async fn amended_while_claimed<F>(
    here: &Scene,
    there: &Scene,
    amend: impl Fn(SharedStore, Vec<JobId>) -> F + Send + 'static,
) -> Vec<(JobId, Amended, bool)>
where
    F: Future<Output = Vec<Amended>> + Send + 'static,
{
    let all = here.add_many(40).await;
    let (store, backwards) = (there.store.clone(), reversed(all.clone()));
    let amending = async move {
        let mut answers = Vec::new();
        for chunk in backwards.chunks(5) {
            answers.extend(amend(store.clone(), chunk.to_vec()).await);
        }
        reversed(answers)
    };
    let store = here.store.clone();
    let claiming = async move { claim_at_once(&[&Scene { store }], |lease| request(lease, 3)).await };
    let (answers, handed_out) = both(amending, claiming).await;
    let handed_out: HashSet<_> = handed_out.into_iter().collect();
    all.into_iter().zip(answers).map(|(id, answer)| (id, answer, handed_out.contains(&id))).collect()
}

/// A job that waits is cancelled or handed out: the answer says which, and never both happen.
pub async fn a_cancel_and_a_claim_agree(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..5 {
        let cancel = |store: SharedStore, ids: Vec<JobId>| async move {
            store.cancel(ids.as_slice().into()).await.expect("cancelling is answered")
        };
        for (id, answer, is_running) in amended_while_claimed(&here, &there, cancel).await {
            let expected = if is_running { State::Running } else { State::Cancelled };
            assert_eq!(answer, Amended::Done(expected), "round {round}");
            let record = there.get(id).await;
            assert_eq!((record.state, record.cancel_requested), (expected, is_running), "round {round}");
        }
        here.assert_counts().await;
    }
}

/// A job that waits is deleted or handed out.
pub async fn a_delete_and_a_claim_agree(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..5 {
        let delete = |store: SharedStore, ids: Vec<JobId>| async move {
            store.delete(ids.as_slice().into()).await.expect("deleting is answered")
        };
        for (id, answer, is_running) in amended_while_claimed(&here, &there, delete).await {
            let expected =
                if is_running { Amended::Refused(State::Running) } else { Amended::Done(State::Ready) };
            assert_eq!(answer, expected, "round {round}");
            assert_eq!(there.find(id).await.is_some(), is_running, "round {round}");
        }
        here.assert_counts().await;
    }
}

/// A lease that is closed while it claims: what was handed out hangs on it and is lost, and nothing runs under
/// no lease.
pub async fn a_claim_and_a_close_agree(h: &impl Harness) {
    let (here, there) = pair(h).await;
    here.add_many(20).await;
    for round in 0..20 {
        let lease = here.lease().await;
        let (claiming, closing) = (here.store.clone(), there.store.clone());
        let claim = async move { claiming.claim(request(lease, 5)).await.expect("a claim is answered") };
        both(claim, async move { closing.close(lease).await.expect("a lease closes") }).await;
        let lost = here.store.lost(99).await.expect("lost jobs can be read");
        let running = here.count(QUEUE, State::Running).await;
        assert_eq!(running, lost.len() as u64, "round {round}: a job runs under no lease");
        let back = lost
            .iter()
            .map(|job| Settlement { transition: judge(&job.facts, Outcome::Returned, 0.5), ..stalled(job) });
        let answers = reap(there.store.clone(), back.collect()).await;
        assert!(answers.iter().all(|answer| *answer == Settled::Applied(State::Ready)), "round {round}");
    }
    assert_eq!(here.claim(here.lease().await, 99).await.len(), 20);
    here.assert_counts().await;
}

/// Two batches that settle the same attempts otherwise, in opposite orders: each attempt once, and the answer
/// says which of them counts.
pub async fn of_overlapping_settlements_one_counts(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..5 {
        here.add_many(60).await;
        let attempts = here.claim(here.lease().await, 60).await;
        let done = attempts.iter().map(|job| settlement(job, completed())).collect();
        let dead = attempts.iter().rev().map(|job| settlement(job, failed_for_good())).collect();
        let (done, dead) = both(settle(here.store.clone(), done), settle(there.store.clone(), dead)).await;
        let states = states(&here, &ids(&attempts)).await;
        for (answers, state) in done.iter().zip(dead.iter().rev()).zip(states) {
            let applied = Settled::Applied(state);
            let is_counted_once = match state {
                State::Completed => answers == (&applied, &Settled::Fenced),
                State::Dead => answers == (&Settled::Fenced, &applied),
                _ => false,
            };
            assert!(is_counted_once, "round {round}: {state}, {answers:?}");
        }
    }
    here.assert_counts().await;
}

/// A request to stop and an outcome at once: a job that would go back is cancelled whichever comes first, and
/// an end stays what it is.
pub async fn a_cancel_and_an_outcome_agree(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..24 {
        let outcome = [completed(), failed(), Outcome::Returned][round % 3].clone();
        let attempt = here.running(Options::new()).await;
        let batch = vec![settlement(&attempt, outcome)];
        let (store, id) = (there.store.clone(), attempt.id);
        let cancel = async move { store.cancel([id].into()).await.expect("cancelling is answered")[0] };
        let (settled, cancelled) = both(settle(here.store.clone(), batch), cancel).await;
        let end = if round % 3 == 0 { State::Completed } else { State::Cancelled };
        let went_back = [State::Completed, State::Scheduled, State::Ready][round % 3];
        let is_heeded = cancelled == Amended::Done(State::Running) && settled == [Settled::Applied(end)];
        let came_late = settled == [Settled::Applied(went_back)]
            && cancelled == if end == went_back { Amended::Refused(end) } else { Amended::Done(end) };
        assert!(is_heeded || came_late, "round {round}: {settled:?}, {cancelled:?}");
        let record = here.get(attempt.id).await;
        assert_eq!((record.state, record.cancel_requested), (end, false), "round {round}");
    }
    here.assert_counts().await;
}

/// Two reapers that found the same jobs, in opposite orders, take each back once.
pub async fn of_two_reapers_one_counts(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 1..=3 {
        if round == 1 {
            here.add_many(50).await;
        }
        h.advance(stall_pause(round)).await;
        here.claim(here.lease().await, 50).await;
        h.advance(TTL).await;
        let found = here.store.lost(99).await.expect("lost jobs can be read");
        assert_eq!(found.len(), 50);
        let batch: Vec<_> = found.iter().map(stalled).collect();
        let first = reap(here.store.clone(), batch.clone());
        let (first, second) = both(first, reap(there.store.clone(), reversed(batch))).await;
        for answers in first.into_iter().zip(second.into_iter().rev()) {
            let back = Settled::Applied(State::Scheduled);
            let is_once = answers == (back, Settled::Fenced) || answers == (Settled::Fenced, back);
            assert!(is_once, "round {round}: {answers:?}");
        }
        for job in here.list(&Filter::default()).await {
            assert_eq!((job.counters.stalls, job.counters.attempt), (round, round));
        }
        assert_eq!(there.store.lost(99).await.expect("lost jobs can be read"), []);
        here.assert_counts().await;
    }
}

/// A job that is sent back twice at once begins anew once.
pub async fn of_two_retries_one_counts(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..10 {
        let id = here.finished(Options::new().priority(round), failed_for_good()).await;
        let retry = |store: SharedStore| async move {
            store.retry([id].into()).await.expect("retrying is answered")[0]
        };
        let answers = both(retry(here.store.clone()), retry(there.store.clone())).await;
        let (done, refused) = (Amended::Done(State::Ready), Amended::Refused(State::Ready));
        assert!(answers == (done, refused) || answers == (refused, done), "round {round}: {answers:?}");
        here.delete(id).await;
    }
    here.assert_counts().await;
}

/// Promotions move each due job once, and together all of them.
pub async fn promotions_share_the_work(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let batch: Vec<_> = (0..200).map(|_| job(Options::new().delay(seconds(5)))).collect();
    here.store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted");
    h.advance(seconds(5)).await;
    let promote =
        |store: SharedStore| async move { store.promote(999).await.expect("promoting is answered").promoted };
    let (first, second) = both(promote(here.store.clone()), promote(there.store.clone())).await;
    // Each may have stepped aside for the other.
    assert_eq!(first + second + promote(here.store.clone()).await, 200);
    assert_eq!(there.count(QUEUE, State::Ready).await, 200);
    here.assert_counts().await;
}

/// However many prune at once, what the count keeps stays.
pub async fn prunes_leave_what_is_kept(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let lease = here.lease().await;
    let retention = Retention { completed: Keep::count(10), ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    here.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let prune = |store: SharedStore| async move { store.prune(999).await.expect("pruning is answered") };
    let mut kept = Vec::new();
    for round in 0..5 {
        let all = here.add_many(50).await;
        let attempts = here.claim(lease, 50).await;
        settle(here.store.clone(), attempts.iter().map(|job| settlement(job, completed())).collect()).await;
        let (first, second) = both(prune(here.store.clone()), prune(there.store.clone())).await;
        // Each may have stepped aside for the other.
        let pruned = first + second + prune(here.store.clone()).await;
        assert_eq!(pruned as usize, kept.len() + 40, "round {round}");
        kept = all[40..].to_vec();
        let left: Vec<_> = here.list(&Filter::default()).await.iter().rev().map(|job| job.id).collect();
        assert_eq!(left, kept, "round {round}");
        here.assert_counts().await;
    }
}
