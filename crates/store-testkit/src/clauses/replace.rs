//! Jobs that meet the holder of their unique key and replace what it says, or put it off.

use windlass_core::job::NewJob;
use windlass_core::store::{Amended, Enqueued, Settled};
use windlass_core::unique::Unique;
use windlass_core::{Options, State};

use super::unique::{assert_free, enqueue, saying};
use crate::Harness;
use crate::scene::{KIND, Scene, completed, one, seconds, settlement};

/// A reaped job that says something else since is not ended by an outcome of before.
pub async fn a_late_outcome_ends_no_replaced_job(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let replacing = |payload| saying(payload, Options::new().unique(Unique::key("k").replace()));
    let first = replacing("old");
    scene.enqueue(first.clone()).await;
    let running = scene.claim_one(scene.lease().await).await;
    scene.begin(&running).await;
    scene.reap_one(h).await;
    assert_eq!(enqueue(&scene, &replacing("new")).await, Enqueued::Replaced(first.id));
    let late = settlement(&running, completed());
    let answer = one(scene.store.settle_late([late].into()).await.expect("settling is answered"));
    assert_eq!(answer, Settled::Fenced);
    assert_eq!(&scene.get(first.id).await.payload[..], b"new");
    scene.assert_counts().await;
}

/// A waiting holder takes over payload, spec and tags, and keeps its id and its place.
pub async fn a_waiting_job_is_replaced(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let replacing = || Options::new().unique(Unique::key("k").replace());
    let first = saying("one", replacing().tag("old").priority(1));
    scene.enqueue(first.clone()).await;
    let behind = scene.add(Options::new().priority(1)).await;
    h.advance(seconds(1)).await;
    let newer = saying("two, which is longer", replacing().tag("new").priority(9).timeout(seconds(7)));
    assert_eq!(enqueue(&scene, &newer).await, Enqueued::Replaced(first.id));
    assert_eq!(scene.find(newer.id).await, None);
    let record = scene.get(first.id).await;
    assert_eq!((&record.payload[..], record.priority), (&b"two, which is longer"[..], 1));
    assert_eq!((record.tags, record.spec), (newer.tags.clone(), newer.spec.clone()));
    let lease = scene.lease().await;
    let running = scene.claim_one(lease).await;
    assert_eq!((running.id, &running.payload[..]), (first.id, &b"two, which is longer"[..]));
    assert_eq!((&running.tags, &running.facts.spec), (&newer.tags, &newer.spec));
    assert_eq!(
        enqueue(&scene, &saying("three", replacing())).await,
        Enqueued::Duplicate { id: first.id, state: Some(State::Running) },
        "what runs is not changed"
    );
    assert_eq!(scene.claim_one(lease).await.id, behind);
    assert_eq!(&scene.get(first.id).await.payload[..], b"two, which is longer");
    scene.assert_counts().await;
}

/// Long payloads and short ones take each other's place.
pub async fn payloads_of_any_length_are_replaced(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut id = None;
    for length in [10, 200_000, 3, 70_000, 0] {
        let payload = vec![b'x'; length];
        let replacing = Options::new().unique(Unique::key("k").replace());
        let job = NewJob::new(KIND, payload.clone(), replacing).expect("a proper job");
        match enqueue(&scene, &job).await {
            Enqueued::New => id = Some(job.id),
            answer => assert_eq!(Some(answer), id.map(Enqueued::Replaced)),
        }
        assert_eq!(scene.get(id.expect("the first is new")).await.payload, payload);
    }
    let running = scene.claim_one(scene.lease().await).await;
    assert_eq!(running.payload.len(), 0);
    assert_eq!(scene.settle(&running, completed()).await, State::Completed);
    assert!(matches!(scene.delete(running.id).await, Amended::Done(_)));
    assert_free(&scene, "it is gone").await;
}

/// Each debounced job puts the first one off by its own delay, but for no longer than the maximum.
pub async fn a_debounced_job_waits_from_the_newest(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let debounced = |wait_max| Options::new().unique(Unique::key("k").debounce(wait_max)).delay(seconds(10));
    let first = saying("1", debounced(None));
    scene.enqueue(first.clone()).await;
    for payload in ["2", "3"] {
        h.advance(seconds(8)).await;
        let newer = saying(payload, debounced(None));
        assert_eq!(enqueue(&scene, &newer).await, Enqueued::Replaced(first.id));
        assert_eq!(scene.claim(scene.lease().await, 1).await, []);
    }
    h.advance(seconds(10)).await;
    let running = scene.claim_one(scene.lease().await).await;
    assert_eq!((running.id, &running.payload[..]), (first.id, &b"3"[..]));
    let bounded = saying("4", debounced(Some(seconds(25))));
    assert_eq!(enqueue(&scene, &bounded).await, Enqueued::New, "the first one has started");
    for _ in 0..2 {
        h.advance(seconds(8)).await;
        let newer = saying("5", debounced(Some(seconds(25))));
        assert_eq!(enqueue(&scene, &newer).await, Enqueued::Replaced(bounded.id));
    }
    h.advance(seconds(9)).await;
    let running = scene.claim_one(scene.lease().await).await;
    assert_eq!((running.id, &running.payload[..]), (bounded.id, &b"5"[..]), "it waits no longer than 25 s");
    scene.assert_counts().await;
}
