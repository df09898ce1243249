//! Idle workers start fresh work at once, wherever it comes from, and on time, with and without wake-ups.
//!
//! The poll interval is so long that no poll comes before the bound that a start must keep: what starts in time
//! was started by the mechanism under test.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::worker::Wakeups;
use windlass::{Client, Running, Worker};
use windlass_e2e::eventually;
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::{self, Touch};
use windlass_e2e::witness::Witness;

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
/// Ten minutes: the first polls come up to 16 times as often, which is still after [`LATE`].
const POLL_RARELY: Duration = Duration::from_secs(600);
/// With wake-ups off, what they are replaced by.
const POLL_OFTEN: Duration = Duration::from_millis(200);
/// Later than this nothing starts, however busy the machine is.
const LATE: Duration = Duration::from_secs(10);
/// Half of the starts come sooner, also on a machine with a slow disk; on an idle one within a few milliseconds.
const USUAL: Duration = Duration::from_millis(300);
const DELAY: Duration = Duration::from_millis(300);

fn rarely() -> Vec<String> {
    vec!["--poll-ms".into(), POLL_RARELY.as_millis().to_string()]
}

fn often() -> Vec<String> {
    let millis = POLL_OFTEN.as_millis().to_string();
    vec!["--wakeups".into(), "off".into(), "--poll-ms".into(), millis]
}

/// A worker in this process.
fn beside(fleet: &Fleet, client: &Client, wakeups: Wakeups, poll: Duration) -> Running {
    Worker::with_state(client, Witness::open(&fleet.witness(), "beside"))
        .handle(jobs::touch)
        .wakeups(wakeups)
        .poll_interval(poll)
        .start()
        .unwrap()
}

/// Waits until the worker is up and has nothing to do.
async fn until_idle(client: &Client) {
    client.enqueue(Touch { number: 0 }).await.unwrap();
    eventually("the worker is idle", async || {
        let queues = client.store().queues(None, 1).await.unwrap();
        (queues[0].counts.open() == 0).then_some(())
    })
    .await;
}

/// How much later than it was due a job started, by the store's clock.
async fn lateness(client: &Client, job: windlass::worker::Enqueue<Touch>) -> Duration {
    let handle = job.await.unwrap();
    handle.output().await.unwrap();
    let record = client.job(handle.id()).await.unwrap().unwrap();
    let started_at = record.attempts[0].started_at;
    assert!(started_at >= record.due_at, "never before its time");
    started_at.since(record.due_at)
}

/// Fresh jobs start at once, and a delayed one on time although nothing else happens.
async fn starts_in_time(client: &Client, what: &str, usual: Duration) {
    until_idle(client).await;
    let mut late = Vec::new();
    for number in 0..20 {
        late.push(lateness(client, client.enqueue(Touch { number })).await);
    }
    late.sort_unstable();
    let began = Instant::now();
    let delayed = lateness(client, client.enqueue(Touch { number: 100 }).delay(DELAY)).await;
    assert!(began.elapsed() >= DELAY, "never before its time");
    println!("{what}: {:?} (half), {:?} (largest), {delayed:?} after a delay", late[10], late[19]);
    assert!(late[10] < usual && late[19] < usual + LATE, "{what}: {late:?}");
    assert!(delayed < usual + LATE, "{what}: {delayed:?} after a delay");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_from_another_process_starts_in_time() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let _worker = fleet.start(&WorkerSettings { extra: rarely(), ..WorkerSettings::default() });
    starts_in_time(&client, "from another process", USUAL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_from_the_same_process_starts_in_time() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let running = beside(&fleet, &client, Wakeups::On, POLL_RARELY);
    starts_in_time(&client, "from the same process", USUAL).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_wake_ups_polling_finds_work_from_another_process() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let _worker = fleet.start(&WorkerSettings { extra: often(), ..WorkerSettings::default() });
    starts_in_time(&client, "by polling, from another process", USUAL + POLL_OFTEN).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_wake_ups_polling_finds_work_from_the_same_process() {
    let fleet = Fleet::new(WORKER);
    let client = fleet.client().await;
    let running = beside(&fleet, &client, Wakeups::Off, POLL_OFTEN);
    starts_in_time(&client, "by polling, from the same process", USUAL + POLL_OFTEN).await;
    running.stop().await;
}
