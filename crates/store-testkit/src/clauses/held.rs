//! Jobs that are held: they wait as `blocked` until they are sent.

use windlass_core::bell::Topic;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::outcome::Reason;
use windlass_core::queue::{KeyRules, QueueConfig};
use windlass_core::retry::Policy;
use windlass_core::store::{Amended, AttemptWrite, AttemptWritten, Enqueued, Filter, Right, Seen};
use windlass_core::unique::Unique;
use windlass_core::{CallId, JobId, Options, State, StoreError};

use super::capacity::room_for;
use super::keys::define;
use super::records::{put, records};
use super::wakeup::assert_rung;
use crate::Harness;
use crate::scene::{
    QUEUE, Scene, assert_after, completed, failed, ids, job, name, one, request, seconds, settlement,
};

fn held(options: Options) -> NewJob {
    let mut job = job(options);
    job.due = Due::Held;
    job
}

/// A job as it is before it was claimed once.
fn untouched(id: JobId) -> Seen {
    Seen { id, state: State::Blocked, fence: 0 }
}

/// A held job is stored as blocked. No time, no promotion and no claim moves it, and no claim waits for it.
pub async fn a_held_job_is_blocked(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.enqueue(held(Options::new().priority(9).tag("t"))).await;
    let record = scene.get(id).await;
    assert_eq!((record.state, record.fence, record.priority), (State::Blocked, 0, 9));
    assert_eq!((record.due_at, record.expires_at), (record.enqueued_at, None));
    let lease = scene.lease().await;
    assert_eq!(scene.ask(&request(lease, 9)).await, (Vec::new(), None));
    h.advance(seconds(20)).await;
    assert_eq!(scene.store.promote(9).await.expect("promoting is answered").promoted, 0);
    assert_eq!(scene.ask(&request(lease, 9)).await, (Vec::new(), None));
    let blocked = Filter { state: Some(State::Blocked), ..Filter::default() };
    assert_eq!(scene.list(&blocked).await.iter().map(|job| job.id).collect::<Vec<_>>(), [id]);
    assert_eq!(scene.store.states([id].into()).await.expect("states are answered"), [Some(State::Blocked)]);
    assert_eq!(scene.count(QUEUE, State::Blocked).await, 1);
    let again = scene.store.enqueue([held(Options::new()).with_id(id)].into()).await;
    assert_eq!(again.expect("a repeat is answered"), [Enqueued::Existing(State::Blocked)]);
    scene.assert_counts().await;
}

/// A held job that is sent is ready from then on, behind what was ready before, with its content and options.
pub async fn a_held_job_goes_when_it_is_sent(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut large = held(Options::new().tag("t"));
    large.payload = vec![7; 70_000].into();
    let (first, payload) = (scene.enqueue(large.clone()).await, large.payload.clone());
    let urgent = scene.enqueue(held(Options::new().priority(1))).await;
    let expiring = scene.enqueue(held(Options::new().expires_in(seconds(900)))).await;
    h.advance(seconds(3)).await;
    let ready = scene.add(Options::new()).await;
    h.advance(seconds(1)).await;
    for id in [first, urgent, expiring] {
        assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    }
    let record = scene.get(first).await;
    assert_after(record.due_at, record.enqueued_at, seconds(4));
    assert!(scene.get(expiring).await.expires_at.is_some(), "it goes as it is");
    let claimed = scene.claim(scene.lease().await, 9).await;
    assert_eq!(ids(&claimed), [urgent, ready, first, expiring]);
    assert_eq!((&claimed[2].payload, &claimed[2].tags, claimed[2].fence.number), (&payload, &large.tags, 1));
    for job in &claimed {
        assert_eq!(scene.settle(job, completed()).await, State::Completed);
    }
    scene.assert_counts().await;
}

/// Of many who send a held job as they have seen it one succeeds, whatever became of the job since.
pub async fn a_held_job_is_sent_once(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.enqueue(held(Options::new().retry(Policy::never()))).await;
    let send =
        || async { one(scene.store.retry_seen([untouched(id)].into()).await.expect("a retry is answered")) };
    assert_eq!(send().await, Amended::Done(State::Ready));
    assert_eq!(send().await, Amended::Refused(State::Ready));
    let running = scene.claim_one(scene.lease().await).await;
    assert_eq!(send().await, Amended::Refused(State::Running));
    scene.settle(&running, failed()).await;
    assert_eq!(send().await, Amended::Refused(State::Dead));
    assert_eq!(scene.retry(id).await, Amended::Done(State::Ready), "a person may still send it back");
    scene.assert_counts().await;
}

/// A held job is cancelled, removed and expires as any job that waits.
pub async fn a_held_job_ends_as_any_that_waits(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        all.push(scene.enqueue(held(Options::new())).await);
    }
    let expiring = scene.enqueue(held(Options::new().expires_in(seconds(5)))).await;
    let &[cancelled, withdrawn, deleted] = all.as_slice() else { panic!("there are three") };
    assert_eq!(scene.cancel(cancelled).await, Amended::Done(State::Cancelled));
    let answer = scene.store.withdraw([withdrawn].into()).await.expect("a withdrawal is answered");
    assert_eq!(answer, [Amended::Done(State::Cancelled)]);
    assert_eq!(scene.delete(deleted).await, Amended::Done(State::Blocked));
    assert_eq!(scene.find(deleted).await, None);
    h.advance(seconds(5)).await;
    scene.store.promote(9).await.expect("promoting is answered");
    let record = scene.get(expiring).await;
    assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Expired)));
    assert_eq!(scene.get(cancelled).await.reason, Some(Reason::Requested));
    // What was cancelled while it was held can be sent back.
    assert_eq!(scene.retry(withdrawn).await, Amended::Done(State::Ready));
    assert_eq!(ids(&scene.claim(scene.lease().await, 9).await), [withdrawn]);
    scene.assert_counts().await;
}

/// A held job holds its unique key, and stands behind the gate of its key when it is sent, not before.
pub async fn a_held_job_has_its_keys(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let keys = KeyRules { concurrency: Some(1), ..KeyRules::default() };
    define(&scene, QueueConfig { keys: Some(keys), ..QueueConfig::default() }).await;
    let unique = || Options::new().unique(Unique::key("u").replace());
    let holder = scene.enqueue(held(unique())).await;
    let mut newer = job(unique());
    newer.payload = "[1]".into();
    let answer = scene.store.enqueue([newer].into()).await.expect("an enqueue is answered");
    assert_eq!(answer, [Enqueued::Replaced(holder)]);
    let record = scene.get(holder).await;
    assert_eq!((record.state, &record.payload[..]), (State::Blocked, &b"[1]"[..]));
    let first = scene.enqueue(held(Options::new().key("x"))).await;
    let second = scene.enqueue(job(Options::new().key("x"))).await;
    let lease = scene.lease().await;
    let running = scene.claim(lease, 9).await;
    assert_eq!(ids(&running), [second]);
    for id in [first, holder] {
        assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    }
    assert_eq!(ids(&scene.claim(lease, 9).await), [holder], "one of the key runs");
    scene.settle(&running[0], completed()).await;
    assert_eq!(ids(&scene.claim(lease, 9).await), [first]);
    scene.assert_counts().await;
}

/// Held jobs wait, and so they count where a queue has room for some.
pub async fn held_jobs_need_room(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, room_for(2)).await;
    scene.enqueue(held(Options::new())).await;
    let two = [held(Options::new()), job(Options::new())];
    let refused = scene.store.enqueue(two.into()).await;
    assert!(matches!(refused, Err(StoreError::QueueFull { waiting: 1, .. })), "{refused:?}");
    scene.enqueue(held(Options::new())).await;
    scene.assert_counts().await;
}

/// Held jobs come in one call with others, with records, and behind attempts in any queue.
pub async fn held_jobs_come_with_others(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let batch = [
        job(Options::new()),
        held(Options::new()),
        job(Options::new().delay(seconds(9))),
        held(Options::new()),
    ];
    scene.store.enqueue(batch.as_slice().into()).await.expect("a batch is accepted");
    let states: Vec<_> = batch.iter().map(|job| job.id).collect();
    let states = scene.store.states(states.into()).await.expect("states are answered");
    let wanted = [State::Ready, State::Blocked, State::Scheduled, State::Blocked];
    assert_eq!(states, wanted.map(Some));
    let beside = held(Options::new());
    let what = FollowUps { jobs: vec![beside.clone()], records: vec![put("k", "1")] };
    records(&scene).write(CallId::new(), &name(QUEUE), what).await.expect("a write is answered");
    let running = scene.claim_one(scene.lease().await).await;
    let follows =
        [held(Options::new()), held(Options::new().queue("other")), job(Options::new().queue("other"))];
    let end = settlement(&running, completed());
    let item = AttemptWrite {
        queue: end.queue,
        id: end.id,
        fence: end.fence,
        transition: Some(end.transition),
        then: FollowUps { jobs: follows.to_vec(), records: Vec::new() },
    };
    let answer = records(&scene).write_fenced(Right::Fence, [item].into()).await.expect("it is answered");
    assert!(matches!(one(answer), AttemptWritten::Applied(State::Completed)));
    for id in [beside.id, follows[0].id, follows[1].id] {
        assert_eq!(scene.state(id).await, State::Blocked);
        assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    }
    assert_eq!(scene.state(follows[2].id).await, State::Ready);
    scene.assert_counts().await;
}

/// A held job rings when it is sent.
pub async fn a_sent_job_rings(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.enqueue(held(Options::new())).await;
    let mut listener = scene.store.bell().listen(Topic::Work);
    let answer = scene.store.retry_seen([untouched(id)].into()).await.expect("a retry is answered");
    assert_eq!(answer, [Amended::Done(State::Ready)]);
    assert_rung(&mut listener, "a held job was sent").await;
}
