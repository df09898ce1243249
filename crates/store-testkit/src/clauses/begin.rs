//! A store is told when the handler of a claimed job begins. Until then the job is claimed ahead.

use windlass_core::store::Settled;
use windlass_core::{Options, Outcome, State};

use crate::Harness;
use crate::scene::{Scene, begin, completed, failed, forgeries, one, seconds};

/// A claimed job has not begun; by its fence it begins, and a repeat changes nothing.
pub async fn a_claimed_job_begins_by_its_fence(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    assert!(!scene.get(job.id).await.has_begun);
    for forged in forgeries(job.fence) {
        let attempt = windlass_core::store::Begin { fence: forged, ..begin(&job) };
        let answer = one(scene.store.begin([attempt].into()).await.expect("beginning is answered"));
        assert_eq!(answer, Settled::Fenced);
    }
    assert!(!scene.get(job.id).await.has_begun);
    for _ in 0..2 {
        scene.begin(&job).await;
        let record = scene.get(job.id).await;
        assert!(record.has_begun);
        assert_eq!((record.state, record.counters), (State::Running, job.facts.counters));
    }
    assert_eq!(scene.settle(&job, completed()).await, State::Completed);
    assert!(!scene.get(job.id).await.has_begun, "it no longer runs");
    scene.assert_counts().await;
}

/// The next attempt of a job has not begun because the one before had.
pub async fn each_attempt_begins_for_itself(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let mut job = scene.running(Options::new()).await;
    for outcome in [failed(), Outcome::Returned, Outcome::Snooze { after: seconds(1) }] {
        scene.begin(&job).await;
        scene.settle(&job, outcome).await;
        assert!(!scene.get(job.id).await.has_begun, "it waits");
        h.advance(seconds(11)).await;
        job = scene.claim_one(scene.lease().await).await;
        assert!(!scene.get(job.id).await.has_begun, "it is claimed again");
    }
}

/// Attempts of a batch are apart; each answer stands at the place of its attempt.
pub async fn attempts_of_a_batch_are_apart(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let ended = scene.running(Options::new()).await;
    scene.settle(&ended, completed()).await;
    scene.add_many(3).await;
    let jobs = scene.claim(scene.lease().await, 3).await;
    let mut batch: Vec<_> = jobs.iter().map(begin).collect();
    batch[1].fence.nonce ^= 1;
    batch.push(begin(&ended));
    batch.push(batch[0].clone());
    let answers = scene.store.begin(batch.as_slice().into()).await.expect("beginning is answered");
    let (begun, fenced) = (Settled::Applied(State::Running), Settled::Fenced);
    assert_eq!(answers, [begun, fenced, begun, fenced, begun]);
    let mut has_begun = Vec::new();
    for job in &jobs {
        has_begun.push(scene.get(job.id).await.has_begun);
    }
    assert_eq!(has_begun, [true, false, true]);
    assert_eq!(scene.store.begin([].into()).await.expect("beginning is answered"), []);
}

/// A job that has begun is completed, cancelled and looked at like any other.
pub async fn what_has_begun_goes_on_as_ever(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.begin(&job).await;
    scene.cancel(job.id).await;
    let record = scene.get(job.id).await;
    assert!(record.has_begun && record.cancel_requested);
    assert_eq!(scene.settle(&job, Outcome::Cancelled).await, State::Cancelled);
    scene.assert_counts().await;
}
