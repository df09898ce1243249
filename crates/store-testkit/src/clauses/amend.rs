//! What a person may do to a job: send it back, or remove it.

use windlass_core::job::Counters;
use windlass_core::outcome::Reason;
use windlass_core::queue::{KeyRules, QueueConfig};
use windlass_core::retry::Policy;
use windlass_core::store::{Amended, Enqueued, Filter, Progress, Seen};
use windlass_core::unique::Unique;
use windlass_core::{Bytes, JobId, Options, Outcome, State};

use crate::Harness;
use crate::scene::{QUEUE, Scene, assert_after, completed, failed, failed_for_good, ids, job, name, seconds};

/// A dead job that is sent back begins anew, but its fence and its history go on.
pub async fn a_retried_job_begins_anew(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new().retry(Policy::never())).await;
    let report = Progress {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        progress: Bytes::from_static(b"half"),
    };
    scene.store.progress([report].into()).await.expect("progress is answered");
    assert_eq!(scene.settle(&job, failed()).await, State::Dead);
    let dead = scene.get(job.id).await;
    assert_eq!(dead.reason, Some(Reason::AttemptsExhausted));
    h.advance(seconds(9)).await;
    assert_eq!(scene.retry(job.id).await, Amended::Done(State::Ready));
    let record = scene.get(job.id).await;
    assert_eq!((record.state, record.reason, record.finished_at), (State::Ready, None, None));
    assert_eq!((record.counters, record.cancel_requested), (Counters::default(), false));
    assert_eq!((record.output, record.progress), (None, None));
    assert_eq!((record.fence, &record.attempts), (1, &dead.attempts));
    assert_after(record.due_at, job.claimed_at, seconds(9));
    assert_eq!(record.enqueued_at, dead.enqueued_at);
    let again = scene.claim_one(scene.lease().await).await;
    assert_eq!((again.fence.number, again.facts.counters.attempt), (2, 1));
    scene.settle(&again, completed()).await;
    assert_eq!(scene.get(job.id).await.attempts.len(), 2);
    scene.assert_counts().await;
}

/// A cancelled job can be sent back too, whether it had started or not.
pub async fn a_cancelled_job_can_be_retried(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let started = scene.finished(Options::new(), Outcome::Discard { why: "no".into() }).await;
    let waiting = scene.add(Options::new().delay(seconds(99))).await;
    scene.cancel(waiting).await;
    for id in [started, waiting] {
        assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    }
    assert_eq!(ids(&scene.claim(scene.lease().await, 9).await), [started, waiting]);
}

/// A job that has expired and is sent back is wanted now: its expiry no longer counts.
pub async fn a_retried_job_does_not_expire_again(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.add(Options::new().expires_in(seconds(5))).await;
    h.advance(seconds(5)).await;
    scene.store.promote(9).await.expect("promoting is answered");
    assert_eq!(scene.get(id).await.reason, Some(Reason::Expired));
    assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    assert_eq!(scene.get(id).await.expires_at, None);
    assert_eq!(scene.claim_one(scene.lease().await).await.id, id);
}

/// A scheduled job that is sent goes now, as it is.
pub async fn a_scheduled_job_can_be_sent_now(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = scene.running(Options::new()).await;
    scene.settle(&first, failed()).await;
    let second = scene.add(Options::new().delay(seconds(500)).expires_in(seconds(900))).await;
    let before = scene.get(second).await;
    h.advance(seconds(1)).await;
    for id in [first.id, second] {
        assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    }
    let record = scene.get(second).await;
    assert_eq!((record.state, record.expires_at), (State::Ready, before.expires_at));
    assert_after(record.due_at, before.enqueued_at, seconds(1));
    assert_eq!(
        scene.get(first.id).await.counters,
        Counters { attempt: 1, backoff: seconds(10), ..Counters::default() }
    );
    assert_eq!(scene.claim_one(scene.lease().await).await.facts.counters.attempt, 2);
}

/// A job that is sent back goes behind those that have waited.
pub async fn a_retried_job_waits_its_turn(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let dead = scene.finished(Options::new(), failed_for_good()).await;
    let waiting = scene.add(Options::new()).await;
    h.advance(seconds(1)).await;
    scene.retry(dead).await;
    assert_eq!(ids(&scene.claim(scene.lease().await, 9).await), [waiting, dead]);
}

/// What is ready, runs or is completed is not sent back.
pub async fn other_states_are_not_retried(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let done = scene.finished(Options::new(), completed()).await;
    let running = scene.running(Options::new()).await.id;
    let ready = scene.add(Options::new()).await;
    let all = [done, running, ready];
    let before = scene.store.get(all.into()).await.expect("jobs can be read");
    let answers = scene.store.retry([done, running, ready, JobId::new()].into()).await;
    assert_eq!(
        answers.expect("retrying is answered"),
        [
            Amended::Refused(State::Completed),
            Amended::Refused(State::Running),
            Amended::Refused(State::Ready),
            Amended::Missing,
        ]
    );
    assert_eq!(scene.store.get(all.into()).await.expect("jobs can be read"), before);
}

/// A job in any state but running can be removed, and is gone then.
pub async fn a_deleted_job_is_gone(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let all = [
        (scene.finished(Options::new(), completed()).await, State::Completed),
        (scene.finished(Options::new(), failed_for_good()).await, State::Dead),
        (scene.finished(Options::new(), Outcome::Cancelled).await, State::Cancelled),
        (scene.add(Options::new().delay(seconds(5)).expires_in(seconds(9))).await, State::Scheduled),
        (scene.add(Options::new().expires_in(seconds(9))).await, State::Ready),
    ];
    for (id, state) in all {
        assert_eq!(scene.delete(id).await, Amended::Done(state));
        assert_eq!(scene.find(id).await, None);
        assert_eq!(scene.delete(id).await, Amended::Missing);
        assert_eq!((scene.retry(id).await, scene.cancel(id).await), (Amended::Missing, Amended::Missing));
        scene.assert_counts().await;
    }
    h.advance(seconds(10)).await;
    assert_eq!(scene.claim(scene.lease().await, 9).await, []);
    assert_eq!(scene.list(&Filter::default()).await, []);
}

/// A running job is not removed under its worker.
pub async fn a_running_job_is_not_deleted(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let job = scene.running(Options::new()).await;
    assert_eq!(scene.delete(job.id).await, Amended::Refused(State::Running));
    assert_eq!(scene.count(QUEUE, State::Running).await, 1);
    assert_eq!(scene.settle(&job, completed()).await, State::Completed);
}

/// What waits can be withdrawn; what runs goes on and is not asked to stop.
pub async fn only_waiting_jobs_are_withdrawn(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let done = scene.finished(Options::new(), completed()).await;
    let running = scene.running(Options::new()).await;
    let keys = QueueConfig { keys: Some(KeyRules::default()), ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &keys).await.expect("a definition is stored");
    let unique = Unique::key("u");
    let ready = scene.add(Options::new().key("a").unique(unique.clone())).await;
    let later = scene.add(Options::new().unique(Unique::key("v")).delay(seconds(99))).await;
    let asked = [ready, later, running.id, done, JobId::new(), ready];
    let answers = scene.store.withdraw(asked.into()).await.expect("withdrawing is answered");
    let refused = Amended::Refused;
    let cancelled = Amended::Done(State::Cancelled);
    let wanted = [
        cancelled,
        cancelled,
        refused(State::Running),
        refused(State::Completed),
        Amended::Missing,
        refused(State::Cancelled),
    ];
    assert_eq!(answers, wanted);
    assert_eq!(scene.get(ready).await.reason, Some(Reason::Requested));
    assert!(!scene.get(running.id).await.cancel_requested);
    let next = job(Options::new().unique(unique));
    assert_eq!(scene.store.enqueue([next].into()).await.expect("it is accepted"), [Enqueued::New]);
    assert_eq!(scene.settle(&running, completed()).await, State::Completed);
    scene.assert_counts().await;
}

/// A job that is as it was seen is sent back or removed, as without that.
pub async fn what_is_as_it_was_seen_is_changed(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let dead = scene.finished(Options::new(), failed_for_good()).await;
    let removed = scene.finished(Options::new(), failed_for_good()).await;
    let expired = scene.add(Options::new().expires_in(seconds(5))).await;
    h.advance(seconds(5)).await;
    scene.store.promote(9).await.expect("promoting is answered");
    let waiting = scene.add(Options::new().delay(seconds(99))).await;
    let mut seen = Vec::new();
    for id in [dead, expired, waiting] {
        seen.push(Seen::of(&scene.get(id).await));
    }
    seen.push(Seen { id: JobId::new(), ..seen[0] });
    let answers = scene.store.retry_seen(seen.into()).await.expect("retrying is answered");
    let ready = Amended::Done(State::Ready);
    assert_eq!(answers, [ready, ready, ready, Amended::Missing]);
    let seen = Seen::of(&scene.get(removed).await);
    let answers = scene.store.delete_seen([seen].into()).await.expect("deleting is answered");
    assert_eq!(answers, [Amended::Done(State::Dead)]);
    assert_eq!(scene.find(removed).await, None);
    scene.assert_counts().await;
}

/// A job that was sent back since it was seen is left alone: while it waits, while it runs, and when it has died again.
pub async fn what_has_changed_since_is_left_alone(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let id = scene.finished(Options::new(), failed_for_good()).await;
    let other = scene.finished(Options::new(), failed_for_good()).await;
    let seen: [Seen; 2] = [Seen::of(&scene.get(id).await), Seen::of(&scene.get(other).await)];
    let refused = async |state: State| {
        let before = scene.get(id).await;
        let one = async |answers: windlass_core::store::StoreResult<Vec<Amended>>| {
            assert_eq!(answers.expect("it is answered"), [Amended::Refused(state)]);
        };
        one(scene.store.retry_seen([seen[0]].into()).await).await;
        one(scene.store.delete_seen([seen[0]].into()).await).await;
        assert_eq!(scene.get(id).await, before);
    };
    assert_eq!(scene.retry(id).await, Amended::Done(State::Ready));
    refused(State::Ready).await;
    let again = scene.claim_one(scene.lease().await).await;
    refused(State::Running).await;
    scene.settle(&again, failed_for_good()).await;
    refused(State::Dead).await;
    let answers = scene.store.delete_seen(seen.into()).await.expect("deleting is answered");
    assert_eq!(answers, [Amended::Refused(State::Dead), Amended::Done(State::Dead)], "each for itself");
    scene.assert_counts().await;
}
