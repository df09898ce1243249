//! The capacity of a queue: how many of its jobs may wait.

use windlass_core::queue::{KeyRules, QueueConfig};
use windlass_core::store::Enqueued;
use windlass_core::unique::Unique;
use windlass_core::{JobId, Options, State, StoreError};

use super::keys::define;
use crate::Harness;
use crate::scene::{QUEUE, Scene, completed, job, jobs, name, seconds};

pub(super) fn room_for(capacity: u64) -> QueueConfig {
    QueueConfig { capacity: Some(capacity), ..QueueConfig::default() }
}

/// What a call of so many jobs is refused with: the capacity, and how many wait.
async fn refusal(scene: &Scene, count: usize) -> (u64, u64) {
    let new = jobs(count);
    match scene.store.enqueue(new.as_slice().into()).await {
        Err(StoreError::QueueFull { queue, capacity, waiting }) => {
            assert_eq!(queue, name(QUEUE));
            for job in &new {
                assert_eq!(scene.find(job.id).await, None, "nothing was stored");
            }
            (capacity, waiting)
        }
        other => panic!("the queue is full, but an enqueue answers {other:?}"),
    }
}

/// A queue takes no more jobs than may wait. What runs or has ended does not count.
pub async fn a_full_queue_takes_no_job(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, room_for(3)).await;
    scene.add_many(2).await;
    scene.add(Options::new().delay(seconds(60))).await;
    assert_eq!(refusal(&scene, 1).await, (3, 3));
    let running = scene.claim_one(scene.lease().await).await;
    scene.add(Options::new()).await;
    assert_eq!(refusal(&scene, 1).await, (3, 3), "a job that runs made room for one");
    scene.settle(&running, completed()).await;
    assert_eq!(refusal(&scene, 1).await, (3, 3));
    scene.add(Options::new().queue("a")).await;
    define(&scene, QueueConfig::default()).await;
    scene.add_many(5).await;
    scene.assert_counts().await;
}

/// A call of several jobs is taken as a whole or not at all.
pub async fn a_call_fits_as_a_whole(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, room_for(5)).await;
    scene.add_many(3).await;
    assert_eq!(refusal(&scene, 3).await, (5, 3));
    let mixed =
        [job(Options::new().queue("a")), job(Options::new()), job(Options::new()), job(Options::new())];
    let answer = scene.store.enqueue(mixed.as_slice().into()).await;
    assert!(matches!(answer, Err(StoreError::QueueFull { waiting: 3, .. })), "{answer:?}");
    assert_eq!(scene.find(mixed[0].id).await, None, "not even in the other queue");
    scene.add_many(2).await;
    assert_eq!(refusal(&scene, 1).await, (5, 5));
    scene.assert_counts().await;
}

/// What is known already, and what meets the holder of its key, needs no room.
pub async fn what_is_known_needs_no_room(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, room_for(2)).await;
    let first = job(Options::new());
    scene.enqueue(first.clone()).await;
    let unique = || job(Options::new().unique(Unique::key("u")));
    let holder = scene.enqueue(unique()).await;
    let again: Vec<JobId> = vec![first.id];
    let answer = scene.store.enqueue([first].into()).await.expect("a repeat is answered");
    assert_eq!(answer, [Enqueued::Existing(State::Ready)], "{again:?}");
    let answer = scene.store.enqueue([unique()].into()).await.expect("a duplicate is answered");
    assert_eq!(answer, [Enqueued::Duplicate { id: holder, state: Some(State::Ready) }]);
    assert_eq!(refusal(&scene, 1).await, (2, 2));
}

/// Jobs that come back from a worker are not refused, however many wait.
pub async fn what_comes_back_has_room(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, room_for(1)).await;
    let running = scene.running(Options::new()).await;
    scene.add(Options::new()).await;
    assert_eq!(scene.settle(&running, windlass_core::Outcome::Returned).await, State::Ready);
    assert_eq!(refusal(&scene, 1).await, (1, 2));
    assert_eq!(scene.claim(scene.lease().await, 9).await.len(), 2);
    scene.add(Options::new()).await;
}

/// A capacity and keys go together.
pub async fn jobs_with_a_key_count(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QueueConfig { keys: Some(KeyRules::default()), ..room_for(2) }).await;
    scene.add(Options::new().key("a")).await;
    scene.add(Options::new().key("b")).await;
    let answer = scene.store.enqueue([job(Options::new().key("c"))].into()).await;
    assert!(matches!(answer, Err(StoreError::QueueFull { waiting: 2, .. })), "{answer:?}");
}

/// A capacity that makes no sense is refused and changes nothing.
pub async fn a_bad_capacity_is_refused(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let answer = scene.store.define(&name(QUEUE), &room_for(0)).await;
    assert!(matches!(answer, Err(StoreError::Queue(_))), "{answer:?}");
    assert!(scene.store.queues(None, 9).await.expect("queues can be listed").is_empty());
}
