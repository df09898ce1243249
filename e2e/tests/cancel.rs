//! A job that runs in another process is cancelled from here: at once where wake-ups come through, with a renewal of the lease
//! otherwise. What its handler does afterwards does not count.
//!
//! The lease is so long, or the worker so deaf, that only the mechanism under test can have carried the request.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::worker::Cancellation;
use windlass::{Client, Ending, Handle, Job, JobState, Reason};
use windlass_e2e::eventually;
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::{Chat, HoldThread};
use windlass_e2e::witness::Ledger;
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
/// It is renewed every 200 seconds.
const LONG: Duration = Duration::from_secs(600);
/// It is renewed every two seconds.
const SHORT: Duration = Duration::from_secs(6);
/// Later than this nothing is heard on any machine, and the long lease is renewed after it.
const LATE: Duration = Duration::from_secs(30);

async fn until_begun<J: Job>(fleet: &Fleet, client: &Client, handle: &Handle<J>) {
    eventually("the handler has begun, and the store knows", async || {
        let record = client.job(handle.id()).await.unwrap().unwrap();
        (record.has_begun && Ledger::read(&fleet.witness()).count(handle.id(), "start") == 1).then_some(())
    })
    .await;
}

/// The handler hears of it, and the job ends.
async fn is_heard(fleet: &Fleet, client: &Client, what: &str) {
    let handle = client.enqueue(Chat { gate: fleet.gate(), lines: 1 }).await.unwrap();
    until_begun(fleet, client, &handle).await;
    let (asked, cancellation) =
        (Instant::now(), Cancellation { by: "ann".into(), why: "wrong customer".into() });
    client.cancel_because(handle.id(), &cancellation).await.unwrap();
    let end = handle.finished().await.unwrap();
    let took = asked.elapsed();
    println!("{what}: cancelled after {took:?}");
    assert!(took < LATE, "{took:?}");
    assert_eq!((end.state, end.reason), (JobState::Cancelled, Some(Reason::Requested)), "{end:?}");
    assert_eq!(end.attempts[0].ending, Some(Ending::Cancelled), "{end:?}");
    assert_eq!(client.cancellation(&end).await.unwrap(), Some(cancellation));
    assert_eq!(Ledger::read(&fleet.witness()).count(handle.id(), "told"), 1, "its handler was told");
}

/// A handler that cannot be stopped goes on, and nothing that it does later counts.
async fn cannot_complete_later(fleet: &Fleet, client: &Client) {
    let handle = client.enqueue(HoldThread { gate: fleet.gate() }).await.unwrap();
    until_begun(fleet, client, &handle).await;
    handle.cancel().await.unwrap();
    let end = handle.finished().await.unwrap();
    assert_eq!(end.state, JobState::Cancelled, "{end:?}");
    assert_eq!(Ledger::read(&fleet.witness()).count(handle.id(), "done"), 0, "its handler has not returned");
    fleet.open_gate("worker");
    eventually("the late handler is done", async || {
        (Ledger::read(&fleet.witness()).count(handle.id(), "done") == 1).then_some(())
    })
    .await;
    assert_eq!(Ledger::read(&fleet.witness()).count(handle.id(), "progressed"), 0, "its writes were refused");
    // What it returned would be recorded before its worker has ended.
    assert_eq!(client.job(handle.id()).await.unwrap().unwrap(), end, "the cancelled job was touched again");
}

/// The same store for a program that hears nothing of others. One on a file watches it in any case.
fn deaf(url: &str) -> Option<String> {
    let separator = if url.contains('?') { '&' } else { '?' };
    (!url.starts_with("sqlite:")).then(|| format!("{url}{separator}listen=never"))
}

async fn a_running_job_is_cancelled(fleet: Fleet) {
    let client = fleet.client().await;
    let settings = WorkerSettings { lease: LONG, ..WorkerSettings::default() };
    let worker = fleet.start(&settings);
    is_heard(&fleet, &client, "by a wake-up").await;
    worker.terminate();
    worker.end().await;
    let mut extra = ["--wakeups", "off", "--poll-ms", "200"].map(ToOwned::to_owned).to_vec();
    extra.extend(deaf(fleet.url()).into_iter().flat_map(|url| ["--store".to_owned(), url]));
    let worker = fleet.start(&WorkerSettings { lease: SHORT, extra, ..WorkerSettings::default() });
    is_heard(&fleet, &client, "by a renewal").await;
    cannot_complete_later(&fleet, &client).await;
    worker.terminate();
    worker.end().await;
    let cancelled = client.queue("default").unwrap().counts().await.unwrap().of(JobState::Cancelled);
    assert_eq!(cancelled, 3, "also after the worker has ended");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    a_running_job_is_cancelled(Fleet::new(WORKER)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    let server = PostgresServer::start(&Settings::default());
    a_running_job_is_cancelled(Fleet::on(WORKER, server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let server = RedisServer::start(&RedisSettings::default());
    a_running_job_is_cancelled(Fleet::on(WORKER, server.url())).await;
}
