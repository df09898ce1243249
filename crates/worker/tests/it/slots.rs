//! Slots of queues: limits are kept, reserved ones stay free for whom they are.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use windlass_core::State as JobState;
use windlass_worker::{Ctx, Job, JobError, State, Worker};

use crate::support::{Act, end_of, eventually, probe, scene, worker};

#[derive(Serialize, Deserialize)]
struct Step;

impl Job for Step {
    const KIND: &'static str = "step";
    type Output = ();
}

/// How many run per queue, and how many did at most.
#[derive(Clone, Default)]
struct Census(Arc<Mutex<HashMap<String, (usize, usize)>>>);

async fn step(_job: Step, ctx: Ctx, State(census): State<Census>) -> Result<(), JobError> {
    for key in [ctx.queue().as_str(), "all"] {
        let mut census = census.0.lock().unwrap();
        let (now, most) = census.entry(key.to_owned()).or_default();
        *now += 1;
        *most = (*most).max(*now);
    }
    for _ in 0..3 {
        tokio::task::yield_now().await;
    }
    for key in [ctx.queue().as_str(), "all"] {
        census.0.lock().unwrap().get_mut(key).unwrap().0 -= 1;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_under_load() {
    let (client, _) = scene();
    let census = Census::default();
    let mut handles = Vec::new();
    for queue in ["a", "b", "c"] {
        handles.extend(client.enqueue_all((0..400).map(|_| Step)).queue(queue).await.unwrap());
    }
    let running = Worker::with_state(&client, census.clone())
        .handle(step)
        .concurrency(8)
        .queue("a", 2)
        .queue("b", 8)
        .reserve("c", 3)
        .start()
        .unwrap();
    for handle in &handles {
        handle.output().await.unwrap();
    }
    let most = |key: &str| census.0.lock().unwrap()[key].1;
    assert!(most("a") <= 2, "{}", most("a"));
    assert!(most("b") <= 5, "three slots are kept for c, so b had {} at most", most("b"));
    assert!(most("all") <= 8, "{}", most("all"));
    assert!(most("all") > 2, "more than one queue ran at a time");
    running.stop().await;
}

#[tokio::test]
async fn a_busy_queue_leaves_turns_to_one_that_weighs_less() {
    let (client, stage) = scene();
    client.enqueue_all((0..600).map(|_| probe(Act::Wait))).queue("critical").await.unwrap();
    client.enqueue_all((0..100).map(|_| probe(Act::Wait))).queue("low").await.unwrap();
    let running =
        worker(&client, &stage).concurrency(6).weight("critical", 5).weight("low", 1).start().unwrap();
    let started = async |queue: &str| {
        let queues = client.store().queues(None, 10).await.unwrap();
        let counts = queues.into_iter().find(|record| record.name.as_str() == queue).unwrap().counts;
        counts.of(JobState::Running) + counts.of(JobState::Completed)
    };
    for ended in 0..60 {
        stage.until_started(ended + 6).await;
        stage.release(1);
        stage.until_ended(ended + 1).await;
    }
    stage.until_started(66).await;
    let (critical, low) = (started("critical").await, started("low").await);
    assert!(low >= 11, "one of every six: {low} of low beside {critical} of critical");
    assert!(critical >= 50, "five of every six: {critical} of critical beside {low} of low");
    running.stop_now().await;
}

#[tokio::test]
async fn a_noisy_queue_cannot_take_reserved_slots() {
    let (client, stage) = scene();
    let running =
        worker(&client, &stage).concurrency(4).queue("noisy", 4).reserve("quiet", 1).start().unwrap();
    let noisy = client.enqueue_all((0..500).map(|_| probe(Act::Wait))).queue("noisy").await.unwrap();
    stage.until_started(3).await;
    // Every slot that noisy may use is held. Quiet jobs run all the same, one after the other.
    for _ in 0..20 {
        let quiet = client.enqueue(probe(Act::Succeed)).queue("quiet").await.unwrap();
        end_of(&quiet).await;
    }
    assert_eq!(stage.present(), 3, "noisy never got the fourth slot");
    stage.release(noisy.len());
    end_of(noisy.last().unwrap()).await;
    running.stop().await;
}

#[tokio::test]
async fn the_number_of_slots_changes_while_the_worker_runs() {
    let (client, stage) = scene();
    client.enqueue_all((0..50).map(|_| probe(Act::Wait))).await.unwrap();
    let running = worker(&client, &stage).concurrency(2).start().unwrap();
    stage.until_started(2).await;
    running.set_concurrency(5).unwrap();
    stage.until_started(5).await;
    assert_eq!((running.health().slots, stage.present()), (5, 5));
    // Down: those that run go on, and none follows until fewer run than there are slots.
    running.set_concurrency(2).unwrap();
    for ended in 1..=3 {
        stage.release(1);
        stage.until_ended(ended).await;
        eventually("its slot is given back", async || running.health().running == 5 - ended as usize).await;
        assert_eq!(stage.started(), 5, "{ended} of five have ended");
    }
    stage.release(1);
    stage.until_started(6).await;
    assert_eq!(stage.present(), 2);
    running.set_concurrency(1).unwrap();
    running.set_concurrency(40).unwrap();
    stage.until_started(44).await;
    stage.release(50);
    stage.until_ended(50).await;
    running.stop().await;
}

#[tokio::test]
async fn a_number_of_slots_that_no_worker_could_start_with_is_refused() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).concurrency(8).queue("a", 6).reserve("b", 3).start().unwrap();
    let refused = |slots: usize| running.set_concurrency(slots).unwrap_err().to_string();
    assert_eq!(refused(0), "concurrency is 0: at least 1 is needed");
    assert_eq!(refused(2), "3 slots are reserved of 2 in all: raise `concurrency` or reserve less");
    assert!(refused(3).starts_with("queue `a` has no slot"));
    assert_eq!(running.health().slots, 8, "nothing has changed");
    running.set_concurrency(4).unwrap();
    let noisy = client.enqueue_all((0..20).map(|_| probe(Act::Wait))).queue("a").await.unwrap();
    stage.until_started(1).await;
    end_of(&client.enqueue(probe(Act::Succeed)).queue("b").await.unwrap()).await;
    assert_eq!(stage.present(), 1, "three of four slots are kept for b");
    stage.release(noisy.len());
    end_of(noisy.last().unwrap()).await;
    running.stop().await;
}
