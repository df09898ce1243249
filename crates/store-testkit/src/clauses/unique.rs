//! Unique keys: of a queue's jobs one holds a key, for as long as its lifetime says, and a job that meets it is answered.

use std::time::Duration;

use windlass_core::job::NewJob;
use windlass_core::queue::{Keep, QueueConfig, Removed, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Amended, Enqueued, Filter};
use windlass_core::unique::Unique;
use windlass_core::{CallId, JobId, Options, Outcome, State, StoreError};

use super::at_once::{both, pair};
use crate::Harness;
use crate::scene::{KIND, QUEUE, Scene, completed, failed, failed_for_good, job, name, one, seconds};

/// A job with this key.
pub(super) fn with(unique: Unique) -> NewJob {
    job(Options::new().unique(unique))
}

fn until_end() -> NewJob {
    with(Unique::key("k"))
}

fn until_start() -> NewJob {
    with(Unique::key("k").until_start())
}

/// A job with this key that says something else.
pub(super) fn saying(payload: &'static str, options: Options) -> NewJob {
    NewJob::new(KIND, payload, options).expect("clauses write proper jobs")
}

pub(super) async fn enqueue(scene: &Scene, job: &NewJob) -> Enqueued {
    one(scene.store.enqueue([job.clone()].into()).await.expect("a proper job is answered"))
}

async fn assert_held(scene: &Scene, id: JobId, state: State, when: &str) {
    let met = enqueue(scene, &until_end()).await;
    assert_eq!(met, Enqueued::Duplicate { id, state: Some(state) }, "{when}");
}

/// The key is free: another job takes it, and is removed again.
pub(super) async fn assert_free(scene: &Scene, when: &str) {
    let next = until_end();
    assert_eq!(enqueue(scene, &next).await, Enqueued::New, "{when}");
    assert!(matches!(scene.delete(next.id).await, Amended::Done(_)));
}

/// A job whose key another one holds is answered with the holder and its state, and is not stored.
pub async fn one_job_holds_a_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (first, second) = (until_end(), until_end());
    assert_eq!(enqueue(&scene, &first).await, Enqueued::New);
    let met = Enqueued::Duplicate { id: first.id, state: Some(State::Ready) };
    assert_eq!(enqueue(&scene, &second).await, met);
    assert_eq!(scene.find(second.id).await, None);
    assert_eq!(scene.get(first.id).await.unique, first.unique);
    assert_eq!(enqueue(&scene, &with(Unique::key("l"))).await, Enqueued::New, "another key");
    scene.add(Options::new()).await;
    assert_eq!(scene.list(&Filter::default()).await.len(), 3);
    scene.assert_counts().await;
    assert_eq!(enqueue(&scene, &first).await, Enqueued::Existing(State::Ready), "the id is tested first");
}

/// Keys of different queues are different keys.
pub async fn queues_have_keys_of_their_own(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for queue in ["a", "b"] {
        let job = job(Options::new().queue(queue).unique(Unique::key("k")));
        assert_eq!(enqueue(&scene, &job).await, Enqueued::New);
    }
    let again = job(Options::new().queue("b").unique(Unique::key("k")));
    assert!(enqueue(&scene, &again).await.is_duplicate());
}

/// A key until the start is free from the claim on, and a job that comes back does not take it again.
pub async fn until_the_start(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = until_start();
    assert_eq!(enqueue(&scene, &first).await, Enqueued::New);
    assert!(enqueue(&scene, &until_start()).await.is_duplicate());
    let running = scene.claim_one(scene.lease().await).await;
    let second = until_start();
    assert_eq!(enqueue(&scene, &second).await, Enqueued::New, "the first one has started");
    assert_eq!(scene.settle(&running, failed()).await, State::Scheduled);
    let met = Enqueued::Duplicate { id: second.id, state: Some(State::Ready) };
    assert_eq!(enqueue(&scene, &until_start()).await, met);
    assert_eq!(scene.cancel(first.id).await, Amended::Done(State::Cancelled));
    assert_eq!(enqueue(&scene, &until_start()).await, met, "it gives up only what it holds");
    assert_eq!(scene.cancel(second.id).await, Amended::Done(State::Cancelled));
    assert_free(&scene, "it never started").await;
}

/// A key until the end is held through claims, retries, snoozes and returns.
pub async fn until_the_end(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let (lease, first) = (scene.lease().await, until_end());
    assert_eq!(enqueue(&scene, &first).await, Enqueued::New);
    let outcomes = [failed(), Outcome::Snooze { after: seconds(3) }, Outcome::Returned];
    for outcome in outcomes {
        let running = scene.claim_one(lease).await;
        assert_held(&scene, first.id, State::Running, "while it runs").await;
        let state = scene.settle(&running, outcome).await;
        assert_held(&scene, first.id, state, "when it waits again").await;
        h.advance(seconds(10)).await;
    }
    let running = scene.claim_one(scene.lease().await).await;
    scene.settle(&running, completed()).await;
    assert_free(&scene, "it has completed").await;
}

/// A key until the end is free at every end that a job can come to.
pub async fn every_end_frees_a_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for (outcome, end) in
        [(completed(), "completed"), (failed_for_good(), "dead"), (Outcome::Cancelled, "cancelled")]
    {
        scene.enqueue(until_end()).await;
        let running = scene.claim_one(scene.lease().await).await;
        scene.settle(&running, outcome).await;
        assert_free(&scene, end).await;
    }
    for unique in [Unique::key("k"), Unique::key("k").until_start()] {
        let id = scene.enqueue(with(unique.clone())).await;
        assert_eq!(scene.cancel(id).await, Amended::Done(State::Cancelled));
        assert_free(&scene, "it was cancelled while it waited").await;
        let id = scene.enqueue(with(unique.clone())).await;
        assert_eq!(scene.delete(id).await, Amended::Done(State::Ready));
        assert_free(&scene, "it was deleted").await;
        scene.enqueue(job(Options::new().unique(unique).expires_in(seconds(1)))).await;
        h.advance(seconds(1)).await;
        scene.store.promote(10).await.expect("promoting is answered");
        assert_free(&scene, "it has expired").await;
    }
    scene.assert_counts().await;
}

/// A queue that keeps none of an end frees the key with the job.
pub async fn a_job_that_is_not_kept_frees_its_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let retention = Retention { completed: Keep::NONE, ..Retention::default() };
    let config = QueueConfig { retention, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    for _ in 0..2 {
        scene.enqueue(until_end()).await;
        let running = scene.claim_one(scene.lease().await).await;
        scene.settle(&running, completed()).await;
        assert_eq!(scene.find(running.id).await, None);
    }
    assert_free(&scene, "it is gone").await;
}

/// A job that is reaped holds its key until its end; a late outcome is an end.
pub async fn a_reaped_job_holds_its_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first = until_end();
    scene.enqueue(first.clone()).await;
    let running = scene.claim_one(scene.lease().await).await;
    scene.begin(&running).await;
    let state = scene.reap_one(h).await;
    assert_held(&scene, first.id, state, "it will run again").await;
    let late = crate::scene::settlement(&running, completed());
    let answer = one(scene.store.settle_late([late].into()).await.expect("settling is answered"));
    assert_eq!(answer, windlass_core::store::Settled::Applied(State::Completed));
    assert_free(&scene, "it has ended after all").await;
}

/// A key for a window is held for that time, whatever becomes of its job, and for no longer.
pub async fn for_a_window(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let windowed = || with(Unique::key("k").for_window(seconds(60)));
    let first = windowed();
    scene.enqueue(first.clone()).await;
    let running = scene.claim_one(scene.lease().await).await;
    assert_eq!(
        enqueue(&scene, &windowed()).await,
        Enqueued::Duplicate { id: first.id, state: Some(State::Running) }
    );
    scene.settle(&running, completed()).await;
    assert_eq!(
        enqueue(&scene, &windowed()).await,
        Enqueued::Duplicate { id: first.id, state: Some(State::Completed) }
    );
    assert_eq!(scene.delete(first.id).await, Amended::Done(State::Completed));
    assert_eq!(enqueue(&scene, &windowed()).await, Enqueued::Duplicate { id: first.id, state: None });
    let namesake = saying("another job", Options::new()).with_id(first.id);
    scene.enqueue(namesake.clone()).await;
    let replacing = with(Unique::key("k").for_window(seconds(60)).replace());
    assert_eq!(enqueue(&scene, &replacing).await, Enqueued::Duplicate { id: first.id, state: None });
    assert_eq!(scene.get(first.id).await.payload, namesake.payload, "it does not hold the key");
    h.advance(seconds(60)).await;
    let next = windowed();
    assert_eq!(enqueue(&scene, &next).await, Enqueued::New, "the time is over");
    assert_eq!(
        enqueue(&scene, &windowed()).await,
        Enqueued::Duplicate { id: next.id, state: Some(State::Ready) }
    );
}

/// A key for a slot is free when the slot of the clock ends, for whichever job was first in it.
pub async fn for_a_slot(h: &impl Harness) {
    const SLOT: Duration = Duration::from_secs(3_600);
    let scene = Scene::new(h).await;
    let slotted = || with(Unique::key("k").for_slot(SLOT));
    let first = slotted();
    scene.enqueue(first.clone()).await;
    let accepted = scene.get(first.id).await.enqueued_at.as_micros();
    let slot = i64::try_from(SLOT.as_micros()).expect("an hour");
    let left =
        Duration::from_micros(u64::try_from(slot - accepted.rem_euclid(slot)).expect("less than an hour"));
    if left > seconds(20) {
        h.advance(left - seconds(15)).await;
        assert!(enqueue(&scene, &slotted()).await.is_duplicate(), "the slot lasts");
    }
    h.advance(left).await;
    assert_eq!(enqueue(&scene, &slotted()).await, Enqueued::New, "the slot is over");
}

/// Keys that were held for a time and are forgotten when their time is over harm no other.
pub async fn old_windows_are_forgotten(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let windowed = |number: u64, span| with(Unique::key(number.to_string()).for_window(seconds(span)));
    for number in 0..20 {
        scene.enqueue(windowed(number, 10 + number % 2 * 100)).await;
    }
    h.advance(seconds(10)).await;
    scene.store.tidy(100).await.expect("tidying is answered");
    for number in 0..20 {
        let is_held = number % 2 == 1;
        assert_eq!(enqueue(&scene, &windowed(number, 50)).await.is_duplicate(), is_held, "{number}");
    }
}

/// Jobs of one call meet each other as jobs of two calls do.
pub async fn a_key_may_stand_twice_in_a_batch(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let replacing = |payload| saying(payload, Options::new().unique(Unique::key("r").replace()));
    let jobs = [
        until_end(),
        with(Unique::key("l")),
        until_end(),
        replacing("1"),
        replacing("2"),
        job(Options::new()),
    ];
    let answers = scene.store.enqueue(jobs.clone().into()).await.expect("proper jobs are answered");
    let met = Enqueued::Duplicate { id: jobs[0].id, state: Some(State::Ready) };
    let replaced = Enqueued::Replaced(jobs[3].id);
    assert_eq!(answers, [Enqueued::New, Enqueued::New, met, Enqueued::New, replaced, Enqueued::New]);
    assert_eq!(&scene.get(jobs[3].id).await.payload[..], b"2");
    let claimed = scene.claim(scene.lease().await, 9).await;
    assert_eq!(crate::scene::ids(&claimed), [jobs[0].id, jobs[1].id, jobs[3].id, jobs[5].id]);
    let many: Vec<_> = (0..300).map(|number| with(Unique::key((number % 200).to_string()))).collect();
    let answers = scene.store.enqueue(many.into()).await.expect("proper jobs are answered");
    assert_eq!(answers.iter().filter(|answer| **answer == Enqueued::New).count(), 200);
    assert!(answers[200..].iter().all(Enqueued::is_duplicate));
    scene.assert_counts().await;
}

/// A refused call takes no key and changes no holder.
pub async fn a_refused_call_takes_no_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let taken = job(Options::new());
    scene.enqueue(taken.clone()).await;
    let other = NewJob::new(KIND, "another payload", Options::new()).expect("a proper job").with_id(taken.id);
    let holder = saying("old", Options::new().unique(Unique::key("r").replace()));
    scene.enqueue(holder.clone()).await;
    let replacing = saying("new", Options::new().unique(Unique::key("r").replace()));
    let windowed = with(Unique::key("w").for_window(seconds(900)));
    let call = [until_end(), windowed, replacing, other];
    let refused = scene.store.enqueue(call.into()).await.expect_err("the id is taken");
    assert!(matches!(refused, StoreError::IdTaken { id } if id == taken.id), "{refused}");
    assert_free(&scene, "the call was refused").await;
    assert_eq!(enqueue(&scene, &with(Unique::key("w"))).await, Enqueued::New);
    assert_eq!(&scene.get(holder.id).await.payload[..], b"old");
    scene.assert_counts().await;
}

/// A payload above the cap is refused, also where its key is held.
pub async fn a_payload_is_tested_before_its_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let config = QueueConfig { caps: Caps { payload: 4, ..Caps::default() }, ..QueueConfig::default() };
    scene.store.define(&name(QUEUE), &config).await.expect("a queue can be defined");
    let replacing = || Options::new().unique(Unique::key("r").replace());
    let holder = saying("four", replacing());
    scene.enqueue(holder.clone()).await;
    let refused = scene.store.enqueue([saying("fiver", replacing())].into()).await.expect_err("too large");
    assert!(matches!(refused, StoreError::TooLarge { .. }), "{refused}");
    assert_eq!(&scene.get(holder.id).await.payload[..], b"four");
}

/// A repeated call is known if it has stored a job. One that has met holders only is answered anew.
pub async fn a_repeated_call_is_answered(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let first: std::sync::Arc<[NewJob]> = [until_end(), until_end()].into();
    let call = CallId::new();
    let answers = scene.store.enqueue_once(call, first.clone()).await.expect("a proper call is answered");
    assert_eq!(answers[0], Enqueued::New);
    let answers = scene.store.enqueue_once(call, first.clone()).await.expect("a repeat is answered");
    assert_eq!(answers, [Enqueued::Repeated; 2]);
    let (second, call): (std::sync::Arc<[NewJob]>, _) = ([until_end()].into(), CallId::new());
    let met = [Enqueued::Duplicate { id: first[0].id, state: Some(State::Ready) }];
    for _ in 0..2 {
        assert_eq!(scene.store.enqueue_once(call, second.clone()).await.expect("it is answered"), met);
    }
    assert_eq!(scene.delete(first[0].id).await, Amended::Done(State::Ready));
    assert_eq!(scene.store.enqueue_once(call, second).await.expect("it is answered"), [Enqueued::New]);
}

/// A retry by hand takes the key again, and is refused while another job holds it.
pub async fn a_retried_job_takes_its_key_again(h: &impl Harness) {
    let scene = Scene::new(h).await;
    for unique in [Unique::key("k"), Unique::key("k").until_start()] {
        let first = with(unique.clone());
        scene.enqueue(first.clone()).await;
        let running = scene.claim_one(scene.lease().await).await;
        assert_eq!(scene.settle(&running, failed_for_good()).await, State::Dead);
        let second = with(unique.clone());
        scene.enqueue(second.clone()).await;
        assert_eq!(scene.retry(first.id).await, Amended::Held(second.id));
        assert_eq!(scene.state(first.id).await, State::Dead, "nothing was changed");
        assert_eq!(scene.cancel(second.id).await, Amended::Done(State::Cancelled));
        assert_eq!(scene.retry(first.id).await, Amended::Done(State::Ready));
        assert_eq!(scene.retry(second.id).await, Amended::Held(first.id));
        assert_eq!(
            enqueue(&scene, &with(unique.clone())).await,
            Enqueued::Duplicate { id: first.id, state: Some(State::Ready) }
        );
        assert_eq!(scene.delete(first.id).await, Amended::Done(State::Ready));
        assert_eq!(scene.delete(second.id).await, Amended::Done(State::Cancelled));
    }
    let both = [until_end(), with(Unique::key("other"))];
    for job in &both {
        scene.enqueue(job.clone()).await;
        assert_eq!(scene.cancel(job.id).await, Amended::Done(State::Cancelled));
    }
    let holder = scene.enqueue(until_end()).await;
    let ids = both.iter().map(|job| job.id).collect();
    let answers = scene.store.retry(ids).await.expect("retrying is answered");
    assert_eq!(answers, [Amended::Held(holder), Amended::Done(State::Ready)], "each for itself");
    scene.assert_counts().await;
}

/// A removed queue holds no key.
pub async fn a_removed_queue_holds_no_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let windowed = || with(Unique::key("k").for_window(seconds(900)));
    scene.store.define(&name(QUEUE), &QueueConfig::default()).await.expect("a queue can be defined");
    let first = windowed();
    scene.enqueue(first.clone()).await;
    assert!(matches!(scene.delete(first.id).await, Amended::Done(_)));
    assert!(enqueue(&scene, &windowed()).await.is_duplicate());
    assert_eq!(scene.store.remove(&name(QUEUE)).await.expect("removing is answered"), Removed::Done);
    assert_eq!(enqueue(&scene, &windowed()).await, Enqueued::New);
}

/// Of many jobs with one key that come at once, through several handles, one is stored and the others name it.
pub async fn of_many_at_once_one_is_new(h: &impl Harness) {
    let (here, there) = pair(h).await;
    for round in 0..10 {
        let unique = || Unique::key(round.to_string());
        let many = |scene: &Scene| {
            let store = scene.store.clone();
            let jobs: Vec<_> = (0..10).map(|_| with(unique())).collect();
            async move {
                let mut answers = Vec::new();
                for job in jobs {
                    let answer = store.enqueue([job.clone()].into()).await.expect("a proper job is answered");
                    answers.push((job.id, one(answer)));
                }
                answers
            }
        };
        let (mine, yours) = both(many(&here), many(&there)).await;
        let answers = [mine, yours].concat();
        let new: Vec<_> = answers.iter().filter(|(_, answer)| *answer == Enqueued::New).collect();
        let [(holder, _)] = new[..] else { panic!("{} jobs hold one key", new.len()) };
        let met = Enqueued::Duplicate { id: *holder, state: Some(State::Ready) };
        assert!(answers.iter().all(|(id, answer)| id == holder || *answer == met), "{answers:?}");
    }
    assert_eq!(here.count(QUEUE, State::Ready).await, 10);
    here.assert_counts().await;
}

/// While jobs of one key run to their end, at most one of them is open at any time, and each enqueue is answered with a job
/// that is there or has ended.
pub async fn an_enqueue_and_an_end_agree(h: &impl Harness) {
    let (here, there) = pair(h).await;
    let lease = there.lease().await;
    let (adding, ending) = (here.store.clone(), there.store.clone());
    let add = async move {
        let mut new = Vec::new();
        for _ in 0..40 {
            let job = until_end();
            match one(adding.enqueue([job.clone()].into()).await.expect("a proper job is answered")) {
                Enqueued::New => new.push(job.id),
                Enqueued::Duplicate { id, .. } => {
                    assert_eq!(new.last(), Some(&id), "the holder is the newest");
                }
                answer => panic!("{answer:?}"),
            }
        }
        new
    };
    let end = async move {
        let mut ended = 0;
        for _ in 0..60 {
            let request = crate::scene::request(lease, 9);
            let answer = ending.claim(request).await.expect("a claim is answered");
            let windlass_core::store::ClaimAnswer::Jobs { jobs, .. } = answer else {
                panic!("the lease lives")
            };
            assert!(jobs.len() <= 1, "one job holds the key");
            for job in jobs {
                let settlement = crate::scene::settlement(&job, completed());
                ending.settle([settlement].into()).await.expect("settling is answered");
                ended += 1;
            }
        }
        ended
    };
    let (new, ended) = both(add, end).await;
    assert!(new.len() == ended || new.len() == ended + 1, "{} new, {ended} ended", new.len());
    here.assert_counts().await;
}

/// A call that is made again under the same ids, when its jobs have ended, takes no key: others may have them.
pub async fn a_known_job_takes_no_key(h: &impl Harness) {
    let scene = Scene::new(h).await;
    let jobs: Vec<_> =
        (0..12).map(|number| job(Options::new().unique(Unique::key(format!("u{number}"))))).collect();
    let enqueue = async |jobs: &[NewJob]| scene.store.enqueue(jobs.into()).await.expect("jobs are accepted");
    assert_eq!(enqueue(&jobs[..11]).await, [Enqueued::New; 11]);
    for claimed in scene.claim(scene.lease().await, 11).await {
        scene.settle(&claimed, completed()).await;
    }
    // The last one is new.
    let again = enqueue(&jobs).await;
    assert!(again[..11].iter().all(|answer| matches!(answer, Enqueued::Existing(_))), "{again:?}");
    assert_eq!(again[11], Enqueued::New);
    let others: Vec<_> = jobs.iter().map(|job| job.clone().with_id(JobId::new())).collect();
    let answers = enqueue(&others).await;
    assert_eq!(answers[..11], [Enqueued::New; 11], "their keys are free");
    let held = Enqueued::Duplicate { id: jobs[11].id, state: Some(State::Ready) };
    assert_eq!(answers[11], held);
    scene.assert_counts().await;
}
