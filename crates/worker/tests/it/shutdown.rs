//! The end of a worker: nothing lost, nothing finished run twice.

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::State;
use windlass_core::outcome::Ending;
use windlass_core::store::SharedStore;
use windlass_store_memory::MemoryStore;

use crate::support::{Act, PATIENCE, Probe, end_of, probe, scene, scene_on, until_begun, worker};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_under_load_loses_and_repeats_nothing() {
    let (client, stage) = scene();
    let handles = client.enqueue_all((0..4_000).map(|_| probe(Act::Succeed))).await.unwrap();
    // Each worker is stopped in the middle of its work.
    let mut rounds = 0;
    while stage.started() < 4_000 {
        let running = worker(&client, &stage).concurrency(16).start().unwrap();
        stage.until_started((stage.started() + 300).min(4_000)).await;
        running.stop().await;
        rounds += 1;
        assert_eq!(stage.present(), 0, "a stopped worker runs nothing");
    }
    assert!(rounds > 1, "at least one worker was stopped before the end");
    for handle in &handles {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.state, record.counters.attempt, record.counters.stalls), (State::Completed, 1, 0));
        assert_eq!(stage.starts()[&handle.id()], 1);
    }
}

#[tokio::test]
async fn running_attempts_may_end() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).drain_deadline(PATIENCE).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(1).await;
    let stopping = tokio::spawn(running.stop());
    // Stopped workers claim nothing.
    let late = client.enqueue(probe(Act::Succeed)).await.unwrap();
    stage.release(1);
    stopping.await.unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    let state = late.state().await.unwrap();
    assert!(matches!(state, Some(State::Ready | State::Completed)), "{state:?}");
}

#[tokio::test]
async fn what_outlasts_the_deadline_is_told_then_dropped_and_handed_back() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).drain_deadline(Duration::from_millis(20)).start().unwrap();
    let heeds = client.enqueue(probe(Act::Heed)).await.unwrap();
    let done = client.enqueue(probe(Act::FinishWhenTold)).await.unwrap();
    let deaf = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(3).await;
    running.stop().await;
    assert_eq!(done.state().await.unwrap(), Some(State::Completed));
    for handle in [heeds, deaf] {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.state, record.counters.attempt), (State::Ready, 0), "the attempt is given back");
        assert_eq!(record.attempts[0].ending, Some(Ending::Returned));
    }
}

#[tokio::test]
async fn stopping_now_does_not_wait() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).drain_deadline(3 * PATIENCE).cancel_grace(3 * PATIENCE);
    let running = running.start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(1).await;
    let began = Instant::now();
    running.stop_now().await;
    assert!(began.elapsed() < PATIENCE);
    let record = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.counters.attempt), (State::Ready, 0));
}

#[tokio::test]
async fn dropping_the_handle_stops_the_worker() {
    let (client, stage) = scene();
    drop(worker(&client, &stage).start().unwrap());
    crate::support::eventually("the lease is closed", async || {
        client.store().leases(10).await.unwrap().is_empty()
    })
    .await;
}

#[tokio::test]
async fn a_killed_worker_leaves_its_jobs_to_others() {
    let (client, stage) = scene();
    let lease = Duration::from_millis(300);
    let running = worker(&client, &stage).lease_unchecked(lease).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    until_begun(&client, &handle).await;
    running.abort();
    stage.until_ended(1).await;
    assert_eq!(handle.state().await.unwrap(), Some(State::Running), "nothing was handed back");
    stage.release(1);
    let second = worker(&client, &stage).start().unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.counters.stalls, record.counters.attempt), (State::Completed, 1, 2));
    assert_eq!(record.attempts[0].ending, Some(Ending::Stalled));
    second.stop().await;
}

#[test]
fn a_runtime_that_ends_lets_go_of_the_lease() {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let build =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let runtime = build();
    let (running, id) = runtime.block_on(async {
        let (client, stage) = scene_on(Arc::clone(&store));
        let running = worker(&client, &stage).lease(3 * PATIENCE).start().unwrap();
        let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
        until_begun(&client, &handle).await;
        (running, handle.id())
    });
    drop(runtime);
    assert!(!running.health().is_ok(), "{:?}", running.health());
    build().block_on(async {
        let (client, stage) = scene_on(store);
        stage.release(1);
        let second = worker(&client, &stage).start().unwrap();
        let record = end_of(&client.handle::<Probe>(id)).await;
        assert_eq!((record.state, record.counters.stalls), (State::Completed, 1));
        second.stop().await;
    });
    drop(running);
}
