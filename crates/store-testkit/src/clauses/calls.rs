//! One call is one acceptance, however often it is repeated and whatever became of its jobs.

use windlass_core::job::NewJob;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{CALL_MEMORY, Enqueued, Filter};
use windlass_core::{Bytes, CallId, Options, State};

use crate::Harness;
use crate::scene::{QUEUE, Scene, completed, job, jobs, name};

async fn enqueue_once(scene: &Scene, call: CallId, jobs: &[NewJob]) -> Vec<Enqueued> {
    scene.store.enqueue_once(call, jobs.into()).await.expect("proper jobs are accepted")
}

/// A call that is repeated is one call: its jobs are stored once, and each of them is answered as repeated.
pub async fn a_repeated_call_stores_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (call, jobs) = (CallId::new(), jobs(3));
    assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::New; 3]);
    for _ in 0..2 {
        assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::Repeated; 3]);
    }
    let ready = Enqueued::Existing(State::Ready);
    assert_eq!(enqueue_once(&scene, CallId::new(), &jobs).await, [ready; 3], "another call is another");
    assert_eq!(scene.list(&Filter::default()).await.len(), 3);
    scene.assert_counts().await;
}

/// A call is also known when its jobs have ended and are gone: neither is run again, nor does a fence begin anew.
pub async fn a_repeated_call_is_known_when_its_jobs_are_gone(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let none = Retention { completed: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention: none, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let (call, jobs) = (CallId::new(), jobs(2));
    enqueue_once(&scene, call, &jobs).await;
    let lease = scene.lease().await;
    for job in scene.claim(lease, 2).await {
        scene.settle(&job, completed()).await;
    }
    assert_eq!(scene.list(&Filter::default()).await, [], "they have run and are gone");
    assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::Repeated; 2]);
    h.advance(CALL_MEMORY / 2).await;
    assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::Repeated; 2]);
    assert_eq!(scene.claim(scene.lease().await, 9).await, [], "nothing runs again");
    scene.assert_counts().await;
}

/// A call may name several queues and is known as a whole.
pub async fn a_repeated_call_may_name_several_queues(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let call = CallId::new();
    let jobs = [QUEUE, "other", QUEUE, "b"].map(|queue| job(Options::new().queue(queue)));
    assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::New; 4]);
    for each in &jobs {
        scene.get(each.id).await;
    }
    scene.delete(jobs[0].id).await;
    scene.delete(jobs[3].id).await;
    assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::Repeated; 4]);
    assert_eq!(scene.list(&Filter::default()).await.len(), 2);
    scene.assert_counts().await;
}

/// A refused call stored nothing, so it may come again, corrected.
pub async fn a_refused_call_is_not_remembered(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (call, mut jobs) = (CallId::new(), jobs(2));
    scene.enqueue(jobs[1].clone()).await;
    jobs[1].payload = Bytes::from_static(b"another");
    scene.store.enqueue_once(call, jobs.as_slice().into()).await.expect_err("the id is taken");
    jobs.pop();
    assert_eq!(enqueue_once(&scene, call, &jobs).await, [Enqueued::New]);
    scene.assert_counts().await;
}

/// Of repeats that come at once, one stores the jobs.
pub async fn of_repeats_at_once_one_stores(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for round in 0..5 {
        let (call, jobs) = (CallId::new(), jobs(3));
        let repeats: Vec<_> = (0..4)
            .map(|_| {
                let (store, jobs) = (scene.store.clone(), jobs.clone());
                tokio::spawn(async move { store.enqueue_once(call, jobs.as_slice().into()).await })
            })
            .collect();
        let mut stored = 0;
        for repeat in repeats {
            match repeat.await.expect("no call panics") {
                Ok(answers) if answers == [Enqueued::New; 3] => stored += 1,
                Ok(answers) => assert_eq!(answers, [Enqueued::Repeated; 3], "round {round}"),
                // It met the first one on its way, and may come again.
                Err(error) => assert!(error.is_transient(), "round {round}: {error}"),
            }
        }
        assert_eq!(stored, 1, "round {round}");
        assert_eq!(scene.list(&Filter::default()).await.len(), 3 * (round + 1));
    }
    scene.assert_counts().await;
}
