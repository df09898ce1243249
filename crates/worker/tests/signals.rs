//! Signals, in a process of their own: the first drains, the second does not wait.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use windlass_store_memory::MemoryStore;
use windlass_worker::{Client, Job, JobError, State, Worker};

const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Serialize, Deserialize)]
struct Hang;

impl Job for Hang {
    const KIND: &'static str = "hang";
    type Output = ();
}

async fn hang(_job: Hang, State(started): State<Arc<Notify>>) -> Result<(), JobError> {
    started.notify_one();
    std::future::pending().await
}

fn send(name: &str) {
    let sent = Command::new("kill").args([name, &std::process::id().to_string()]).status().unwrap();
    assert!(sent.success());
}

#[tokio::test]
async fn the_second_signal_is_immediate() {
    // Heard here too, so that a signal cannot end the process before the worker listens.
    let mut heard = signal(SignalKind::terminate()).unwrap();
    let client = Client::new(Arc::new(MemoryStore::new()));
    let started = Arc::new(Notify::new());
    let handle = client.enqueue(Hang).await.unwrap();
    let worker = Worker::with_state(&client, Arc::clone(&started)).handle(hang);
    let run = tokio::spawn(worker.drain_deadline(10 * PATIENCE).run());
    started.notified().await;
    send("-TERM");
    heard.recv().await.unwrap();
    assert!(!run.is_finished(), "the first signal lets the attempt go on");
    send("-TERM");
    tokio::time::timeout(PATIENCE, run).await.expect("the second signal ends it").unwrap().unwrap();
    let record = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.counters.attempt), (windlass_core::State::Ready, 0));
}
