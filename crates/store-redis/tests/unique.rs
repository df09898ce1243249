//! Unique keys where it matters how they are stored: payloads that stand apart, calls of several queues, queues that hold
//! nothing but keys, programs that do not know them, and a server that is full.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "harness/two_queues.rs"]
mod two_queues;

use std::time::Duration;

use two_queues::{Scene, ids, name};
use windlass_core::store::{Amended, Enqueued, Inspect, Jobs, Leases, Maintenance, Queues};
use windlass_core::unique::Unique;
use windlass_core::{CallId, JobId, NewJob, Options, State, StoreErrorKind};

const LONG: usize = 300 << 10;

fn job(queue: &str, unique: Unique, payload: usize) -> NewJob {
    let payload: Vec<u8> = (0..payload).map(|_| fastrand::u8(..)).collect();
    NewJob::new("k", payload, Options::new().queue(queue).unique(unique)).unwrap()
}

fn met(id: JobId, state: State) -> Enqueued {
    Enqueued::Duplicate { id, state: Some(state) }
}

impl Scene {
    async fn enqueue(&self, jobs: &[NewJob]) -> Vec<Enqueued> {
        self.store.enqueue(jobs.into()).await.unwrap()
    }

    /// How many fields or members a key of queue `bad` has.
    fn length(&self, command: &str, key: &str) -> usize {
        self.server.command(&[command, &self.key(key)]).trim().parse().unwrap()
    }
}

/// Payloads of so many bytes are written before the script.
#[tokio::test]
async fn a_long_payload_goes_with_its_job_or_to_the_holder() {
    let scene = Scene::new().await;
    let holder = job("bad", Unique::key("k"), LONG);
    assert_eq!(scene.enqueue(std::slice::from_ref(&holder)).await, [Enqueued::New]);
    let kept = job("bad", Unique::key("k"), LONG);
    let other = job("bad", Unique::key("l"), LONG);
    let answers = scene.enqueue(&[kept, other.clone()]).await;
    assert_eq!(answers, [met(holder.id, State::Ready), Enqueued::New]);
    assert_eq!(scene.length("HLEN", "bodies"), 2, "what is not stored has no payload");
    assert_eq!(scene.get(holder.id).await.payload, holder.payload);
    for length in [LONG + 1, 9, LONG, 2_000] {
        let newer = job("bad", Unique::key("k").replace(), length);
        assert_eq!(scene.enqueue(std::slice::from_ref(&newer)).await, [Enqueued::Replaced(holder.id)]);
        assert_eq!(scene.get(holder.id).await.payload, newer.payload, "{length}");
        assert_eq!(scene.length("HLEN", "bodies"), if length == 9 { 1 } else { 2 }, "{length}");
    }
    // A job of the same call, which is not stored yet when it is replaced.
    let first = job("bad", Unique::key("m").replace(), LONG);
    let (short, long) =
        (job("bad", Unique::key("m").replace(), 3), job("bad", Unique::key("m").replace(), LONG));
    for (newer, bodies) in [(&short, 2), (&long, 3)] {
        let answers = scene.enqueue(&[first.clone(), newer.clone()]).await;
        assert_eq!(answers, [Enqueued::New, Enqueued::Replaced(first.id)]);
        assert_eq!(scene.get(first.id).await.payload, newer.payload);
        assert_eq!(scene.length("HLEN", "bodies"), bodies);
        scene.store.delete([first.id].into()).await.unwrap();
    }
    assert_eq!(scene.claim(9).await.jobs.len(), 2);
}

#[tokio::test]
async fn a_call_of_several_queues_names_holders() {
    let scene = Scene::new().await;
    let held = [job("bad", Unique::key("a"), 9), job("good", Unique::key("a"), 9)];
    scene.enqueue(&held).await;
    let newer = job("good", Unique::key("a").replace(), LONG);
    let twice = [job("good", Unique::key("b"), 9), job("good", Unique::key("b"), 9)];
    let batch = [job("bad", Unique::key("a"), LONG), newer.clone(), twice[0].clone(), twice[1].clone()];
    let call = CallId::new();
    let answers = scene.store.enqueue_once(call, batch.clone().into()).await.unwrap();
    let replaced = Enqueued::Replaced(held[1].id);
    assert_eq!(
        answers,
        [met(held[0].id, State::Ready), replaced, Enqueued::New, met(twice[0].id, State::Ready)]
    );
    assert_eq!(scene.get(held[1].id).await.payload, newer.payload);
    assert_eq!(scene.length("HLEN", "bodies"), 0);
    let repeat = scene.store.enqueue_once(call, batch.clone().into()).await.unwrap();
    assert_eq!(repeat, [Enqueued::Repeated; 4], "it has stored a job");

    let (call, batch) = (CallId::new(), [job("bad", Unique::key("a"), 9), job("good", Unique::key("a"), 9)]);
    for _ in 0..2 {
        let answers = scene.store.enqueue_once(call, batch.clone().into()).await.unwrap();
        assert_eq!(answers, [0, 1].map(|place| met(held[place].id, State::Ready)));
    }
    scene.store.delete([held[0].id].into()).await.unwrap();
    let answers = scene.store.enqueue_once(call, batch.clone().into()).await.unwrap();
    assert_eq!(answers, [Enqueued::New, met(held[1].id, State::Ready)], "it is tested anew");
}

/// More jobs than one script takes: they travel as those of several queues do.
#[tokio::test]
async fn a_call_of_many_jobs_names_holders() {
    let scene = Scene::new().await;
    let batch: Vec<_> =
        (0..2_500).map(|number| job("bad", Unique::key((number % 1_900).to_string()), 9)).collect();
    let answers = scene.enqueue(&batch).await;
    for (place, answer) in answers.into_iter().enumerate() {
        let expected = if place < 1_900 { Enqueued::New } else { met(batch[place - 1_900].id, State::Ready) };
        assert_eq!(answer, expected, "{place}");
    }
    assert_eq!((scene.length("HLEN", "uniques"), scene.length("HLEN", "jobs")), (1_900, 1_900));
    let claimed = scene.claim(200).await.jobs;
    assert_eq!(ids(&claimed), batch[..200].iter().map(|job| job.id).collect::<Vec<_>>());
}

/// A refusal in one queue takes no key in another.
#[tokio::test]
async fn a_call_of_several_queues_is_refused_as_a_whole() {
    let scene = Scene::new().await;
    let taken = job("good", Unique::key("t"), 9);
    scene.enqueue(std::slice::from_ref(&taken)).await;
    let (first, other) =
        (job("bad", Unique::key("a"), 9), job("good", Unique::key("b"), 8).with_id(taken.id));
    assert!(scene.store.enqueue([first.clone(), other].into()).await.is_err());
    // Of two jobs under one id the second is another one, unless the first is not stored.
    let one = job("good", Unique::key("b"), 9);
    let two = job("good", Unique::key("c"), 8).with_id(one.id);
    assert!(scene.store.enqueue([first.clone(), one.clone(), two.clone()].into()).await.is_err());
    assert_eq!(scene.length("EXISTS", "uniques"), 0);
    let holder = job("good", Unique::key("b"), 9);
    scene.enqueue(std::slice::from_ref(&holder)).await;
    let answers = scene.enqueue(&[first, one, two.clone()]).await;
    assert_eq!(answers, [Enqueued::New, met(holder.id, State::Ready), Enqueued::New]);
    assert_eq!(scene.get(two.id).await.payload, two.payload);
}

/// Nothing but keys is left of queue `bad`: maintenance keeps it until the last of them is free.
#[tokio::test]
async fn a_queue_that_holds_keys_is_not_forgotten() {
    let scene = Scene::new().await;
    let seconds = Duration::from_secs;
    let windowed = |key: &str, span| job("bad", Unique::key(key).for_window(seconds(span)), 9);
    let jobs = [windowed("a", 10), windowed("b", 1_000)];
    scene.enqueue(&jobs).await;
    scene.store.delete(jobs.each_ref().map(|job| job.id).into()).await.unwrap();
    scene.store.close(scene.lease).await.unwrap();
    for (elapsed, held) in [(0, 2), (100, 1), (500, 1)] {
        scene.clock.advance(seconds(elapsed));
        for _ in 0..3 {
            scene.store.sweep(9).await.unwrap();
            scene.store.promote(9).await.unwrap();
        }
        assert_eq!((scene.length("HLEN", "uniques"), scene.length("ZCARD", "windows")), (held, held));
        let answer = scene.enqueue(&[windowed("b", 1)]).await;
        assert_eq!(answer, [Enqueued::Duplicate { id: jobs[1].id, state: None }]);
    }
    scene.clock.advance(seconds(4_000));
    for _ in 0..90 {
        scene.clock.advance(seconds(60));
        scene.store.promote(9).await.unwrap();
    }
    let left = scene.server.command(&["KEYS", &scene.key("*")]);
    let left: Vec<_> = left.lines().filter(|key| !key.contains(":call:")).collect();
    assert_eq!(left, [""; 0], "nothing is left of it but calls, which the server forgets");
}

#[tokio::test]
async fn old_keys_are_forgotten_by_those_who_take_new_ones() {
    let scene = Scene::new().await;
    let windowed =
        |number: usize| job("bad", Unique::key(number.to_string()).for_window(Duration::from_secs(1)), 9);
    for round in 0..3 {
        let jobs: Vec<_> = (0..700).map(|number| windowed(round * 700 + number)).collect();
        assert_eq!(scene.enqueue(&jobs).await, [Enqueued::New; 700]);
        assert_eq!((scene.length("HLEN", "uniques"), scene.length("ZCARD", "windows")), (700, 700));
        scene.clock.advance(Duration::from_secs(1));
    }
    // One that is free is taken for another time, and not forgotten with the old ones.
    let end = job("bad", Unique::key("1400"), 9);
    assert_eq!(scene.enqueue(&[end.clone(), windowed(1_401)]).await, [Enqueued::New; 2]);
    scene.store.promote(9).await.unwrap();
    assert_eq!(scene.enqueue(&[windowed(1_400)]).await, [met(end.id, State::Ready)]);
    while scene.length("ZCARD", "windows") > 1 {
        assert!(scene.enqueue(&[windowed(1_400)]).await[0].is_duplicate());
    }
    assert_eq!(scene.length("HLEN", "uniques"), 2);
}

/// Programs that would not free the key take the record for one of a form that they do not know, and park its turn.
#[tokio::test]
async fn a_job_with_a_key_is_left_alone_by_programs_that_do_not_know_keys() {
    let scene = Scene::new().await;
    for (lifetime, priority) in [(Unique::key("a"), 0), (Unique::key("b").until_start(), 3)] {
        let options = Options::new().queue("bad").unique(lifetime).priority(priority);
        let keyed = NewJob::new("k", "", options).unwrap();
        scene.enqueue(std::slice::from_ref(&keyed)).await;
        assert_eq!(
            &scene.record(keyed.id)[..2],
            format!("{:02x}", 144 + 8 + 2),
            "the state is in the lowest bits"
        );
        // As such a program does.
        let form = scene.put(keyed.id, 1, b'd');
        assert_eq!(scene.claim(9).await.jobs, []);
        scene.put(keyed.id, 1, form);
        let as_parked = "for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do \
             redis.call('ZADD', KEYS[1], ARGV[1], member) end";
        scene.server.command(&["EVAL", as_parked, "1", &scene.key("parked:k"), &form.to_string()]);
        let later = scene.add("bad", Options::new().priority(priority)).await;
        assert_eq!(ids(&scene.claim(9).await.jobs), [keyed.id, later]);
    }
}

/// What was accepted goes its way. A job that meets a holder needs no memory; one that replaces it does.
#[tokio::test]
async fn a_full_server_names_holders() {
    let scene = Scene::new().await;
    let holder = job("bad", Unique::key("k"), 2_000);
    scene.enqueue(std::slice::from_ref(&holder)).await;
    scene.server.command(&["CONFIG", "SET", "maxmemory", "1"]);
    assert_eq!(scene.enqueue(&[job("bad", Unique::key("k"), 9)]).await, [met(holder.id, State::Ready)]);
    for payload in [9, LONG] {
        let newer = job("bad", Unique::key("k").replace(), payload);
        let error = scene.store.enqueue([newer].into()).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Unavailable, "{error}");
        assert_eq!(scene.get(holder.id).await.payload, holder.payload);
        assert_eq!(scene.length("HLEN", "bodies"), 1);
    }
    assert_eq!(scene.claim(9).await.jobs.len(), 1);
    scene.server.command(&["CONFIG", "SET", "maxmemory", "0"]);
    assert_eq!(scene.enqueue(&[job("bad", Unique::key("k"), 9)]).await, [met(holder.id, State::Running)]);
}

#[tokio::test]
async fn a_key_is_shown_with_its_job_and_no_tag_is_found_in_it() {
    let scene = Scene::new().await;
    let unique = Unique::key("k").for_slot(Duration::from_secs(3_600));
    let options = || Options::new().queue("bad").tag("t").delay(Duration::from_secs(1));
    let keyed = NewJob::new("k", "", options().unique(unique)).unwrap();
    scene.enqueue(std::slice::from_ref(&keyed)).await;
    assert_eq!(scene.get(keyed.id).await.unique, keyed.unique);
    let filter = |tag: &str| windlass_core::store::Filter { tag: Some(name(tag)), ..Default::default() };
    let listed = scene.store.list(&filter("t"), None, 9).await.unwrap().jobs;
    assert_eq!(listed.iter().map(|job| (job.id, job.unique)).collect::<Vec<_>>(), [(keyed.id, keyed.unique)]);
    scene.store.cancel([keyed.id].into()).await.unwrap();
    assert_eq!(scene.store.retry([keyed.id].into()).await.unwrap(), [Amended::Done(State::Ready)]);
    assert_eq!(scene.claim(9).await.jobs.len(), 1);
    assert_eq!(scene.store.list(&filter("u"), None, 9).await.unwrap().jobs, []);
    assert_eq!(scene.store.queues(None, 9).await.unwrap()[0].counts.of(State::Running), 1);
}
