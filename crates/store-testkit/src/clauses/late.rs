//! The end of an attempt that was reaped meanwhile counts as long as nothing has happened to its job: what was
//! done is not done again.

use windlass_core::job::ClaimedJob;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{Filter, Settled, Settlement};
use windlass_core::{Bytes, Options, Outcome, State};

use crate::Harness;
use crate::scene::{
    QUEUE, Scene, completed, failed, failed_for_good, forgeries, name, one, seconds, settlement,
};

async fn settle_late(scene: &Scene, settlement: Settlement) -> Settled {
    one(scene.store.settle_late([settlement].into()).await.expect("settling is answered"))
}

/// Asserts that the attempt can write nothing any more.
async fn assert_too_late(scene: &Scene, job: &ClaimedJob) {
    let before = scene.find(job.id).await;
    for outcome in [completed(), failed_for_good(), Outcome::Cancelled] {
        assert_eq!(settle_late(scene, settlement(job, outcome)).await, Settled::Fenced);
    }
    assert_eq!(scene.find(job.id).await, before, "a refused write changes nothing");
}

/// An attempt whose job was put back by a reaper, begun or not, may still bring it to its end.
pub async fn a_reaped_attempt_may_still_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let output = Some(Bytes::from_static(b"42"));
    let ends = [
        (Outcome::Completed { output: output.clone() }, State::Completed, None),
        (failed_for_good(), State::Dead, Some(Reason::Permanent)),
        (Outcome::Cancelled, State::Cancelled, Some(Reason::Requested)),
    ];
    for (outcome, state, reason) in ends {
        for begins in [true, false] {
            let job = scene.running(Options::new()).await;
            if begins {
                scene.begin(&job).await;
            }
            assert!(scene.reap_one(h).await.is_waiting());
            assert_eq!(scene.settle_raw(settlement(&job, outcome.clone())).await, Settled::Fenced);
            let late = settle_late(&scene, settlement(&job, outcome.clone())).await;
            assert_eq!(late, Settled::Applied(state));
            let record = scene.get(job.id).await;
            assert_eq!((record.state, record.reason, record.fence), (state, reason, 1));
            assert_eq!(record.output, output.clone().filter(|_| state == State::Completed));
            assert!(record.finished_at.is_some());
            let lost = if begins { Ending::Stalled } else { Ending::Returned };
            assert_eq!(record.attempts[0].ending, Some(lost), "that it was lost stays on record");
            assert_too_late(&scene, &job).await;
            scene.assert_counts().await;
        }
    }
    h.advance(seconds(60)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await, [], "nothing is run again");
}

/// An outcome that would put the job back comes too late: it is back already.
pub async fn only_an_end_counts(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.begin(&job).await;
    scene.reap_one(h).await;
    let before = scene.get(job.id).await;
    for outcome in [failed(), Outcome::Snooze { after: seconds(1) }, Outcome::Returned] {
        assert_eq!(settle_late(&scene, settlement(&job, outcome)).await, Settled::Fenced);
    }
    assert_eq!(scene.get(job.id).await, before);
}

/// A forged fence and another queue write nothing.
pub async fn a_forged_fence_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.begin(&job).await;
    scene.reap_one(h).await;
    let right = settlement(&job, completed());
    for fence in forgeries(job.fence) {
        assert_eq!(settle_late(&scene, Settlement { fence, ..right.clone() }).await, Settled::Fenced);
    }
    let elsewhere = Settlement { queue: name("elsewhere"), ..right.clone() };
    assert_eq!(settle_late(&scene, elsewhere).await, Settled::Fenced);
    assert_eq!(settle_late(&scene, right).await, Settled::Applied(State::Completed));
}

/// Whatever has happened to the job since wins: a claim, a cancel, a retry by hand, a removal.
pub async fn what_happened_since_wins(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let claimed = scene.running(Options::new()).await;
    scene.reap_one(h).await;
    let again = scene.claim_one(scene.lease().await).await;
    assert_eq!(again.id, claimed.id);
    assert_too_late(&scene, &claimed).await;
    scene.settle(&again, Outcome::Returned).await;
    assert_too_late(&scene, &claimed).await;
    assert_too_late(&scene, &again).await;
    scene.delete(claimed.id).await;
    assert_too_late(&scene, &claimed).await;

    let cancelled = scene.running(Options::new()).await;
    scene.reap_one(h).await;
    scene.cancel(cancelled.id).await;
    assert_too_late(&scene, &cancelled).await;
    scene.retry(cancelled.id).await;
    assert_too_late(&scene, &cancelled).await;
    scene.delete(cancelled.id).await;

    let retried = scene.running(Options::new()).await;
    scene.begin(&retried).await;
    assert_eq!(scene.reap_one(h).await, State::Scheduled);
    scene.retry(retried.id).await;
    assert_too_late(&scene, &retried).await;
    scene.assert_counts().await;
}

/// An attempt that was not reaped has no second word: neither one that runs nor one that has put its job back.
pub async fn only_a_reaped_attempt_is_late(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    assert_too_late(&scene, &running).await;
    for outcome in [failed(), Outcome::Returned, Outcome::Snooze { after: seconds(5) }, failed_for_good()] {
        let job = scene.running(Options::new().priority(1)).await;
        scene.settle(&job, outcome).await;
        assert_too_late(&scene, &job).await;
        scene.delete(job.id).await;
    }
    scene.assert_counts().await;
}

/// A promotion is nothing that happens to the job: it only may start again.
pub async fn a_promoted_job_may_still_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.begin(&job).await;
    assert_eq!(scene.reap_one(h).await, State::Scheduled);
    h.advance(seconds(1)).await;
    scene.store.promote(9).await.expect("promoting is answered");
    assert_eq!(scene.state(job.id).await, State::Ready);
    let late = settle_late(&scene, settlement(&job, completed())).await;
    assert_eq!(late, Settled::Applied(State::Completed));
    assert_eq!(scene.claim(scene.lease().await, 9).await, []);
    scene.assert_counts().await;
}

/// Where the queue keeps none, a late end leaves nothing; an output above the cap is refused.
pub async fn the_queue_decides_as_ever(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    let mut config = QueueConfig { retention, ..QueueConfig::default() };
    config.caps.output = 4;
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let job = scene.running(Options::new()).await;
    scene.reap_one(h).await;
    let large = Outcome::Completed { output: Some(Bytes::from_static(b"12345")) };
    assert!(matches!(settle_late(&scene, settlement(&job, large)).await, Settled::Refused(_)));
    let late = settle_late(&scene, settlement(&job, completed())).await;
    assert_eq!(late, Settled::Applied(State::Completed));
    assert_eq!(scene.list(&Filter::default()).await, []);
    scene.assert_counts().await;
}
