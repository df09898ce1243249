//! A queue may keep none of an end: the write that would store it removes the job, and nothing else differs.

use windlass_core::bell::Topic;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::retry::Policy;
use windlass_core::size::Caps;
use windlass_core::store::{Amended, Filter, Settled};
use windlass_core::{Bytes, JobId, Options, Outcome, State};

use super::wakeup::assert_rung;
use crate::Harness;
use crate::scene::{
    KIND, QUEUE, Scene, TTL, completed, failed, failed_for_good, jobs, name, one, seconds, settlement,
    stalled,
};

const NONE: Retention = Retention { completed: Keep::NONE, dead: Keep::NONE, cancelled: Keep::NONE };

async fn define(scene: &Scene, retention: Retention) {
    let config = QueueConfig { retention, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
}

async fn keeping(h: &impl Harness, retention: Retention) -> Scene {
    let scene = Scene::new(h).await;
    define(&scene, retention).await;
    scene
}

async fn assert_empty(scene: &Scene) {
    assert_eq!(scene.list(&Filter::default()).await, []);
    scene.assert_counts().await;
}

async fn reap_one(scene: &Scene) -> Settled {
    let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
    one(scene.store.reap([stalled(&lost)].into()).await.expect("reaping is answered"))
}

/// A completed job is gone with the answer, with an output or without, alone or in a batch.
pub async fn a_completed_job_leaves_nothing(h: &impl Harness) {
    let scene = keeping(h, Retention { completed: Keep::NONE, ..Retention::default() }).await;
    for output in [None, Some(Bytes::from_static(b"out"))] {
        let job = scene.running(Options::new()).await;
        assert_eq!(scene.settle(&job, Outcome::Completed { output }).await, State::Completed);
        assert_eq!(scene.find(job.id).await, None);
        assert_empty(&scene).await;
    }
    scene.add_many(5).await;
    let jobs = scene.claim(scene.lease().await, 5).await;
    let mut batch: Vec<_> = jobs.iter().map(|job| settlement(job, completed())).collect();
    batch[1] = settlement(&jobs[1], failed_for_good());
    batch[2].fence.nonce ^= 1;
    batch.push(batch[0].clone());
    let done = Settled::Applied(State::Completed);
    let dead = Settled::Applied(State::Dead);
    let answers = scene.store.settle(batch.as_slice().into()).await.expect("settling is answered");
    assert_eq!(answers, [done, dead, Settled::Fenced, done, done, Settled::Fenced]);
    let found = scene.store.get(jobs.iter().map(|job| job.id).collect::<Vec<_>>().into()).await;
    let states: Vec<_> =
        found.expect("jobs can be read").into_iter().map(|job| job.map(|job| job.state)).collect();
    assert_eq!(states, [None, Some(State::Dead), Some(State::Running), None, None]);
    scene.assert_counts().await;
}

/// Every other end of an attempt leaves nothing either, not even the attempts before it; a job that goes back
/// stays, with its attempts.
pub async fn a_dead_or_cancelled_job_leaves_nothing(h: &impl Harness) {
    let scene = keeping(h, NONE).await;
    let ends = [
        (failed_for_good(), State::Dead),
        (Outcome::Discard { why: "not wanted".into() }, State::Cancelled),
        (Outcome::Cancelled, State::Cancelled),
    ];
    for (outcome, state) in ends {
        let job = scene.running(Options::new()).await;
        assert_eq!(scene.settle(&job, failed()).await, State::Scheduled);
        assert_eq!(scene.get(job.id).await.attempts.len(), 1);
        h.advance(seconds(11)).await;
        let again = scene.claim_one(scene.lease().await).await;
        assert_eq!(scene.settle(&again, outcome).await, state);
        assert_empty(&scene).await;
    }
    let job = scene.running(Options::new().retry(Policy::never())).await;
    assert_eq!(scene.settle(&job, failed()).await, State::Dead);
    assert_empty(&scene).await;
    let job = scene.running(Options::new()).await;
    scene.cancel(job.id).await;
    assert_eq!(scene.settle(&job, Outcome::Returned).await, State::Cancelled, "the request is heeded");
    assert_empty(&scene).await;
}

/// A lost job that comes to its end when it is reaped leaves nothing, and before that it stays.
pub async fn a_reaped_job_leaves_nothing(h: &impl Harness) {
    let scene = keeping(h, NONE).await;
    scene.add(Options::new().max_stalls(1)).await;
    for state in [State::Scheduled, State::Dead] {
        scene.claim_one(scene.lease().await).await;
        h.advance(TTL).await;
        assert_eq!(reap_one(&scene).await, Settled::Applied(state));
        h.advance(seconds(1)).await;
        scene.assert_counts().await;
    }
    assert_empty(&scene).await;
    let job = scene.running(Options::new()).await;
    scene.cancel(job.id).await;
    h.advance(TTL).await;
    assert_eq!(reap_one(&scene).await, Settled::Applied(State::Cancelled));
    assert_empty(&scene).await;
    assert_eq!(scene.store.lost(9).await.expect("lost jobs can be read"), []);
    assert_eq!(scene.settle_raw(settlement(&job, completed())).await, Settled::Fenced);
}

/// The removal takes the job off its lease, and a lease without jobs can be forgotten.
pub async fn a_removed_job_leaves_its_lease(h: &impl Harness) {
    let scene = keeping(h, NONE).await;
    let job = scene.running(Options::new()).await;
    scene.settle(&job, completed()).await;
    let lease = one(scene.store.leases(9).await.expect("leases can be listed"));
    assert_eq!(lease.running, 0);
    scene.store.close(lease.id).await.expect("a lease closes");
    assert_eq!(scene.store.leases(9).await.expect("leases can be listed"), []);
}

async fn assert_fenced(scene: &Scene, job: &ClaimedJob) {
    for outcome in [completed(), failed(), failed_for_good()] {
        assert_eq!(scene.settle_raw(settlement(job, outcome)).await, Settled::Fenced);
    }
}

/// A repeat of the outcome is fenced, and the id is free: a job under it is a new one, that neither the fence
/// nor anything else of the old one touches.
pub async fn a_repeat_is_fenced_and_the_id_is_free(h: &impl Harness) {
    let scene = keeping(h, NONE).await;
    let id = JobId::new();
    let long =
        |byte: u8| NewJob::new(KIND, vec![byte; 5_000], Options::new()).expect("a proper job").with_id(id);
    for (byte, outcome) in [(b'a', completed()), (b'b', failed_for_good()), (b'c', completed())] {
        scene.enqueue(long(byte)).await;
        let lease = scene.lease().await;
        let first = scene.claim_one(lease).await;
        scene.settle(&first, Outcome::Returned).await;
        let job = scene.claim_one(lease).await;
        scene.settle(&job, outcome).await;
        assert_fenced(&scene, &job).await;
        assert_eq!((scene.cancel(id).await, scene.retry(id).await), (Amended::Missing, Amended::Missing));

        scene.enqueue(long(byte + 10)).await;
        let record = scene.get(id).await;
        assert_eq!((record.state, record.fence, record.attempts.len()), (State::Ready, 0, 0));
        assert_eq!(record.payload, long(byte + 10).payload);
        assert_fenced(&scene, &job).await;
        let next = scene.claim_one(lease).await;
        assert_fenced(&scene, &job).await;
        assert_fenced(&scene, &first).await;
        scene.settle(&next, completed()).await;
    }
    assert_empty(&scene).await;
}

/// An output above the cap refuses the item, and the job goes on running.
pub async fn a_refused_output_removes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let caps = Caps { output: 4, ..Caps::default() };
    let config = QueueConfig { retention: NONE, caps, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let job = scene.running(Options::new()).await;
    let output = Some(Bytes::from_static(b"12345"));
    let answer = scene.settle_raw(settlement(&job, Outcome::Completed { output })).await;
    assert!(matches!(answer, Settled::Refused(_)), "{answer:?}");
    assert_eq!(scene.state(job.id).await, State::Running);
    scene.assert_counts().await;
}

/// Only the ends that the queue keeps none of are removed, as of the write, and in that queue alone.
pub async fn each_state_and_queue_for_itself(h: &impl Harness) {
    let scene = keeping(h, Retention { dead: Keep::NONE, ..Retention::default() }).await;
    let done = scene.finished(Options::new(), completed()).await;
    let cancelled = scene.finished(Options::new(), Outcome::Cancelled).await;
    let first = scene.running(Options::new()).await;
    scene.settle(&first, failed_for_good()).await;
    define(&scene, Retention { completed: Keep::NONE, ..Retention::default() }).await;
    let dead = scene.finished(Options::new(), failed_for_good()).await;
    let second = scene.running(Options::new()).await;
    scene.settle(&second, completed()).await;
    let mut left: Vec<_> = scene.list(&Filter::default()).await.iter().map(|job| job.id).collect();
    let mut expected = vec![done, cancelled, dead];
    left.sort_unstable();
    expected.sort_unstable();
    assert_eq!(left, expected);
    scene.assert_counts().await;
}

/// Ends that come otherwise are stored and left to prune: a waiting job is cancelled or expires, or the
/// retention is lowered after the end.
pub async fn other_ends_wait_for_prune(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let before = scene.finished(Options::new(), completed()).await;
    define(&scene, NONE).await;
    assert_eq!(scene.state(before).await, State::Completed, "a definition removes nothing");
    let waiting = scene.add(Options::new()).await;
    assert_eq!(scene.cancel(waiting).await, Amended::Done(State::Cancelled));
    let expired = scene.add(Options::new().expires_in(seconds(5))).await;
    h.advance(seconds(5)).await;
    scene.store.promote(9).await.expect("promoting is answered");
    assert_eq!(scene.state(waiting).await, State::Cancelled);
    assert_eq!(scene.state(expired).await, State::Dead);
    scene.assert_counts().await;
    assert_eq!(scene.store.prune(9).await.expect("pruning is answered"), 3);
    assert_empty(&scene).await;
}

/// A caller that waits for the end hears of it, though there is nothing to see any more.
pub async fn a_removal_rings(h: &impl Harness) {
    let scene = keeping(h, NONE).await;
    for outcome in [completed(), failed_for_good()] {
        let job = scene.running(Options::new()).await;
        let mut finish = scene.store.bell().listen(Topic::Finish);
        scene.settle(&job, outcome).await;
        assert_rung(&mut finish, "an end that is not kept").await;
    }
    scene.running(Options::new().max_stalls(0)).await;
    h.advance(TTL).await;
    let mut finish = scene.store.bell().listen(Topic::Finish);
    assert_eq!(reap_one(&scene).await, Settled::Applied(State::Dead));
    assert_rung(&mut finish, "a reaped end that is not kept").await;
}

/// A thousand jobs that are removed with their ends leave nothing behind.
pub async fn a_large_batch_leaves_nothing(h: &impl Harness) {
    let scene = keeping(h, NONE).await;
    let batch = jobs(1_000);
    scene.store.enqueue(batch.as_slice().into()).await.expect("proper jobs are accepted");
    let claimed = scene.claim(scene.lease().await, 1_000).await;
    let ends: Vec<_> = claimed.iter().map(|job| settlement(job, completed())).collect();
    let answers = scene.store.settle(ends.as_slice().into()).await.expect("settling is answered");
    assert_eq!(answers, vec![Settled::Applied(State::Completed); 1_000]);
    assert_empty(&scene).await;
    let answers = scene.store.settle(ends.as_slice().into()).await.expect("settling is answered");
    assert_eq!(answers, vec![Settled::Fenced; 1_000]);
}
