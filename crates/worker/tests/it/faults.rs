//! Stores that fail: the worker goes on, and says so.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::State;
use windlass_worker::Part;

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, PATIENCE, end_of, eventually, probe, scene_on, until_begun, worker};

#[tokio::test]
async fn a_store_that_is_away_turns_the_health_red_and_back() {
    for (call, part) in
        [(Call::Claim, Part::Fetcher), (Call::Settle, Part::Settler), (Call::Renew, Part::Lease)]
    {
        let store = Faulty::new();
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        let running = worker(&client, &stage).poll_interval(Duration::from_millis(20)).start().unwrap();
        eventually("the worker is up", async || running.health().is_ok()).await;
        store.fail(call, Fault::Unavailable, u32::MAX);
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        eventually("red", async || running.health().of(part).consecutive_failures > 1).await;
        let health = running.health();
        assert!(!health.is_ok());
        let error = health.of(part).last_error.clone().unwrap();
        assert!(error.ends_with("store unavailable: switched off"), "{error}");
        store.heal();
        assert_eq!(end_of(&handle).await.state, State::Completed);
        eventually("green", async || running.health().is_ok()).await;
        assert_eq!(stage.started(), 1, "{call:?}: what was finished did not run again");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_store_that_is_away_at_the_start_is_waited_for() {
    let store = Faulty::new();
    store.fail(Call::Open, Fault::Unavailable, 3);
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    let running = worker(&client, &stage).start().unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    assert_eq!(store.failed(Call::Open), 3);
    running.stop().await;
}

#[tokio::test]
async fn stopping_waits_until_everything_is_recorded() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).start().unwrap();
    store.fail(Call::Settle, Fault::Unavailable, 3);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    stage.until_ended(1).await;
    running.stop().await;
    assert_eq!((handle.state().await.unwrap(), store.failed(Call::Settle)), (Some(State::Completed), 3));
}

/// The clock is the test's, so that no test waits for the limits.
#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_does_not_keep_the_worker_from_ending() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).start().unwrap();
    store.fail(Call::Settle, Fault::Late, u32::MAX);
    client.enqueue(probe(Act::Succeed)).await.unwrap();
    stage.until_ended(1).await;
    for call in [Call::Claim, Call::Renew, Call::Lost] {
        store.fail(call, Fault::Late, u32::MAX);
    }
    let began = tokio::time::Instant::now();
    running.stop().await;
    let took = began.elapsed();
    assert!(took < Duration::from_secs(40), "the default limits add up to less, not to {took:?}");
}

#[tokio::test]
async fn a_lost_answer_to_a_settlement_is_asked_for_again_and_the_repeat_is_not_called_late() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    store.fail(Call::Settle, Fault::Unknown, 1);
    let running = worker(&client, &stage).start().unwrap();
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    eventually("the repeat is answered", async || running.health().unsettled == 0).await;
    assert_eq!(store.called(Call::Settle), 2);
    assert_eq!((stage.started(), running.health().fenced), (1, 0));
    running.stop().await;
}

#[tokio::test]
async fn a_job_whose_outcome_cannot_be_recorded_is_not_kept_from_others() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    // The lease is so long that only letting go of it can bring the job back in time.
    let running = worker(&client, &stage).lease(3 * PATIENCE).start().unwrap();
    let refused = client.enqueue(probe(Act::Wait)).await.unwrap();
    until_begun(&client, &refused).await;
    let lease = running.health().lease.id;
    // Meanwhile a claim is in flight, under the same lease.
    store.fail(Call::Claim, Fault::Late, 1);
    let late = client.enqueue(probe(Act::Succeed)).await.unwrap();
    eventually("the claim is in flight", async || store.failed(Call::Claim) == 1).await;
    store.fail(Call::Settle, Fault::Internal, u32::MAX);
    stage.release(2);
    eventually("there is another lease", async || {
        running.health().lease.id.is_some_and(|id| Some(id) != lease)
    })
    .await;
    store.heal();
    store.release();
    let record = end_of(&refused).await;
    assert_eq!((record.state, record.fence), (State::Completed, 2));
    // What came under the old lease was handed back, which costs nothing.
    let record = end_of(&late).await;
    assert_eq!((record.state, record.counters.stalls, record.counters.attempt), (State::Completed, 0, 1));
    eventually("the old lease is gone", async || client.store().leases(10).await.unwrap().len() == 1).await;
    assert_eq!((running.health().lease.lost, running.health().fenced), (0, 0));
    eventually("green", async || running.health().is_ok()).await;
    running.stop().await;
}

#[tokio::test]
async fn a_loop_that_panics_is_started_again_and_seen() {
    for (call, part) in [
        (Call::Claim, Part::Fetcher),
        (Call::Settle, Part::Settler),
        (Call::Renew, Part::Lease),
        (Call::Lost, Part::Reaper),
    ] {
        let store = Faulty::new();
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        store.fail(call, Fault::Panic, 2);
        let running = worker(&client, &stage).lease_unchecked(Duration::from_millis(400)).start().unwrap();
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        assert_eq!(end_of(&handle).await.state, State::Completed);
        eventually("restarted", async || running.health().of(part).restarts == 2).await;
        eventually("green", async || running.health().is_ok()).await;
        assert_eq!(stage.started(), 1);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_stutters_loses_nothing() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).poll_interval(Duration::from_millis(20)).start().unwrap();
    let handles = client.enqueue_all((0..2_000).map(|_| probe(Act::Succeed))).await.unwrap();
    let stutter = tokio::spawn(async move {
        for round in 0..40 {
            let call = if round % 2 == 0 { Call::Claim } else { Call::Settle };
            store.fail(call, Fault::Unavailable, 1);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    });
    for handle in &handles {
        assert_eq!(end_of(handle).await.counters.attempt, 1);
    }
    stutter.await.unwrap();
    assert_eq!(stage.started(), 2_000);
    running.stop().await;
}

/// A handler may leave a transaction open that holds its job. The clock is the test's.
#[tokio::test(start_paused = true)]
async fn an_outcome_that_something_is_in_the_way_of_holds_no_other_up() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).concurrency(8).start().unwrap();
    let id = windlass_core::JobId::new();
    store.stick([id]);
    let stuck = client.enqueue(probe(Act::Succeed)).id(id).await.unwrap();
    let mut others = Vec::new();
    for _ in 0..20 {
        others.push(client.enqueue(probe(Act::Succeed)).await.unwrap());
    }
    for other in &others {
        assert_eq!(end_of(other).await.state, State::Completed);
    }
    assert_eq!(stuck.state().await.unwrap(), Some(State::Running));
    store.stick([]);
    assert_eq!(end_of(&stuck).await.state, State::Completed);
    assert_eq!(stage.started(), 21, "nothing ran again");
    running.stop().await;
}

/// A server whose disk lags behind, or a replica that takes over, has the last jobs running although their worker is done
/// with them and alive. They are found when the store was away, whichever call noticed it.
#[tokio::test]
async fn what_a_server_forgot_is_run_again_after_it_was_away() {
    for (call, fault) in
        [(Call::Renew, Fault::Unavailable), (Call::Claim, Fault::Unavailable), (Call::Claim, Fault::Vanished)]
    {
        let store = Faulty::new();
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        let running = worker(&client, &stage).poll_interval(Duration::from_millis(20)).start().unwrap();
        store.fail(Call::Settle, Fault::Forgotten, 1);
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        stage.until_ended(1).await;
        eventually("answered", async || store.failed(Call::Settle) == 1).await;
        assert_eq!(handle.state().await.unwrap(), Some(State::Running));
        store.fail(call, fault, 1);
        assert_eq!(end_of(&handle).await.state, State::Completed);
        assert_eq!(stage.started(), 2, "{call:?}");
        running.stop().await;
    }
}

/// Also if no call noticed: a lease is given up when it is old.
#[tokio::test]
async fn what_a_server_forgot_is_run_again_in_time() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let running = worker(&client, &stage).lease_unchecked(Duration::from_millis(300)).start().unwrap();
    store.fail(Call::Settle, Fault::Forgotten, 1);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert_eq!(end_of(&handle).await.state, State::Completed);
    assert_eq!((stage.started(), store.failed(Call::Settle)), (2, 1));
    running.stop().await;
}
