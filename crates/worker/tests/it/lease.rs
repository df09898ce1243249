//! Leases: lost ones cost nothing but time, and busy threads do not lose them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use windlass_core::State;
use windlass_core::outcome::Ending;
use windlass_core::store::SharedStore;
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Ctx, Job, JobError, LogLevel, Maintenance, Reaper, State as Shared, Worker};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, Stage, end_of, eventually, probe, scene, scene_on, until_begun, worker};

#[tokio::test]
async fn a_lost_lease_stops_attempts_and_the_worker_goes_on() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).lease_unchecked(Duration::from_millis(300)).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    until_begun(&client, &handle).await;
    let lost = running.health().lease.id.unwrap();
    client.store().close(lost).await.unwrap();
    // The first attempt is dropped where it stands; the second is the same worker's, under a new lease.
    stage.until_ended(1).await;
    stage.until_started(2).await;
    assert_ne!(running.health().lease.id, Some(lost));
    stage.release(1);
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.counters.stalls, record.fence), (State::Completed, 1, 2));
    assert_eq!(record.attempts[0].ending, Some(Ending::Stalled));
    let health = running.health();
    assert_eq!((health.lease.lost, health.fenced), (1, 0), "what the first came to was not even sent");
    eventually("green", async || running.health().is_ok()).await;
    running.stop().await;
}

#[tokio::test]
async fn an_outcome_that_comes_after_the_lease_was_lost_is_fenced() {
    for fault in [Fault::Unavailable, Fault::Vanished] {
        an_outcome_is_late(fault).await;
    }
}

async fn an_outcome_is_late(fault: Fault) {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).lease_unchecked(Duration::from_millis(400)).start().unwrap();
    eventually("a lease is open", async || running.health().lease.id.is_some()).await;
    let lease = running.health().lease.id.unwrap();
    store.fail(Call::Settle, fault, u32::MAX);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    eventually("the outcome cannot be recorded", async || store.failed(Call::Settle) > 0).await;
    client.store().close(lease).await.unwrap();
    // It runs again, because the store does not know that it was done.
    stage.until_started(2).await;
    store.heal();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.fence), (State::Completed, 2));
    eventually("the first outcome counts as late", async || running.health().fenced == 1).await;
    running.stop().await;
}

/// The store was away for longer than the lease lived. When it is back, the jobs can be claimed at once, and their
/// outcomes rest before the next try.
#[tokio::test]
async fn outcomes_that_have_outlived_their_lease_are_recorded_before_jobs_are_claimed() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage)
        .maintenance(Maintenance::Off)
        .lease_unchecked(Duration::from_millis(300))
        .start()
        .unwrap();
    for call in [Call::Settle, Call::SettleLate] {
        store.fail(call, Fault::Unavailable, u32::MAX);
    }
    let handles = client.enqueue_all((0..5).map(|_| probe(Act::Succeed))).await.unwrap();
    stage.until_ended(5).await;
    for call in [Call::Open, Call::Renew, Call::Claim] {
        store.fail(call, Fault::Unavailable, u32::MAX);
    }
    eventually("the lease is lost", async || running.health().lease.lost == 1).await;
    let reaper = Reaper::new(Arc::clone(client.store()));
    eventually("all jobs are taken back", async || reaper.run_once().await.unwrap().jobs > 0).await;
    for handle in &handles {
        assert_eq!(handle.state().await.unwrap(), Some(State::Ready), "any worker may have it");
    }
    let rests = store.failed(Call::Settle) + 20;
    eventually("the pauses between tries are long", async || store.failed(Call::Settle) > rests).await;
    store.heal();
    for handle in &handles {
        let record = end_of(handle).await;
        assert_eq!((record.state, record.fence), (State::Completed, 1), "it is not run again: {record:?}");
    }
    assert_eq!((stage.started(), running.health().fenced), (5, 0));
    running.stop().await;
}

#[tokio::test]
async fn renewals_that_fail_for_less_than_the_lease_cost_nothing() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).lease_unchecked(Duration::from_millis(900)).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(1).await;
    store.fail(Call::Renew, Fault::Unavailable, 2);
    eventually("two renewals have failed", async || store.failed(Call::Renew) == 2).await;
    eventually("green", async || running.health().is_ok()).await;
    stage.release(1);
    assert_eq!(end_of(&handle).await.fence, 1);
    assert_eq!(running.health().lease.lost, 0);
    running.stop().await;
}

#[tokio::test]
async fn renewals_that_fail_for_longer_lose_the_lease_before_the_store_says_so() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).lease_unchecked(Duration::from_millis(300)).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    until_begun(&client, &handle).await;
    store.fail(Call::Renew, Fault::Unavailable, u32::MAX);
    stage.until_ended(1).await;
    store.heal();
    stage.until_started(2).await;
    stage.release(1);
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.counters.stalls), (State::Completed, 1));
    running.stop().await;
}

#[tokio::test]
async fn progress_of_a_lost_attempt_is_refused() {
    let (client, stage) = scene();
    let running = Worker::with_state(&client, stage.clone()).handle(reports).start().unwrap();
    let handle = client.enqueue(Report).await.unwrap();
    stage.until_started(1).await;
    // Taken back and not claimed again: the handler is not told, and finds out when it writes.
    client.store().close(running.health().lease.id.unwrap()).await.unwrap();
    let reaper = windlass_worker::Reaper::new(Arc::clone(client.store()));
    assert_eq!(reaper.run_once().await.unwrap().jobs, 1);
    stage.release(1);
    stage.until_ended(1).await;
    let record = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!(record.progress, None);
    assert_eq!(client.logs(handle.id()).await.unwrap().unwrap().next().await.unwrap(), []);
    running.stop_now().await;
}

#[derive(Serialize, Deserialize)]
struct Report;

impl Job for Report {
    const KIND: &'static str = "report";
    type Output = ();
}

async fn reports(_job: Report, ctx: Ctx, Shared(stage): Shared<Stage>) -> Result<(), JobError> {
    let _present = stage.enter(&ctx);
    if ctx.fence().number == 1 {
        stage.wait().await;
        ctx.progress(&1).expect("nothing is known yet");
        ctx.log(LogLevel::Info, "late");
        let error = ctx.flush().await.expect_err("the fence is stale");
        assert!(matches!(error, windlass_worker::Error::Fenced), "{error}");
        let error = ctx.progress(&2).expect_err("it is known now");
        assert!(matches!(error, windlass_worker::Error::Fenced), "{error}");
    }
    Ok(())
}

#[derive(Serialize, Deserialize)]
struct Burn {
    millis: u64,
}

impl Job for Burn {
    const KIND: &'static str = "burn";
    type Output = ();
}

/// Never yields.
async fn burn(job: Burn, ctx: Ctx, Shared(stage): Shared<Stage>) -> Result<(), JobError> {
    let _present = stage.enter(&ctx);
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(job.millis) {
        std::hint::spin_loop();
    }
    Ok(())
}

#[tokio::test]
async fn an_attempt_whose_lease_is_lost_before_its_first_turn_does_not_start() {
    let (client, stage) = scene();
    let running = Worker::with_state(&client, stage.clone())
        .handle(hog)
        .lease_unchecked(Duration::from_millis(200))
        .reap_interval(Duration::from_millis(20))
        .start()
        .unwrap();
    // One claim brings both, and the first to have its turn holds the only thread until the lease of both is
    // lost and another one is open.
    let handles = client.enqueue_all((0..2).map(|_| Hog)).await.unwrap();
    let mut fences = Vec::new();
    for handle in &handles {
        let record = end_of(handle).await;
        assert_eq!(record.state, State::Completed, "{record:?}");
        fences.push(record.fence);
    }
    fences.sort_unstable();
    assert_eq!(fences, [1, 2], "what the first has done counts, and the second is claimed anew");
    assert!(
        stage.starts().into_values().all(|starts| starts == 1),
        "only the first started under the lost lease"
    );
    running.stop().await;
}

#[derive(Serialize, Deserialize)]
struct Hog;

impl Job for Hog {
    const KIND: &'static str = "hog";
    type Output = ();
}

/// Has its lease closed while it holds the thread, and goes on holding it until the worker has noticed.
async fn hog(_job: Hog, ctx: Ctx, Shared(stage): Shared<Stage>) -> Result<(), JobError> {
    let _present = stage.enter(&ctx);
    if ctx.fence().number == 1 {
        let store = Arc::clone(ctx.client().store());
        let lose = async move {
            let lease = store.leases(1).await.unwrap().remove(0).id;
            store.close(lease).await.unwrap();
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        std::thread::spawn(move || runtime.block_on(lose)).join().unwrap();
        while !ctx.is_cancelled() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
    Ok(())
}

#[tokio::test]
async fn handlers_that_hold_every_thread_for_several_leases_are_not_reaped() {
    let store: SharedStore = Arc::new(MemoryStore::new());
    let (client, stage) = scene_on(Arc::clone(&store));
    let busy = (Arc::clone(&store), stage.clone());
    let done = Arc::new(tokio::sync::Notify::new());
    let until_done = Arc::clone(&done);
    let busy = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        runtime.unwrap().block_on(async move {
            Worker::with_state(&Client::new(busy.0), busy.1)
                .handle(burn)
                .concurrency(2)
                .lease_unchecked(Duration::from_millis(400))
                .run_until(async move { until_done.notified().await })
                .await
        })
    });
    let handles = client.enqueue_all((0..2).map(|_| Burn { millis: 2_000 })).await.unwrap();
    stage.until_started(2).await;
    // Another worker looks for lost jobs all the time.
    let reaper = windlass_worker::Reaper::new(store);
    while stage.ended() < 2 {
        assert_eq!(reaper.run_once().await.unwrap().jobs, 0, "a job of a living worker was taken back");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for handle in &handles {
        let record = end_of(handle).await;
        assert_eq!((record.state, record.fence, record.counters.stalls), (State::Completed, 1, 0));
    }
    done.notify_one();
    busy.join().unwrap().unwrap();
}
