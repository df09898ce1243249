//! The parts of a worker, one round at a time, without their loops.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use windlass_core::bell::Claiming;
use windlass_core::{Bytes, Name, NewJob, Options, State};
use windlass_store_memory::MemoryStore;

use super::*;
use crate::client::Pausing;
use crate::extract::State as Extract;
use crate::fetcher::UnknownConfig;
use crate::job::Job;
use crate::job_error::JobError;
use crate::lease::Summary;
use crate::worker::Worker;

#[derive(Serialize, Deserialize)]
struct Ping;

impl Job for Ping {
    const KIND: &'static str = "ping";
    type Output = ();
}

/// Whether handlers wait, and what lets them go on.
#[derive(Clone, Default)]
struct Gate(Arc<(AtomicBool, Notify)>);

async fn ping(_job: Ping, Extract(gate): Extract<Gate>) -> std::result::Result<(), JobError> {
    if gate.0.0.load(Ordering::Relaxed) {
        gate.0.1.notified().await;
    }
    Ok(())
}

/// The parts of a worker that were not started.
fn scene() -> (Client, Engine, Gate) {
    let (client, gate) = (Client::new(Arc::new(MemoryStore::new())), Gate::default());
    let worker = Worker::with_state(&client, gate.clone()).handle(ping);
    let (client, config, executor) = worker.into_parts().unwrap();
    let engine = Engine::new(&client, config, executor, Handle::current());
    (client, engine, gate)
}

#[tokio::test]
async fn a_round_of_the_fetcher_claims_and_one_of_the_settler_records() {
    let (client, engine, _gate) = scene();
    let handles = client.enqueue_all([Ping, Ping, Ping]).await.unwrap();
    let fetcher = engine.fetcher(&client);
    assert_eq!(fetcher.run_once().await.claimed, None, "there is no lease to claim under");
    assert_eq!(Arc::new(engine.keeper(&client)).run_once().await, Summary::Held);
    assert_eq!(fetcher.run_once().await.claimed, Some(3));
    for handle in &handles {
        assert_eq!(handle.finished().await.unwrap().state, State::Completed);
    }
    let settled = engine.settler.run_once().await;
    assert_eq!((settled.unsettled, settled.fenced), (0, 0));
    let again = fetcher.run_once().await.claimed;
    assert!(
        matches!(again, None | Some(0)),
        "nothing is left, which is known until the next poll: {again:?}"
    );
}

/// A fetcher with a lease, whose runtime is never late, and its queue.
async fn called(client: &Client, engine: &mut Engine) -> (Arc<Fetcher>, Name) {
    engine.lag = Arc::new(Lag::new(Instant::now() + Duration::from_secs(3_600)));
    let (fetcher, queue) = (Arc::new(engine.fetcher(client)), Name::new("default").unwrap());
    assert!(fetcher.claim_called(&queue).is_none(), "there is no lease to claim under");
    Arc::new(engine.keeper(client)).run_once().await;
    (fetcher, queue)
}

#[tokio::test]
async fn a_claim_that_the_store_asks_for_is_the_one_in_flight_and_its_jobs_run() {
    let (client, mut engine, _gate) = scene();
    let (fetcher, queue) = called(&client, &mut engine).await;
    for _ in 0..3 {
        let handle = client.enqueue(Ping).await.unwrap();
        let claim = Box::new(fetcher.claim_called(&queue).unwrap());
        assert!(fetcher.claim_called(&queue).is_none(), "there is one");
        assert_eq!(fetcher.run_once().await.claimed, None, "nor does the fetcher make another");
        let answer = client.store().claim(claim.request().clone()).await;
        // As a thread of the store does it, which has no runtime.
        std::thread::spawn(move || claim.answer(answer)).join().unwrap();
        assert_eq!(handle.finished().await.unwrap().state, State::Completed);
        while engine.attempts.slots().is_claiming() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn what_a_claim_of_the_store_took_goes_back_if_it_is_not_answered() {
    let (client, mut engine, _gate) = scene();
    let (fetcher, queue) = called(&client, &mut engine).await;
    let handle = client.enqueue(Ping).await.unwrap();
    let claim = fetcher.claim_called(&queue).unwrap();
    client.store().claim(claim.request().clone()).await.unwrap();
    assert_eq!(handle.state().await.unwrap(), Some(State::Running));
    drop(claim);
    while handle.state().await.unwrap() != Some(State::Ready) {
        tokio::task::yield_now().await;
    }
    assert!(!engine.attempts.slots().is_claiming());
}

#[tokio::test]
async fn a_worker_whose_runtime_is_silent_or_that_drains_makes_no_claim_for_the_store() {
    let (client, mut engine, _gate) = scene();
    let (fetcher, queue) = called(&client, &mut engine).await;
    let long_ago = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
    engine.lag = Arc::new(Lag::new(long_ago));
    assert!(Arc::new(engine.fetcher(&client)).claim_called(&queue).is_none(), "it may be stuck");

    let handle = client.enqueue(Ping).await.unwrap();
    let claim = Box::new(fetcher.claim_called(&queue).unwrap());
    let answer = client.store().claim(claim.request().clone()).await;
    engine.attempts.slots().close();
    claim.answer(answer);
    while engine.attempts.slots().is_claiming() {
        tokio::task::yield_now().await;
    }
    engine.settler.run_once().await;
    assert_eq!(handle.state().await.unwrap(), Some(State::Ready), "it goes back");
    assert!(fetcher.claim_called(&queue).is_none());
}

#[tokio::test]
async fn jobs_of_a_kind_without_a_handler_are_warned_about_once() {
    let (client, mut engine, _gate) = scene();
    engine.config.fetcher.unknown =
        UnknownConfig { first: Duration::ZERO, interval: Duration::ZERO, age: Duration::ZERO };
    let fetcher = engine.fetcher(&client);
    Arc::new(engine.keeper(&client)).run_once().await;
    let look = async || {
        engine.attempts.slots().hint();
        assert_eq!(fetcher.run_once().await.claimed, Some(0));
        // The look is a task of its own, on this one thread, over a store that never waits.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let mut kinds = fetcher.unknown_kinds();
        kinds.sort();
        kinds.into_iter().map(|kind| kind.to_string()).collect::<Vec<_>>()
    };
    let put = async |kind: &str, options: Options| {
        let job = NewJob::new(Name::new(kind).unwrap(), Bytes::new(), options).unwrap();
        client.store().enqueue([job].into()).await.unwrap();
    };
    assert!(look().await.is_empty(), "nothing waits");
    put("later", Options::new().delay(Duration::from_secs(3_600))).await;
    put("elsewhere", Options::new().queue("other")).await;
    assert!(look().await.is_empty(), "none of them is ready in a queue of this worker");
    put("pong", Options::new()).await;
    put("pong", Options::new()).await;
    assert_eq!(look().await, ["pong"]);
    put("pang", Options::new()).await;
    assert_eq!(look().await, ["pang", "pong"]);
    client.queue("default").unwrap().pause(Pausing::new()).await.unwrap();
    client.enqueue(Ping).await.unwrap();
    assert_eq!(look().await, ["pang", "pong"], "it has a handler, and its queue is paused");
}

#[tokio::test]
async fn the_beginner_ends_with_the_last_attempt_and_not_when_its_sleep_is_over() {
    let (client, engine, gate) = scene();
    gate.0.0.store(true, Ordering::Relaxed);
    client.enqueue(Ping).await.unwrap();
    let config = begin::Config { after: Duration::from_secs(3_600) };
    let beginner = Arc::new(Beginner::new(config, Arc::clone(&engine.attempts), Arc::clone(&engine.board)));
    Arc::new(engine.keeper(&client)).run_once().await;
    assert_eq!(engine.fetcher(&client).run_once().await.claimed, Some(1));
    let shutdown = Shutdown::new(&engine.stage);
    let run = tokio::spawn(async move { beginner.run(shutdown).await });
    engine.attempts.slots().close();
    engine.advance(Stage::Draining);
    tokio::task::yield_now().await;
    assert!(!run.is_finished(), "an attempt runs");
    gate.0.1.notify_one();
    tokio::time::timeout(Duration::from_secs(60), run).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn a_round_of_the_keeper_finds_a_lost_lease_and_the_next_opens_another() {
    let (client, engine, _gate) = scene();
    let keeper = Arc::new(engine.keeper(&client));
    assert_eq!(keeper.run_once().await, Summary::Held);
    let first = engine.health().lease.id.unwrap();
    assert_eq!(keeper.run_once().await, Summary::Held, "it is renewed");
    assert_eq!(engine.health().lease.id, Some(first));
    client.store().close(first).await.unwrap();
    assert_eq!(keeper.run_once().await, Summary::Lost);
    assert_eq!((engine.health().lease.id, engine.health().lease.lost), (None, 1));
    assert_eq!(keeper.run_once().await, Summary::Held);
    assert!(engine.health().lease.id.is_some_and(|second| second != first));
}

#[tokio::test]
async fn a_round_of_the_beginner_tells_of_each_attempt_once() {
    let (client, engine, gate) = scene();
    gate.0.0.store(true, Ordering::Relaxed);
    let handle = client.enqueue(Ping).await.unwrap();
    let config = begin::Config { after: Duration::ZERO };
    let beginner = Beginner::new(config, Arc::clone(&engine.attempts), Arc::clone(&engine.board));
    Arc::new(engine.keeper(&client)).run_once().await;
    assert_eq!(engine.fetcher(&client).run_once().await.claimed, Some(1));
    while beginner.run_once().telling == 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(beginner.run_once().telling, 0, "the store is being told already");
    let watchdog = Arc::new(engine.watchdog(&client));
    assert_eq!(
        watchdog.run_once(),
        watchdog::Summary { blocked: 0, ended: 0 },
        "it waits, and blocks nothing"
    );
    gate.0.1.notify_one();
    assert_eq!(handle.finished().await.unwrap().state, State::Completed);
}
