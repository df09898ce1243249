//! Unique jobs through the client: what a caller is told, and what its handle is about.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;

use windlass_core::store::{Amended, Enqueued};
use windlass_core::unique::Unique;
use windlass_core::{JobId, Options, State};
use windlass_worker::{Job, Moved};

use crate::support::{Act, PATIENCE, probe, scene, worker};

#[tokio::test]
async fn the_handle_of_a_duplicate_is_about_the_job_that_is_there() {
    let (client, stage) = scene();
    let unique = || client.enqueue(probe(Act::Succeed)).unique(Unique::key("order 7"));
    let first = unique().await.unwrap();
    let second = unique().await.unwrap();
    assert!(first.is_new() && !second.is_new());
    assert_eq!(first.answer(), Some(Enqueued::New));
    let met = Enqueued::Duplicate { id: first.id(), state: Some(State::Ready) };
    assert_eq!((second.id(), second.answer()), (first.id(), Some(met)));
    worker(&client, &stage).drain().await.unwrap();
    assert_eq!(second.output().await.unwrap(), first.output().await.unwrap());
    assert!(unique().await.unwrap().is_new(), "the first one has ended");
}

#[tokio::test]
async fn the_newest_takes_the_place_of_one_that_waits_and_of_none_that_runs() {
    let (client, stage) = scene();
    let enqueue = |unique: Unique| client.enqueue(probe(Act::Wait)).unique(unique).supersede();
    let by_start = || enqueue(Unique::key("a").until_start());
    let (first, second) = (by_start().await.unwrap(), by_start().await.unwrap());
    assert!(first.is_new() && second.is_new());
    assert_eq!(first.state().await.unwrap(), Some(State::Cancelled));
    let by_end = || enqueue(Unique::key("b"));
    let held = by_end().await.unwrap();
    let running = worker(&client, &stage).start().unwrap();
    stage.until_started(2).await;
    let (third, refused) = (by_start().await.unwrap(), by_end().await.unwrap());
    assert!(third.is_new(), "the one that runs has given its key up");
    let met = Enqueued::Duplicate { id: held.id(), state: Some(State::Running) };
    assert_eq!(refused.answer(), Some(met));
    for handle in [&second, &held] {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert!(record.state == State::Running && !record.cancel_requested, "{record:?}");
    }
    stage.release(3);
    for handle in [second, held, third] {
        handle.output().await.unwrap();
    }
    running.stop().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_does_not_stop_the_newest_between_two_writes() {
    let (client, _stage) = scene();
    let enqueue = || client.enqueue(probe(Act::Succeed)).unique(Unique::key("a")).supersede().into_future();
    let first = enqueue().await.unwrap();
    // Polled once, and dropped.
    assert!(enqueue().now_or_never().is_none(), "a store call takes more than one poll");
    let started = Instant::now();
    let newest = loop {
        let queue = client.queue("default").unwrap().counts().await.unwrap();
        if (queue.of(State::Cancelled), queue.of(State::Ready)) == (1, 1) {
            break enqueue().await.unwrap();
        }
        assert!(started.elapsed() < PATIENCE, "{queue:?}");
        tokio::task::yield_now().await;
    };
    assert_eq!(first.state().await.unwrap(), Some(State::Cancelled));
    assert!(newest.is_new());
}

#[tokio::test]
async fn jobs_are_unique_by_their_payload_also_in_one_call() {
    let (client, _) = scene();
    let acts = [Act::Linger(1), Act::Linger(2), Act::Linger(1)];
    let handles = client.enqueue_all(acts.map(probe)).unique(Unique::payload()).await.unwrap();
    let new: Vec<_> = handles.iter().map(windlass_worker::Handle::is_new).collect();
    assert_eq!(new, [true, true, false]);
    assert_eq!(handles[2].id(), handles[0].id());
    let by_field = Unique::fields(["act"]);
    let other = client.enqueue(probe(Act::Linger(2))).unique(by_field.clone()).await.unwrap();
    assert!(other.is_new(), "by a field is another key than by the whole");
    let error = client.enqueue(probe(Act::Succeed)).unique(by_field.debounce(None)).await.unwrap_err();
    assert!(error.to_string().contains("give it a delay"), "{error}");
}

#[tokio::test]
async fn each_job_of_a_call_may_have_options_of_its_own() {
    let (client, _) = scene();
    let id = JobId::from_key("payment", "pi_42");
    let jobs = [
        probe(Act::Succeed).with(Options::new().priority(9)).id(id),
        probe(Act::Succeed).with(Options::new().delay(Duration::from_secs(60)).unique(Unique::key("k"))),
        probe(Act::Succeed).with(Options::new()),
    ];
    let handles = client.enqueue_all(jobs).tag("all").priority(1).await.unwrap();
    assert_eq!(handles[0].id(), id);
    let mut records = Vec::new();
    for handle in &handles {
        records.push(client.job(handle.id()).await.unwrap().unwrap());
    }
    assert_eq!(records.iter().map(|record| record.priority).collect::<Vec<_>>(), [9, 1, 1]);
    assert_eq!(records[1].state, State::Scheduled);
    assert!(records[1].unique.is_some() && records[2].unique.is_none());
    assert!(records.iter().all(|record| record.tags.len() == 1), "what is said for all adds up");
    let again = client.enqueue_all([probe(Act::Succeed).with(Options::new()).id(id)]).await.unwrap();
    assert!(!again[0].is_new(), "the same job under the same id");
}

#[tokio::test]
async fn a_held_key_refuses_a_retry_and_a_move() {
    let (client, _) = scene();
    let unique = |queue| client.enqueue(probe(Act::Succeed)).queue(queue).unique(Unique::key("k"));
    let first = unique("a").await.unwrap().id();
    client.cancel(first).await.unwrap();
    let second = unique("a").await.unwrap().id();
    assert_eq!(client.retry(first).await.unwrap(), Amended::Held(second));
    let there = unique("b").await.unwrap().id();
    assert_eq!(client.move_job(second, "b").await.unwrap(), Moved::Held(there));
    assert_eq!(client.job(second).await.unwrap().unwrap().state, State::Ready, "it stays where it is");
    client.cancel(there).await.unwrap();
    let Moved::Done(moved, State::Ready) = client.move_job(second, "b").await.unwrap() else {
        panic!("refused")
    };
    assert_eq!(unique("b").await.unwrap().id(), moved, "its key has moved along");
}
