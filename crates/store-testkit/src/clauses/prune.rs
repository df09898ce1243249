//! Old history is removed: by age, by count, by state, and nothing else.

use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::{JobId, Options, Outcome, State};

use crate::Harness;
use crate::scene::{QUEUE, Scene, completed, failed, failed_for_good, name, seconds};

const FOREVER: Retention =
    Retention { completed: Keep::FOREVER, dead: Keep::FOREVER, cancelled: Keep::FOREVER };

async fn define(scene: &Scene, queue: &str, retention: Retention) {
    let config = QueueConfig { retention, ..QueueConfig::default() };
    scene.store.define(&name(queue), &config).await.expect("a queue can be defined");
}

async fn prune(scene: &Scene, limit: u32) -> u32 {
    let pruned = scene.store.prune(limit).await.expect("pruning is answered");
    scene.assert_counts().await;
    pruned
}

async fn left(scene: &Scene, ids: &[JobId]) -> Vec<bool> {
    let found = scene.store.get(ids.into()).await.expect("jobs can be read");
    found.iter().map(Option::is_some).collect()
}

/// What ended longer ago than the age goes, and nothing younger.
pub async fn by_age(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QUEUE, Retention { completed: Keep::age(seconds(100)), ..FOREVER }).await;
    let old = scene.finished(Options::new(), completed()).await;
    h.advance(seconds(60)).await;
    let young = scene.finished(Options::new(), completed()).await;
    assert_eq!(prune(&scene, 9).await, 0);
    h.advance(seconds(60)).await;
    assert_eq!(prune(&scene, 9).await, 1);
    assert_eq!(left(&scene, &[old, young]).await, [false, true]);
    h.advance(seconds(60)).await;
    assert_eq!(prune(&scene, 9).await, 1);
    assert_eq!(left(&scene, &[young]).await, [false]);
}

/// Above the count those go that ended first, whenever they were accepted.
pub async fn by_count(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QUEUE, Retention { completed: Keep::count(2), ..FOREVER }).await;
    let all = scene.add_many(5).await;
    let jobs = scene.claim(scene.lease().await, 5).await;
    for index in [4, 1, 3, 0, 2] {
        scene.settle(&jobs[index], completed()).await;
        h.advance(seconds(1)).await;
    }
    assert_eq!(prune(&scene, 9).await, 3);
    assert_eq!(left(&scene, &all).await, [true, false, true, false, false]);
    assert_eq!(prune(&scene, 9).await, 0);
}

/// Of jobs that ended together those go that were accepted first.
pub async fn by_count_and_acceptance(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QUEUE, Retention { completed: Keep::count(1), ..FOREVER }).await;
    let all = scene.add_many(3).await;
    let jobs = scene.claim(scene.lease().await, 3).await;
    let batch: Vec<_> = jobs.iter().rev().map(|job| crate::scene::settlement(job, completed())).collect();
    scene.store.settle(batch.as_slice().into()).await.expect("settling is answered");
    assert_eq!(prune(&scene, 9).await, 2);
    assert_eq!(left(&scene, &all).await, [false, false, true]);
}

/// Age and count both remove; a count of nothing removes all.
pub async fn by_both(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let keep = Keep { age: Some(seconds(100)), count: Some(2) };
    define(&scene, QUEUE, Retention { dead: keep, cancelled: Keep::NONE, ..FOREVER }).await;
    let mut dead = Vec::new();
    for _ in 0..4 {
        dead.push(scene.finished(Options::new(), failed_for_good()).await);
        h.advance(seconds(1)).await;
    }
    let cancelled = scene.add(Options::new()).await;
    scene.cancel(cancelled).await;
    assert_eq!(prune(&scene, 9).await, 3);
    assert_eq!(left(&scene, &dead).await, [false, false, true, true]);
    assert_eq!(left(&scene, &[cancelled]).await, [false]);
    h.advance(seconds(200)).await;
    assert_eq!(prune(&scene, 9).await, 2);
}

/// Each state and each queue has its own rule.
pub async fn each_state_and_queue_for_itself(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, "a", Retention { completed: Keep::age(seconds(10)), ..FOREVER }).await;
    define(&scene, "b", Retention { dead: Keep::age(seconds(10)), ..FOREVER }).await;
    let lease = scene.lease().await;
    let mut all = Vec::new();
    for queue in ["a", "b"] {
        for outcome in [completed(), failed_for_good(), Outcome::Cancelled] {
            all.push(scene.add(Options::new().queue(queue)).await);
            let queues = vec![crate::scene::share(queue, 1)];
            let request = windlass_core::store::ClaimRequest { queues, ..crate::scene::request(lease, 1) };
            let (jobs, _) = scene.ask(&request).await;
            scene.settle(&jobs[0], outcome).await;
        }
    }
    h.advance(seconds(11)).await;
    assert_eq!(prune(&scene, 99).await, 2);
    assert_eq!(left(&scene, &all).await, [false, true, true, true, false, true]);
}

/// Jobs that have not come to their end are never pruned, however old.
pub async fn open_jobs_stay(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let retried = scene.running(Options::new()).await;
    scene.settle(&retried, failed()).await;
    let running = scene.running(Options::new()).await.id;
    let ready = scene.add(Options::new()).await;
    let revived = scene.finished(Options::new().priority(1), failed_for_good()).await;
    scene.retry(revived).await;
    let none = Keep { age: Some(seconds(0)), count: Some(0) };
    define(&scene, QUEUE, Retention { completed: none, dead: none, cancelled: none }).await;
    h.advance(seconds(1_000_000)).await;
    assert_eq!(prune(&scene, 9).await, 0);
    assert_eq!(left(&scene, &[retried.id, running, ready, revived]).await, [true; 4]);
}

/// No more than the limit goes in one call, and the answer says how many.
pub async fn up_to_a_limit(h: &impl Harness) {
    let scene = Scene::new(h).await;
    define(&scene, QUEUE, Retention { completed: Keep::count(1), ..FOREVER }).await;
    for _ in 0..6 {
        scene.finished(Options::new(), completed()).await;
        h.advance(seconds(1)).await;
    }
    assert_eq!(prune(&scene, 0).await, 0);
    assert_eq!(prune(&scene, 2).await, 2);
    assert_eq!(scene.count(QUEUE, State::Completed).await, 4);
    assert_eq!(prune(&scene, 9).await, 3);
    assert_eq!(prune(&scene, 9).await, 0);
}

/// Without a definition the library's defaults hold: a day, a week, ninety days.
pub async fn by_default(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let day = 24 * 60 * 60;
    let all = [
        scene.finished(Options::new(), completed()).await,
        scene.finished(Options::new(), Outcome::Cancelled).await,
        scene.finished(Options::new(), failed_for_good()).await,
    ];
    for (days, expected) in [(1, [false, true, true]), (6, [false, false, true]), (83, [false, false, false])]
    {
        h.advance(seconds(days * day + 1)).await;
        prune(&scene, 9).await;
        assert_eq!(left(&scene, &all).await, expected, "{days} days later");
    }
}
