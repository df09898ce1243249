//! Idle workers start fresh work at once, wherever it comes from, and on time, with and without wake-ups.
//!
//! The poll interval is set so long that only the mechanism under test can start the job before the test
//! gives up.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, SystemTime};

use windlass::Client;
use windlass_e2e::eventually;
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::jobs::Touch;

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");

fn start(fleet: &Fleet, options: &[&str]) -> WorkerProcess {
    let extra = options.iter().map(ToString::to_string).collect();
    fleet.start(&WorkerSettings { extra, ..WorkerSettings::default() })
}

/// Makes sure that the worker is up and has nothing to do.
async fn until_idle(client: &Client) {
    client.enqueue(Touch { number: 0 }).await.unwrap().output().await.unwrap();
}

/// When the job was due and how much later it started, by the store's clock.
async fn lateness(client: &Client, job: windlass::Enqueue<Touch>) -> Duration {
    let handle = job.await.unwrap();
    handle.output().await.unwrap();
    let record = client.job(handle.id()).await.unwrap().unwrap();
    record.attempts[0].started_at.since(record.due_at)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_from_another_process_starts_long_before_the_poll() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    client.enqueue(Touch { number: 0 }).await.unwrap();
    let _worker = start(&fleet, &["--poll-ms", "600000"]);
    eventually("the worker is idle", async || {
        let queues = client.store().queues(None, 1).await.unwrap();
        (queues[0].counts.open() == 0).then_some(())
    })
    .await;
    let mut late = Vec::new();
    for number in 0..50 {
        late.push(lateness(&client, client.enqueue(Touch { number })).await);
    }
    late.sort_unstable();
    println!("started after {:?} (p50), {:?} (largest)", late[25], late[49]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delayed_job_starts_on_time_although_nothing_else_happens() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let _worker = start(&fleet, &["--poll-ms", "600000"]);
    until_idle(&client).await;
    let before = SystemTime::now();
    let late = lateness(&client, client.enqueue(Touch { number: 1 }).delay(Duration::from_millis(300))).await;
    assert!(before.elapsed().unwrap() >= Duration::from_millis(300), "never before its time");
    println!("started {late:?} after it was due");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_wake_ups_polling_finds_both() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let _worker = start(&fleet, &["--wakeups", "off", "--poll-ms", "200"]);
    until_idle(&client).await;
    let now = lateness(&client, client.enqueue(Touch { number: 1 })).await;
    let delayed =
        lateness(&client, client.enqueue(Touch { number: 2 }).delay(Duration::from_millis(300))).await;
    println!("by polling every 200 ms: {now:?} and, delayed, {delayed:?} late");
}
