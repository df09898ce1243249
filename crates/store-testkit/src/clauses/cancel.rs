//! A job is asked to stop: at once while it waits, through its worker while it runs.

use windlass_core::outcome::{Ending, Reason};
use windlass_core::store::{Amended, Renewal, Settled};
use windlass_core::{Fence, JobId, LeaseId, Options, Outcome, State};

use crate::Harness;
use crate::scene::{Scene, TTL, completed, failed, failed_for_good, one, seconds, stalled};

async fn requests(scene: &Scene, lease: LeaseId, limit: u32) -> Vec<(JobId, Fence)> {
    match scene.store.renew(lease, TTL, limit).await.expect("a renewal is answered") {
        Renewal::Renewed { mut cancel, .. } => {
            cancel.sort_by_key(|(id, _)| *id);
            cancel
        }
        Renewal::Lost => panic!("the lease lives"),
    }
}

/// A waiting job is cancelled at once and never handed out.
pub async fn a_waiting_job_is_cancelled_at_once(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let ready = scene.add(Options::new()).await;
    let scheduled = scene.add(Options::new().delay(seconds(5))).await;
    for id in [ready, scheduled] {
        assert_eq!(scene.cancel(id).await, Amended::Done(State::Cancelled));
        let record = scene.get(id).await;
        assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Requested)));
        assert!(record.finished_at.is_some() && !record.cancel_requested);
        assert_eq!(record.attempts, []);
        assert_eq!(scene.cancel(id).await, Amended::Refused(State::Cancelled));
    }
    h.advance(seconds(5)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await, []);
    scene.assert_counts().await;
}

/// A running job goes on until its worker hears of the request with a renewal.
pub async fn a_running_job_is_asked_through_its_lease(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(4).await;
    let (lease, other) = (scene.lease().await, scene.lease().await);
    let jobs = scene.claim(lease, 3).await;
    scene.claim_one(other).await;
    assert_eq!(requests(&scene, lease, 9).await, []);
    for job in &jobs[..2] {
        assert_eq!(scene.cancel(job.id).await, Amended::Done(State::Running));
        assert_eq!(scene.cancel(job.id).await, Amended::Done(State::Running), "asking twice is asking once");
        let record = scene.get(job.id).await;
        assert!(record.cancel_requested && record.state == State::Running);
    }
    let mut expected: Vec<_> = jobs[..2].iter().map(|job| (job.id, job.fence)).collect();
    expected.sort_by_key(|(id, _)| *id);
    assert_eq!(requests(&scene, lease, 9).await, expected);
    assert_eq!(requests(&scene, lease, 9).await, expected, "until the attempt ends");
    assert_eq!(requests(&scene, lease, 1).await.len(), 1);
    assert_eq!(requests(&scene, lease, 0).await, []);
    assert_eq!(requests(&scene, other, 9).await, [], "each worker hears of its own jobs");

    assert_eq!(scene.settle(&jobs[0], Outcome::Cancelled).await, State::Cancelled);
    assert_eq!(requests(&scene, lease, 9).await, [(jobs[1].id, jobs[1].fence)]);
    let record = scene.get(jobs[0].id).await;
    assert_eq!((record.reason, record.cancel_requested), (Some(Reason::Requested), false));
    assert_eq!(record.attempts[0].ending, Some(Ending::Cancelled));
}

/// An attempt that would put the job back after the request cancels it instead, and keeps its own record.
pub async fn a_put_back_heeds_the_request(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let back = [
        (failed(), Ending::Failed),
        (Outcome::Snooze { after: seconds(5) }, Ending::Snoozed),
        (Outcome::Returned, Ending::Returned),
    ];
    for (outcome, ending) in back {
        let job = scene.running(Options::new()).await;
        scene.cancel(job.id).await;
        assert_eq!(scene.settle(&job, outcome).await, State::Cancelled);
        let record = scene.get(job.id).await;
        assert_eq!((record.state, record.reason), (State::Cancelled, Some(Reason::Requested)));
        assert!(record.finished_at.is_some() && !record.cancel_requested);
        let attempt = &record.attempts[0];
        assert_eq!((attempt.ending, attempt.number), (Some(ending), 1));
    }
    scene.assert_counts().await;
}

/// A reaper heeds the request too: a job that was asked to stop is not run again.
pub async fn a_reaper_heeds_the_request(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.cancel(job.id).await;
    h.advance(TTL).await;
    let lost = one(scene.store.lost(9).await.expect("lost jobs can be read"));
    let answer = one(scene.store.reap([stalled(&lost)].into()).await.expect("reaping is answered"));
    assert_eq!(answer, Settled::Applied(State::Cancelled));
    let record = scene.get(job.id).await;
    assert_eq!((record.reason, record.attempts[0].ending), (Some(Reason::Requested), Some(Ending::Stalled)));
}

/// An attempt that comes to its end all the same keeps that end.
pub async fn an_end_wins_over_the_request(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for (outcome, state) in [(completed(), State::Completed), (failed_for_good(), State::Dead)] {
        let job = scene.running(Options::new()).await;
        scene.cancel(job.id).await;
        assert_eq!(scene.settle(&job, outcome).await, state);
        let record = scene.get(job.id).await;
        assert!(!record.cancel_requested);
        assert_eq!(scene.cancel(job.id).await, Amended::Refused(state));
        assert_eq!(scene.get(job.id).await, record);
    }
}

/// A request ends with the attempt: a later life of the job knows nothing of it.
pub async fn a_request_ends_with_its_attempt(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    scene.cancel(job.id).await;
    scene.settle(&job, failed_for_good()).await;
    assert_eq!(scene.retry(job.id).await, Amended::Done(State::Ready));
    let lease = scene.lease().await;
    let again = scene.claim_one(lease).await;
    assert_eq!(requests(&scene, lease, 9).await, []);
    assert_eq!(scene.settle(&again, Outcome::Returned).await, State::Ready);
}

/// Each id of a batch is answered for itself.
pub async fn ids_of_a_batch_are_apart(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let done = scene.finished(Options::new(), completed()).await;
    let running = scene.running(Options::new()).await.id;
    let waiting = scene.add(Options::new()).await;
    let answers = scene.store.cancel([done, JobId::new(), waiting, running, waiting].into()).await;
    assert_eq!(
        answers.expect("cancelling is answered"),
        [
            Amended::Refused(State::Completed),
            Amended::Missing,
            Amended::Done(State::Cancelled),
            Amended::Done(State::Running),
            Amended::Refused(State::Cancelled),
        ]
    );
    assert_eq!(scene.store.cancel([].into()).await.expect("an empty batch is fine"), []);
}
