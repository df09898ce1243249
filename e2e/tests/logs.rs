//! What a job in another process says is followed from here, survives the process, and is told attempt by attempt.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass::worker::{JobEvent, JobEvents};
use windlass::{Client, JobId, JobState};
use windlass_e2e::eventually;
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::Chat;
use windlass_e2e::witness::Ledger;
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
/// More than one record holds.
const LINES: u32 = 300;
/// Short, since the death of a worker is noticed when its lease has run out.
const LEASE: Duration = Duration::from_secs(2);

fn worker(label: &str) -> WorkerSettings {
    WorkerSettings { label: label.into(), lease: LEASE, ..WorkerSettings::default() }
}

/// The lines and the newest report, until so many lines have come.
async fn follow(events: &mut JobEvents, lines: usize) -> Vec<String> {
    let mut said = Vec::new();
    while said.len() < lines {
        match next(events).await {
            JobEvent::Line(line) => said.push(line.text),
            JobEvent::State(_) | JobEvent::Progress(_) | JobEvent::Attempt(_) => {}
            other => panic!("{other:?}"),
        }
    }
    said
}

async fn next(events: &mut JobEvents) -> JobEvent {
    let event = tokio::time::timeout(Duration::from_secs(120), events.next()).await;
    event.expect("something happens").unwrap().expect("it has not ended")
}

async fn texts(client: &Client, id: JobId) -> Vec<(u32, String)> {
    let (mut reader, mut texts) = (client.logs(id).await.unwrap().unwrap(), Vec::new());
    loop {
        let lines = reader.next().await.unwrap();
        if lines.is_empty() {
            return texts;
        }
        assert!(lines.iter().all(|line| line.dropped == 0));
        texts.extend(lines.into_iter().map(|line| (line.attempt, line.text)));
    }
}

fn said_by(label: &str) -> Vec<String> {
    (1..=LINES).map(|line| format!("{label} {line}")).collect()
}

async fn a_job_is_followed(fleet: Fleet) {
    let client = fleet.client().await;
    let handle = client.enqueue(Chat { gate: fleet.gate(), lines: LINES }).await.unwrap();
    let mut events = handle.events();
    assert_eq!(next(&mut events).await, JobEvent::State(JobState::Ready));
    let first = fleet.start(&worker("first"));
    assert_eq!(follow(&mut events, LINES as usize).await, said_by("first"));
    // The store must know that the handler has begun: then its death is a stall, which is an attempt.
    eventually("the store knows that it has begun", async || {
        client.job(handle.id()).await.unwrap().unwrap().has_begun.then_some(())
    })
    .await;
    first.kill();

    fleet.open_gate("second");
    let _second = fleet.start(&worker("second"));
    let mut expected = said_by("second");
    expected.push("second ends".into());
    assert_eq!(follow(&mut events, expected.len()).await, expected);
    let end = loop {
        match next(&mut events).await {
            JobEvent::Ended(job) => break job,
            JobEvent::State(_) | JobEvent::Progress(_) | JobEvent::Attempt(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(120), events.next()).await.unwrap().unwrap().is_none());
    assert_eq!(end.state, JobState::Completed, "{end:?}");
    assert_eq!(end.progress.as_deref(), Some(&b"{\"percent\":100.0}"[..]));
    let first = said_by("first").into_iter().map(|text| (1, text));
    let second = expected.into_iter().map(|text| (2, text));
    assert_eq!(texts(&client, handle.id()).await, first.chain(second).collect::<Vec<_>>());
    assert_eq!(Ledger::read(&fleet.witness()).count(handle.id(), "start"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    a_job_is_followed(Fleet::new(WORKER)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    let server = PostgresServer::start(&Settings::default());
    a_job_is_followed(Fleet::on(WORKER, server.url())).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let server = RedisServer::start(&RedisSettings::default());
    a_job_is_followed(Fleet::on(WORKER, server.url())).await;
}
