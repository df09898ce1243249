//! Jobs that are claimed ahead of their start: bounded, handed back, never held hostage.

use serde::{Deserialize, Serialize};
use windlass_core::State;
use windlass_worker::{Handle, Job, JobError, Running, Wakeups, Worker};

use crate::support::{Act, PATIENCE, Probe, Stage, end_of, eventually, probe, scene, worker};

/// A worker with two slots whose fast jobs are followed by slow ones, so that some of these wait in its line.
async fn crowded(client: &windlass_worker::Client, stage: &Stage) -> (Running, Vec<Handle<Probe>>) {
    client.enqueue_all((0..3_000).map(|_| probe(Act::Succeed))).await.unwrap();
    let slow = client.enqueue_all((0..500).map(|_| probe(Act::Wait))).await.unwrap();
    let running = worker(client, stage).concurrency(2).prefetch(50).start().unwrap();
    let claimed = async || {
        let mut claimed = 0;
        for record in client.store().queues(None, 10).await.unwrap() {
            claimed += record.counts.of(State::Running);
        }
        // What is being settled still counts as running; lanes hold no more than the finished.
        assert!(running.health().buffered <= 50, "{:?}", running.health());
        claimed
    };
    eventually("fast ones are done, slow ones wait", async || {
        claimed().await;
        stage.started() >= 3_002 && stage.present() == 2 && running.health().buffered > 0
    })
    .await;
    (running, slow)
}

#[tokio::test]
async fn prefetch_is_bounded_and_handed_back_unused() {
    let (client, stage) = scene();
    let (running, slow) = crowded(&client, &stage).await;
    running.stop_now().await;
    for handle in &slow {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        assert_eq!((record.state, record.counters.attempt, record.counters.stalls), (State::Ready, 0, 0));
    }
    assert!(client.store().leases(10).await.unwrap().is_empty(), "the lease is closed");
    // Another worker runs all of them, each once.
    stage.release(slow.len());
    let running = worker(&client, &stage).start().unwrap();
    for handle in &slow {
        assert_eq!(end_of(handle).await.counters.attempt, 1);
    }
    running.stop().await;
}

#[tokio::test]
async fn jobs_that_wait_too_long_go_to_others() {
    let (client, stage) = scene();
    let (running, slow) = crowded(&client, &stage).await;
    // The second worker gets everything but the two that run, also what waited at the first.
    let other = Stage::default();
    other.release(slow.len());
    let second = worker(&client, &other).start().unwrap();
    let ended = async || {
        let queues = client.store().queues(None, 10).await.unwrap();
        queues[0].counts.open()
    };
    eventually("only two are left", async || ended().await == 2).await;
    assert_eq!(other.started(), 498);
    stage.release(2);
    eventually("none is left", async || ended().await == 0).await;
    second.stop().await;
    running.stop().await;
}

#[derive(Serialize, Deserialize)]
struct Huge {
    filling: String,
}

impl Job for Huge {
    const KIND: &'static str = "huge";
    type Output = ();
}

async fn huge(job: Huge) -> Result<(), JobError> {
    assert_eq!(job.filling.len(), 1_000_000);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_that_end_by_bytes_do_not_wait_for_the_next_poll() {
    let (client, _) = scene();
    let mut handles = Vec::new();
    for _ in 0..20 {
        handles.push(client.enqueue(Huge { filling: "z".repeat(1_000_000) }).await.unwrap());
    }
    let running = Worker::new(&client).handle(huge).poll_interval(3 * PATIENCE).wakeups(Wakeups::Off);
    let running = running.start().unwrap();
    for handle in &handles {
        assert_eq!(end_of(handle).await.state, State::Completed);
    }
    running.stop().await;
}
