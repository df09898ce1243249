//! The time of a job has come, or has passed: never early, on time without any sweep, and never after its
//! expiry.

use windlass_core::job::NewJob;
use windlass_core::outcome::Reason;
use windlass_core::store::{ClaimRequest, PROMOTE_MAX, Promotion};
use windlass_core::{Options, Outcome, State};

use crate::Harness;
use crate::scene::{KIND, QUEUE, Scene, completed, failed, ids, job, name, request, seconds, share};

/// A claim takes a delayed job on time, and not before.
pub async fn a_claim_promotes_on_time(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new().delay(seconds(100))).await;
    h.advance(seconds(99)).await;
    let lease = scene.lease().await;
    assert_eq!(scene.claim(lease, 1).await, [], "a second too early");
    assert_eq!(scene.store.promote(9).await.expect("promoting is answered"), Promotion::default());
    assert_eq!(scene.state(id).await, State::Scheduled);
    h.advance(seconds(1)).await;
    let claimed = scene.claim_one(lease).await;
    assert_eq!(claimed.id, id);
    assert_eq!(claimed.due_at, claimed.enqueued_at.plus(seconds(100)));
}

/// A claim says how long the next scheduled job of its queues is away, of whatever kind.
pub async fn a_claim_tells_what_is_due_next(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lease = scene.lease().await;
    let both = ClaimRequest { queues: vec![share(QUEUE, 9), share("b", 9)], ..request(lease, 9) };
    assert_eq!(scene.ask(&both).await.1, None);
    scene.add(Options::new().queue("elsewhere").delay(seconds(5))).await;
    scene.add(Options::new().queue("b").delay(seconds(300))).await;
    let due = |next: Option<std::time::Duration>| next.expect("a job is scheduled").as_secs_f64().ceil();
    assert_eq!(due(scene.ask(&both).await.1), 300.0);
    assert_eq!(scene.ask(&request(lease, 9)).await.1, None);
    scene.add(Options::new().delay(seconds(200))).await;
    scene.add(Options::new().delay(seconds(20)).priority(-9)).await;
    assert_eq!(due(scene.ask(&both).await.1), 20.0);
    let unknown = NewJob::new("unknown", "", Options::new().delay(seconds(10))).expect("a proper job");
    scene.enqueue(unknown).await;
    assert_eq!(due(scene.ask(&both).await.1), 10.0);
    assert_eq!(due(scene.ask(&ClaimRequest { limit: 0, ..both.clone() }).await.1), 10.0);
    h.advance(seconds(12)).await;
    let (jobs, next) = scene.ask(&both).await;
    assert_eq!((jobs.len(), due(next)), (0, 8.0));
}

/// A claim moves the jobs of its queues along, also those of other kinds and those it has no room for.
pub async fn a_claim_moves_its_queues_along(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let other = NewJob::new("other", "", Options::new().delay(seconds(1))).expect("a proper job");
    let other = scene.enqueue(other).await;
    let full = scene.add(Options::new().queue("full").delay(seconds(1))).await;
    let elsewhere = scene.add(Options::new().queue("elsewhere").delay(seconds(1))).await;
    scene.add(Options::new()).await;
    h.advance(seconds(1)).await;
    let queues = vec![share(QUEUE, 1), share("full", 1)];
    let (jobs, next) = scene.ask(&ClaimRequest { queues, ..request(scene.lease().await, 1) }).await;
    assert_eq!((jobs.len(), next), (1, None));
    assert_eq!(scene.state(other).await, State::Ready);
    assert_eq!(scene.state(full).await, State::Ready);
    assert_eq!(scene.state(elsewhere).await, State::Scheduled);
}

/// When more is due than one claim moves, it says so, and the next one goes on.
pub async fn a_claim_moves_a_bounded_number(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let count = PROMOTE_MAX as usize + 5;
    let delayed: Vec<_> = (0..count).map(|_| job(Options::new().delay(seconds(1)))).collect();
    scene.store.enqueue(delayed.as_slice().into()).await.expect("proper jobs are accepted");
    h.advance(seconds(1)).await;
    let lease = scene.lease().await;
    let (jobs, next) = scene.ask(&request(lease, 1)).await;
    assert_eq!((jobs.len(), next), (1, Some(seconds(0))));
    assert!(scene.count(QUEUE, State::Scheduled).await >= 5, "no more than {PROMOTE_MAX} are moved");
    let mut taken = 1;
    loop {
        let (jobs, next) = scene.ask(&request(lease, 1)).await;
        assert_eq!(jobs.len(), 1);
        taken += 1;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(scene.count(QUEUE, State::Scheduled).await, 0);
    assert_eq!(scene.count(QUEUE, State::Ready).await, count as u64 - taken);
}

/// A promotion moves jobs of every queue, counts them, and heeds its limit.
pub async fn a_promotion_moves_every_queue(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for queue in ["a", "b", "c"] {
        scene.add(Options::new().queue(queue).delay(seconds(5))).await;
        scene.add(Options::new().queue(queue).delay(seconds(500))).await;
        scene.add(Options::new().queue(queue).expires_in(seconds(5))).await;
    }
    h.advance(seconds(5)).await;
    let promote = async |limit| scene.store.promote(limit).await.expect("promoting is answered");
    assert_eq!(promote(0).await, Promotion::default());
    assert_eq!(promote(2).await, Promotion { promoted: 2, expired: 2 });
    assert_eq!(promote(100).await, Promotion { promoted: 1, expired: 1 });
    assert_eq!(promote(100).await, Promotion::default());
    for queue in ["a", "b", "c"] {
        let states = [State::Ready, State::Scheduled, State::Dead];
        for state in states {
            assert_eq!(scene.count(queue, state).await, 1, "{state} in {queue}");
        }
    }
    scene.assert_counts().await;
}

/// A job that was not started before its expiry is dead, says why, and is never handed out.
pub async fn an_expired_job_is_never_handed_out(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let ready = scene.add(Options::new().expires_in(seconds(10))).await;
    let scheduled = scene.add(Options::new().delay(seconds(10)).expires_in(seconds(10))).await;
    let alive = scene.add(Options::new().expires_in(seconds(30))).await;
    let lease = scene.lease().await;
    h.advance(seconds(10)).await;
    assert_eq!(ids(&scene.claim(lease, 9).await), [alive]);
    for id in [ready, scheduled] {
        let record = scene.get(id).await;
        assert_eq!((record.state, record.reason), (State::Dead, Some(Reason::Expired)));
        assert!(record.finished_at >= record.expires_at);
        assert_eq!((record.attempts.len(), record.counters.attempt, record.fence), (0, 0, 0));
    }
    scene.assert_counts().await;
}

/// A job that has started in time does not expire between its attempts.
pub async fn a_started_job_does_not_expire(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let claimed = scene.running(Options::new().expires_in(seconds(5))).await;
    h.advance(seconds(6)).await;
    assert_eq!(scene.store.promote(9).await.expect("promoting is answered").expired, 0);
    assert_eq!(scene.settle(&claimed, failed()).await, State::Scheduled);
    h.advance(seconds(20)).await;
    let again = scene.claim_one(scene.lease().await).await;
    assert_eq!((again.id, again.facts.counters.attempt), (claimed.id, 2));
}

/// An attempt that was given back did not start the job: its expiry counts again.
pub async fn a_returned_job_may_expire(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let returned = scene.running(Options::new().expires_in(seconds(10))).await;
    scene.settle(&returned, Outcome::Returned).await;
    let snoozed = scene.running(Options::new().expires_in(seconds(10)).priority(1)).await;
    scene.settle(&snoozed, Outcome::Snooze { after: seconds(60) }).await;
    h.advance(seconds(11)).await;
    let moved = scene.store.promote(9).await.expect("promoting is answered");
    assert_eq!(moved, Promotion { promoted: 0, expired: 2 });
    for id in [returned.id, snoozed.id] {
        assert_eq!(scene.get(id).await.reason, Some(Reason::Expired));
    }
}

/// When more has expired than one claim moves, what has expired is still not handed out, and the claims
/// that follow come to what has not.
pub async fn many_expired_jobs_do_not_slip_through(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let count = PROMOTE_MAX as usize + 5;
    let expiring: Vec<_> = (0..count).map(|_| job(Options::new().expires_in(seconds(1)))).collect();
    scene.store.enqueue(expiring.as_slice().into()).await.expect("proper jobs are accepted");
    let alive = scene.add(Options::new()).await;
    h.advance(seconds(1)).await;
    let lease = scene.lease().await;
    let (mut jobs, next) = scene.ask(&request(lease, 9)).await;
    assert_eq!(next, Some(seconds(0)), "more has expired, so the next claim is due");
    jobs.extend(scene.claim(lease, 9).await);
    assert_eq!(ids(&jobs), [alive]);
    assert_eq!(scene.count(QUEUE, State::Dead).await, count as u64);
}

/// A job becomes ready by its time alone, also when no worker serves its kind.
pub async fn promotion_does_not_look_at_kinds(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let lonely = NewJob::new("lonely", "", Options::new().delay(seconds(1))).expect("a proper job");
    let lonely = scene.enqueue(lonely).await;
    h.advance(seconds(1)).await;
    let none = ClaimRequest { kinds: Vec::new(), ..request(scene.lease().await, 9) };
    assert_eq!(scene.ask(&none).await.0, []);
    assert_eq!(scene.state(lonely).await, State::Ready);
    assert_ne!(name(KIND), name("lonely"));
}

/// Housekeeping moves no job, removes none and loses no count, whatever its limit.
pub async fn tidying_changes_no_job(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let ended = scene.finished(Options::new(), completed()).await;
    let due = scene.add(Options::new().delay(seconds(1))).await;
    h.advance(seconds(200)).await;
    let ready = scene.add(Options::new().queue("other")).await;
    let ids = [ended, due, ready];
    let before = scene.store.get(ids.into()).await.expect("jobs are found");
    for limit in [0, 1, 10_000] {
        let tidied = scene.store.tidy(limit).await.expect("tidying is answered");
        assert!(limit > 0 || tidied == 0, "a limit of 0 does nothing");
        assert_eq!(scene.store.get(ids.into()).await.expect("jobs are found"), before);
        assert_eq!(scene.count(QUEUE, State::Completed).await, 1);
        assert_eq!(scene.count(QUEUE, State::Scheduled).await, 1);
        assert_eq!(scene.count("other", State::Ready).await, 1);
    }
}
