//! One queue, job or call that is sick harms no other.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::Sharing;
use windlass_core::{JobId, State, StoreError};
use windlass_worker::{Client, Error, Handle, OutputError, Part};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, PATIENCE, Probe, end_of, eventually, probe, scene_on, worker};

/// So many that not all of them can go aside.
const MANY: usize = 100;

async fn enqueued(client: &Client, queue: &str, count: usize) -> Vec<Handle<Probe>> {
    client.enqueue_all((0..count).map(|_| probe(Act::Succeed))).queue(queue).await.unwrap()
}

/// Outcomes of one queue fail; those of the other are recorded, and in the end all.
async fn a_sick_queue_among_others(sharing: Sharing, fault: Fault) {
    let store = Faulty::with(sharing);
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let bad = enqueued(&client, "bad", MANY).await;
    let good = enqueued(&client, "good", MANY).await;
    store.sicken("bad", Some(fault));
    // The sick queue comes first and has all the slots that it wants.
    let running =
        worker(&client, &stage).queue("bad", 10).queue("good", 10).lease(3 * PATIENCE).start().unwrap();
    for handle in &good {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    eventually("the sick queue is named", async || {
        let health = running.health();
        health.of(Part::Settler).last_error.as_ref().is_some_and(|text| text.starts_with("queue bad: "))
    })
    .await;
    if fault == Fault::Internal {
        // What cannot be recorded is given up with its lease, and the healthy queue goes on meanwhile.
        let lease = running.health().lease.id;
        eventually("some are given up", async || {
            running.health().lease.id.is_some_and(|id| Some(id) != lease)
        })
        .await;
        let more = enqueued(&client, "good", MANY).await;
        for handle in &more {
            assert_eq!(end_of(handle).await.state, State::Completed);
        }
    } else {
        assert!(!running.health().is_ok() && running.health().unsettled > 0);
    }
    store.sicken("bad", None);
    for handle in &bad {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    let starts = stage.starts();
    assert!(good.iter().all(|handle| starts[&handle.id()] == 1));
    // What was only held up is not run again.
    assert!(fault == Fault::Internal || bad.iter().all(|handle| starts[&handle.id()] == 1));
    eventually("green", async || running.health().is_ok() && running.health().unsettled == 0).await;
    running.stop().await;
}

#[tokio::test]
async fn a_queue_that_is_away_holds_up_no_outcome_of_another() {
    a_sick_queue_among_others(Sharing::Store, Fault::Unavailable).await;
    a_sick_queue_among_others(Sharing::Queue, Fault::Unavailable).await;
}

#[tokio::test]
async fn a_queue_that_does_not_answer_holds_up_no_outcome_of_another() {
    a_sick_queue_among_others(Sharing::Store, Fault::Vanished).await;
    a_sick_queue_among_others(Sharing::Queue, Fault::Vanished).await;
}

#[tokio::test]
async fn a_queue_that_refuses_everything_holds_up_no_outcome_of_another() {
    a_sick_queue_among_others(Sharing::Store, Fault::Internal).await;
    a_sick_queue_among_others(Sharing::Queue, Fault::Internal).await;
}

#[tokio::test]
async fn some_outcomes_that_something_is_in_the_way_of_hold_no_other_up() {
    for sharing in [Sharing::Store, Sharing::Queue] {
        let store = Faulty::with(sharing);
        let (client, stage) = scene_on(Arc::clone(&store) as _);
        let handles = enqueued(&client, "one", MANY).await;
        let is_stuck = |index: usize| (20..26).contains(&index) || index == 60;
        let stuck = handles.iter().enumerate().filter(|(index, _)| is_stuck(*index));
        store.stick(stuck.map(|(_, handle)| handle.id()));
        let running = worker(&client, &stage).queue("one", 10).lease(3 * PATIENCE).start().unwrap();
        for (_, handle) in handles.iter().enumerate().filter(|(index, _)| !is_stuck(*index)) {
            assert_eq!(end_of(handle).await.state, State::Completed);
        }
        assert_eq!(handles[22].state().await.unwrap(), Some(State::Running));
        eventually("only those are left", async || running.health().unsettled == 7).await;
        // Stopping waits for them: they go through as soon as they can.
        let stopped = tokio::spawn(running.stop());
        store.stick([]);
        stopped.await.unwrap();
        for handle in &handles {
            assert_eq!(handle.state().await.unwrap(), Some(State::Completed));
        }
        assert_eq!(stage.started(), MANY as u64, "nothing ran again");
    }
}

#[tokio::test]
async fn outcomes_go_out_in_batches_of_a_bounded_weight() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    client.enqueue_all((0..12).map(|_| probe(Act::Output(1_000_000)))).await.unwrap();
    // What ends while this one waits for its answer goes out together.
    let first = client.enqueue(probe(Act::Wait)).priority(1).await.unwrap();
    store.fail(Call::Settle, Fault::Late, 1);
    let running = worker(&client, &stage).concurrency(13).start().unwrap();
    stage.release(1);
    stage.until_ended(13).await;
    eventually("the first is in flight", async || store.failed(Call::Settle) == 1).await;
    store.release();
    assert_eq!(end_of(&first).await.state, State::Completed);
    eventually("all is recorded", async || running.health().unsettled == 0).await;
    let sizes = store.sizes(Call::Settle);
    assert!(sizes.iter().all(|(_, bytes)| *bytes <= 8 << 20), "{sizes:?}");
    assert!(sizes.iter().any(|(jobs, _)| *jobs > 1), "{sizes:?}");
    running.stop().await;
}

#[tokio::test]
async fn enqueues_go_out_in_batches_of_a_bounded_weight() {
    let store = Faulty::new();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    // On one thread these wait together.
    let calls: Vec<_> = (0..12)
        .map(|_| tokio::spawn(client.enqueue(probe(Act::Error("x".repeat(1_000_000)))).into_future()))
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let sizes = store.sizes(Call::Enqueue);
    assert!(sizes.iter().all(|(_, bytes)| *bytes <= 8 << 20), "{sizes:?}");
    assert!(sizes.len() < 6, "{sizes:?}");
}

#[tokio::test]
async fn an_enqueue_into_a_sick_queue_harms_no_other() {
    // Where queues share calls, a fault of one is told to its own callers.
    let store = Faulty::new();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    store.sicken("bad", Some(Fault::Internal));
    let enqueue = |index: usize| {
        let queue = if index.is_multiple_of(4) { "bad" } else { "good" };
        tokio::spawn(client.enqueue(probe(Act::Succeed)).queue(queue).into_future())
    };
    let calls: Vec<_> = (0..40).map(enqueue).collect();
    for (index, call) in calls.into_iter().enumerate() {
        match call.await.unwrap() {
            Ok(_) => assert!(!index.is_multiple_of(4)),
            Err(error) => {
                assert!(matches!(error, Error::Store(StoreError::Internal { .. })), "{error}");
                assert!(index.is_multiple_of(4), "{error}");
            }
        }
    }
    assert!(store.sizes(Call::Enqueue)[0].0 > 1, "they shared a call");
}

#[tokio::test]
async fn neither_enqueues_nor_reports_wait_for_a_queue_that_hangs() {
    let store = Faulty::with(Sharing::Queue);
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    store.sicken("bad", Some(Fault::Late));
    let enqueue = client.enqueue(probe(Act::Progress(7))).queue("bad");
    let hung = tokio::spawn(enqueue.into_future());
    eventually("the enqueue hangs", async || store.failed(Call::Enqueue) == 1).await;
    let good = client.enqueue(probe(Act::Progress(7))).queue("good").await.unwrap();
    assert!(!hung.is_finished());
    let running = worker(&client, &stage).queue("bad", 1).start().unwrap();
    eventually("the report hangs", async || store.failed(Call::Progress) == 1).await;
    let other = worker(&client, &stage).queue("good", 1).start().unwrap();
    assert_eq!(end_of(&good).await.state, State::Completed);
    store.sicken("bad", None);
    store.release();
    store.release();
    assert_eq!(end_of(&hung.await.unwrap().unwrap()).await.state, State::Completed);
    running.stop().await;
    other.stop().await;
}

/// The answer to an enqueue is lost, the job runs and is gone, and only then is the call repeated.
#[tokio::test]
async fn one_enqueue_is_one_job_also_when_it_is_gone_before_the_call_is_repeated() {
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    let keep_none = Retention { completed: Keep::NONE, ..Retention::default() };
    client
        .define_queue("brief", QueueConfig { retention: keep_none, ..QueueConfig::default() })
        .await
        .unwrap();
    let running = worker(&client, &stage).queue("brief", 4).start().unwrap();
    for round in 1..=3 {
        store.lose_until_gone(Call::Enqueue);
        let handle = client.enqueue(probe(Act::Succeed)).queue("brief").await.unwrap();
        assert!(handle.is_new(), "the call made its id");
        assert_eq!(stage.started(), 3 * round - 2);
        store.lose_until_gone(Call::Enqueue);
        let handle = client.enqueue(probe(Act::Succeed)).queue("brief").id(JobId::new()).await.unwrap();
        assert!(!handle.is_new(), "the caller chose its id: it may have been there before");
        store.lose_until_gone(Call::Enqueue);
        let handles = client.enqueue_all([probe(Act::Succeed)]).queue("brief").await.unwrap();
        assert!(handles[0].is_new());
        assert_eq!(stage.started(), 3 * round);
    }
    running.stop().await;
    assert!(stage.starts().values().all(|starts| *starts == 1));
}

/// The clock is the test's.
#[tokio::test(start_paused = true)]
async fn a_job_that_was_just_accepted_is_looked_for_again() {
    let store = Faulty::new();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    client.cancel(handle.id()).await.unwrap();
    store.hide(4);
    assert!(matches!(handle.output().await, Err(OutputError::Cancelled { .. })), "it was found");
}

/// The clock is the test's.
#[tokio::test(start_paused = true)]
async fn a_job_that_stays_away_is_missing_after_a_short_time() {
    let store = Faulty::new();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
    store.hide(u32::MAX);
    let began = tokio::time::Instant::now();
    assert!(matches!(handle.output().await, Err(OutputError::Missing { .. })));
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_secs(3)).contains(&took), "{took:?}");
    assert!(matches!(handle.output().await, Err(OutputError::Missing { .. })));
    assert_eq!(began.elapsed(), took, "it was accepted long ago");
    let other = client.enqueue(probe(Act::Succeed)).await.unwrap();
    store.hide(0);
    assert!(other.state().await.unwrap().is_some());
    client.delete(other.id()).await.unwrap();
    assert!(matches!(other.output().await, Err(OutputError::Missing { .. })));
    assert_eq!(began.elapsed(), took, "it was seen, and is gone");
}
