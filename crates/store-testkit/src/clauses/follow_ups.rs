//! What an attempt writes beside its outcome: jobs and records, with its end or before it, by its fence.

use futures_util::FutureExt;
use windlass_core::bell::Topic;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::record::{Expect, RecordWrite};
use windlass_core::size::Caps;
use windlass_core::store::{AttemptWrite, AttemptWritten, Right, Settlement};
use windlass_core::unique::Unique;
use windlass_core::{Bytes, JobId, Options, Outcome, State, StoreError, judge};

use super::capacity::room_for;
use super::keys::define;
use super::records::{put, records, together, value, written};
use super::wakeup::assert_rung;
use crate::Harness;
use crate::scene::{
    Scene, TTL, completed, failed, failed_for_good, forgeries, job, name, one, settlement, stalled,
};

fn ending(settlement: Settlement, then: FollowUps) -> AttemptWrite {
    let Settlement { queue, id, fence, transition } = settlement;
    AttemptWrite { queue, id, fence, transition: Some(transition), then }
}

fn end(job: &ClaimedJob, outcome: Outcome, then: FollowUps) -> AttemptWrite {
    ending(settlement(job, outcome), then)
}

fn checkpoint(job: &ClaimedJob, then: FollowUps) -> AttemptWrite {
    AttemptWrite { transition: None, ..end(job, completed(), then) }
}

fn jobs(jobs: impl Into<Vec<NewJob>>) -> FollowUps {
    FollowUps { jobs: jobs.into(), records: Vec::new() }
}

async fn write_by(scene: &Scene, right: Right, item: AttemptWrite) -> AttemptWritten {
    one(records(scene).write_fenced(right, [item].into()).await.expect("a write is answered"))
}

async fn write(scene: &Scene, item: AttemptWrite) -> AttemptWritten {
    write_by(scene, Right::Fence, item).await
}

fn assert_applied(answer: AttemptWritten, state: State) {
    assert!(matches!(answer, AttemptWritten::Applied(now) if now == state), "{answer:?} is not {state}");
}

fn assert_fenced(answer: AttemptWritten) {
    assert!(matches!(answer, AttemptWritten::Fenced), "{answer:?}");
}

fn refusal(answer: AttemptWritten) -> StoreError {
    match answer {
        AttemptWritten::Refused(error) => error,
        other => panic!("it cannot be written, but is answered with {other:?}"),
    }
}

/// The end of an attempt, its jobs and its records are written together.
pub async fn an_end_brings_what_follows(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for outcome in [Outcome::Completed { output: Some(Bytes::from_static(b"42")) }, failed_for_good()] {
        let running = scene.running(Options::new()).await;
        let next = [job(Options::new()), job(Options::new().delay(TTL)), job(Options::new().queue("other"))];
        let mut then = jobs(next.clone());
        then.records = vec![put("k", "1"), put("l", "1"), RecordWrite::remove(put("m", "").key)];
        written(&scene, [put("m", "0")]).await;
        let state = judge(&running.facts, outcome.clone(), 0.5).state;
        assert_applied(write(&scene, end(&running, outcome, then)).await, state);
        assert_eq!(scene.state(running.id).await, state);
        let states = [State::Ready, State::Scheduled, State::Ready];
        for (job, state) in next.iter().zip(states) {
            let found = scene.get(job.id).await;
            assert_eq!((found.state, &found.queue, found.payload), (state, &job.queue, job.payload.clone()));
        }
        for (key, expected) in [("k", Some("1")), ("l", Some("1")), ("m", None)] {
            assert_eq!(value(&scene, key).await.as_deref(), expected);
        }
        scene.assert_counts().await;
        for job in next {
            scene.delete(job.id).await;
        }
    }
}

/// An attempt that goes on may write, and goes on.
pub async fn an_attempt_writes_while_it_runs(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    for text in ["1", "2"] {
        let mut then = together([put("step", text)]);
        then.jobs = vec![job(Options::new().priority(-1))];
        let next = then.jobs[0].id;
        assert_applied(write(&scene, checkpoint(&running, then)).await, State::Running);
        assert_eq!(value(&scene, "step").await.as_deref(), Some(text));
        assert_eq!(scene.state(next).await, State::Ready);
    }
    assert_applied(write(&scene, checkpoint(&running, FollowUps::default())).await, State::Running);
    assert_eq!(scene.get(running.id).await.attempts.len(), 1);
    scene.settle(&running, completed()).await;
    assert_fenced(write(&scene, checkpoint(&running, together([put("step", "3")]))).await);
    assert_eq!(value(&scene, "step").await.as_deref(), Some("2"));
    for right in [Right::LostLease, Right::Late] {
        let running = scene.claim_one(scene.lease().await).await;
        assert_fenced(write_by(&scene, right, checkpoint(&running, together([put("step", "4")]))).await);
    }
    assert_eq!(value(&scene, "step").await.as_deref(), Some("2"), "a running attempt writes by its fence");
}

/// A stale fence writes nothing at all.
pub async fn a_stale_attempt_writes_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    let next = job(Options::new());
    let then = FollowUps { jobs: vec![next.clone()], records: vec![put("k", "1")] };
    for fence in forgeries(running.fence) {
        for transition in [None, Some(judge(&running.facts, completed(), 0.5))] {
            let item = AttemptWrite { fence, transition, ..checkpoint(&running, then.clone()) };
            assert_fenced(write(&scene, item).await);
        }
    }
    let elsewhere = AttemptWrite { queue: name("other"), ..checkpoint(&running, then.clone()) };
    assert_fenced(write(&scene, elsewhere).await);
    assert_fenced(
        write(&scene, AttemptWrite { id: JobId::new(), ..checkpoint(&running, then.clone()) }).await,
    );
    assert_eq!(scene.find(next.id).await, None);
    assert_eq!(value(&scene, "k").await, None);
    assert_eq!(scene.state(running.id).await, State::Running);
    assert_applied(write(&scene, end(&running, completed(), then.clone())).await, State::Completed);
    assert_fenced(write(&scene, end(&running, completed(), then)).await);
    scene.assert_counts().await;
}

/// If anything is refused, nothing is written: the attempt goes on and may end otherwise.
pub async fn a_refused_follow_up_refuses_the_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let caps = Caps { payload: 10, output: 10, ..Caps::default() };
    define(&scene, QueueConfig { caps, ..QueueConfig::default() }).await;
    let taken = scene.add(Options::new().priority(-1)).await;
    written(&scene, [put("there", "1")]).await;
    let running = scene.running(Options::new()).await;
    let good = job(Options::new());
    let new = |kind, payload| NewJob::new(kind, payload, Options::new()).expect("it is a proper job");
    let (of_taken, large) = (new("another", "{}").with_id(taken), new("work", "0123456789."));
    let own = job(Options::new()).with_id(running.id);
    type Expected = fn(&StoreError) -> bool;
    let bad: [(FollowUps, Expected); 5] = [
        (jobs([good.clone(), of_taken]), |error| matches!(error, StoreError::IdTaken { .. })),
        (jobs([good.clone(), large]), |error| matches!(error, StoreError::TooLarge { .. })),
        (jobs([good.clone(), job(Options::new().key("k"))]), |error| {
            matches!(error, StoreError::NoKeys { .. })
        }),
        (jobs([good.clone(), own]), |error| matches!(error, StoreError::IdTaken { .. })),
        (together([put("new", "1"), put("there", "2").expect(Expect::Absent)]), |error| {
            matches!(error, StoreError::Conflict { .. })
        }),
    ];
    for (then, is_expected) in bad {
        let then = FollowUps { jobs: [vec![good.clone()], then.jobs].concat(), ..then };
        for item in [end(&running, completed(), then.clone()), checkpoint(&running, then.clone())] {
            let error = refusal(write(&scene, item).await);
            assert!(is_expected(&error), "{error:?}");
            assert_eq!(scene.find(good.id).await, None, "{error}");
            assert_eq!(scene.state(running.id).await, State::Running);
        }
    }
    assert_eq!(value(&scene, "new").await, None);
    let output = Outcome::Completed { output: Some(Bytes::from_static(b"0123456789.")) };
    let error = refusal(write(&scene, end(&running, output, jobs([good.clone()]))).await);
    assert!(matches!(error, StoreError::TooLarge { id, .. } if id == running.id), "{error:?}");
    assert_eq!(scene.find(good.id).await, None);
    assert_applied(write(&scene, end(&running, completed(), jobs([good.clone()]))).await, State::Completed);
    assert_eq!(scene.state(good.id).await, State::Ready);
    scene.assert_counts().await;
}

/// Each item of a call is for itself, and they take effect one after the other.
pub async fn items_of_a_call_are_apart(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(4).await;
    let running = scene.claim(scene.lease().await, 4).await;
    scene.settle(&running[1], completed()).await;
    let then = |text: &str| FollowUps {
        jobs: vec![job(Options::new())],
        records: vec![put("winner", text).expect(Expect::Absent)],
    };
    let items: Vec<_> = (0..4).map(|i| end(&running[i], completed(), then(&i.to_string()))).collect();
    let mut answers =
        records(&scene).write_fenced(Right::Fence, items.clone().into()).await.expect("a write is answered");
    assert_eq!(answers.len(), 4);
    assert!(matches!(refusal(answers.pop().expect("there are four")), StoreError::Conflict { .. }));
    assert!(matches!(refusal(answers.pop().expect("there are three")), StoreError::Conflict { .. }));
    assert_fenced(answers.pop().expect("there are two"));
    assert_applied(answers.pop().expect("there is one"), State::Completed);
    assert_eq!(value(&scene, "winner").await.as_deref(), Some("0"));
    for (i, item) in items.iter().enumerate() {
        assert_eq!(scene.find(item.then.jobs[0].id).await.is_some(), i == 0, "the job of item {i}");
    }
    for job in &running[2..] {
        assert_eq!(scene.settle(job, completed()).await, State::Completed);
    }
    assert_eq!(records(&scene).write_fenced(Right::Fence, [].into()).await.expect("it is answered").len(), 0);
    scene.assert_counts().await;
}

/// Many attempts end in one call, each with a job of its own, also for other queues.
pub async fn many_attempts_are_followed_at_once(h: &impl Harness) {
    let scene = Scene::new(h).await;
    scene.add_many(200).await;
    let running = scene.claim(scene.lease().await, 200).await;
    assert_eq!(running.len(), 200);
    let queue = |i: usize| ["default", "other", "a"][i % 3];
    let items = running.iter().enumerate().map(|(i, running)| {
        let mut then = jobs([job(Options::new().queue(queue(i)))]);
        then.records = vec![put(&format!("{i}"), "done")];
        end(running, completed(), then)
    });
    let items: Vec<_> = items.collect();
    let answers = records(&scene).write_fenced(Right::Fence, items.clone().into()).await;
    for (item, answer) in items.iter().zip(answers.expect("a write is answered")) {
        assert_applied(answer, State::Completed);
        assert_eq!(scene.state(item.then.jobs[0].id).await, State::Ready);
    }
    for queue in ["default", "other", "a"] {
        assert!(scene.count(queue, State::Ready).await >= 66);
    }
    assert_eq!(value(&scene, "199").await.as_deref(), Some("done"));
    scene.assert_counts().await;
}

/// A job that was asked to stop and would be put back is cancelled, and nothing follows. What has ended is followed.
pub async fn what_is_cancelled_is_not_followed(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for (outcome, state, follows) in
        [(failed(), State::Cancelled, false), (completed(), State::Completed, true)]
    {
        let running = scene.running(Options::new()).await;
        scene.cancel(running.id).await;
        let next = job(Options::new().delay(TTL));
        let then = FollowUps { jobs: vec![next.clone()], records: vec![put("k", "1")] };
        assert_applied(write(&scene, end(&running, outcome, then)).await, state);
        assert_eq!(scene.find(next.id).await.is_some(), follows);
        assert_eq!(value(&scene, "k").await.is_some(), follows);
    }
    let running = scene.running(Options::new()).await;
    scene.cancel(running.id).await;
    let step = checkpoint(&running, together([put("step", "1")]));
    assert_applied(write(&scene, step).await, State::Running);
    assert_eq!(value(&scene, "step").await.as_deref(), Some("1"), "it may still write, for it still runs");
}

/// An attempt that is put back is followed as well.
pub async fn an_attempt_that_is_put_back_is_followed(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    let next = job(Options::new().delay(TTL));
    let then = FollowUps { jobs: vec![next.clone()], records: vec![put("k", "1")] };
    assert_applied(write(&scene, end(&running, failed(), then)).await, State::Scheduled);
    assert_eq!(
        (scene.state(next.id).await, value(&scene, "k").await.as_deref()),
        (State::Scheduled, Some("1"))
    );
    assert_eq!(scene.get(running.id).await.last_error(), Some("it failed"));
}

/// A full queue takes what follows: what was done must be able to end.
pub async fn a_full_queue_takes_what_follows(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    define(&scene, room_for(1)).await;
    scene.add(Options::new()).await;
    let next = [job(Options::new()), job(Options::new())];
    assert_applied(write(&scene, end(&running, completed(), jobs(next.clone()))).await, State::Completed);
    assert_eq!(scene.count("default", State::Ready).await, 3);
}

/// A job that is there already, or whose unique key another job holds, refuses nothing. The key of the job that ends is free.
pub async fn a_follow_up_may_be_there_already(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let unique = || Options::new().unique(Unique::key("tick"));
    let running = scene.running(unique()).await;
    let next = job(unique());
    assert_applied(write(&scene, end(&running, completed(), jobs([next.clone()]))).await, State::Completed);
    assert_eq!(scene.state(next.id).await, State::Ready, "the key of the job that ended was free");
    let running = scene.claim_one(scene.lease().await).await;
    let (second, third) = (job(unique()), job(unique()));
    let both = jobs([second.clone(), second.clone(), third.clone()]);
    assert_applied(write(&scene, end(&running, completed(), both)).await, State::Completed);
    assert_eq!((scene.state(second.id).await, scene.find(third.id).await), (State::Ready, None));
    let running = scene.running(Options::new().priority(9)).await;
    let again = jobs([job(unique().priority(5)).with_id(second.id)]);
    assert_applied(write(&scene, end(&running, completed(), again)).await, State::Completed);
    assert_eq!(scene.get(second.id).await.priority, 0, "it stays as it was");
    scene.assert_counts().await;
}

/// What follows an end that is not kept is kept.
pub async fn an_end_that_is_not_kept_is_followed(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    define(&scene, QueueConfig { retention, ..QueueConfig::default() }).await;
    let running = scene.running(Options::new()).await;
    let next = job(Options::new());
    let then = FollowUps { jobs: vec![next.clone()], records: vec![put("k", "1")] };
    assert_applied(write(&scene, end(&running, completed(), then)).await, State::Completed);
    assert_eq!(scene.find(running.id).await, None);
    assert_eq!((scene.state(next.id).await, value(&scene, "k").await.as_deref()), (State::Ready, Some("1")));
    scene.assert_counts().await;
}

/// A reaper brings follow-ups if the lease has still run out.
pub async fn a_reaper_brings_what_follows(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new().max_stalls(0)).await;
    scene.begin(&running).await;
    let next = job(Options::new());
    let then = FollowUps { jobs: vec![next.clone()], records: vec![put("k", "1")] };
    let early = end(&running, Outcome::Stalled { worker: "w".into() }, then.clone());
    assert_fenced(write_by(&scene, Right::LostLease, early).await);
    assert_eq!((scene.find(next.id).await, value(&scene, "k").await), (None, None), "its lease lives");
    h.advance(TTL).await;
    let lost = one(scene.lost().await);
    assert_applied(
        write_by(&scene, Right::LostLease, ending(stalled(&lost), then.clone())).await,
        State::Dead,
    );
    assert_eq!((scene.state(next.id).await, value(&scene, "k").await.as_deref()), (State::Ready, Some("1")));
    assert_fenced(write_by(&scene, Right::LostLease, ending(stalled(&lost), then)).await);
    scene.assert_counts().await;
}

/// The late end of an attempt that was reaped brings follow-ups, as long as nothing has happened to the job.
pub async fn a_late_end_brings_what_follows(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for touched in [false, true] {
        let running = scene.running(Options::new()).await;
        assert_eq!(scene.reap_one(h).await, State::Ready);
        if touched {
            let again = scene.claim_one(scene.lease().await).await;
            assert_eq!(again.id, running.id);
        }
        let next = job(Options::new().delay(TTL * 100));
        let item = end(&running, completed(), jobs([next.clone()]));
        let answer = write_by(&scene, Right::Late, item).await;
        if touched {
            assert_fenced(answer);
        } else {
            assert_applied(answer, State::Completed);
        }
        assert_eq!(scene.find(next.id).await.is_some(), !touched);
    }
}

/// Workers that wait hear of jobs that follow, callers of the end.
pub async fn what_follows_rings(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let running = scene.running(Options::new()).await;
    let (mut work, mut finish) =
        (scene.store.bell().listen(Topic::Work), scene.store.bell().listen(Topic::Finish));
    write(&scene, end(&running, completed(), jobs([job(Options::new())]))).await;
    assert_rung(&mut work, "a job that follows").await;
    assert_rung(&mut finish, "an end that is followed").await;
}

/// A call that is dropped takes effect as a whole or not at all.
pub async fn a_dropped_write_is_whole_or_nothing(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for round in 0..20 {
        let running = scene.running(Options::new().priority(9)).await;
        let (key, next) = (format!("k{round}"), job(Options::new().delay(TTL * 100)));
        let then = FollowUps { jobs: vec![next.clone()], records: vec![put(&key, "1")] };
        let item = end(&running, completed(), then);
        let _ = records(&scene).write_fenced(Right::Fence, [item.clone()].into()).now_or_never();
        // Whether or not the first one took effect, a repeat is answered, and then all of it is there.
        match write(&scene, item).await {
            AttemptWritten::Applied(State::Completed) | AttemptWritten::Fenced => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(scene.state(running.id).await, State::Completed);
        assert_eq!(scene.state(next.id).await, State::Scheduled, "round {round}");
        assert_eq!(value(&scene, &key).await.as_deref(), Some("1"), "round {round}");
    }
}
