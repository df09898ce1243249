//! Signals, in a process of their own: the first drains, the second does not wait.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

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
    let mut run = tokio::spawn(worker.drain_deadline(10 * PATIENCE).run());
    started.notified().await;
    send("-TERM");
    heard.recv().await.unwrap();
    assert!(!run.is_finished(), "the first signal lets the attempt go on");
    // Two signals that come together are heard as one, so a busy machine may take more than one more.
    let signal_until_it_ends = async {
        loop {
            send("-TERM");
            if let Ok(ended) = tokio::time::timeout(Duration::from_millis(200), &mut run).await {
                return ended;
            }
        }
    };
    tokio::time::timeout(PATIENCE, signal_until_it_ends)
        .await
        .expect("the second signal ends it")
        .unwrap()
        .unwrap();
    let record = client.job(handle.id()).await.unwrap().unwrap();
    assert_eq!((record.state, record.counters.attempt), (windlass_core::State::Ready, 0));
}

#[derive(Serialize, Deserialize)]
struct Hog;

impl Job for Hog {
    const KIND: &'static str = "hog";
    type Output = ();
}

/// Never gives its thread back.
async fn hog(_job: Hog) -> Result<(), JobError> {
    println!("{HOLDS}");
    loop {
        std::thread::park();
    }
}

/// What a child says when its handler holds its thread.
const HOLDS: &str = "the hog holds its thread";
/// Makes this program the child of a test: how many threads its runtime has.
const THREADS: &str = "WINDLASS_TEST_HOG_THREADS";

/// The program of the two tests below, which start this test as a process of its own.
#[test]
fn a_program_whose_handler_blocks_for_ever() {
    let Ok(threads) = std::env::var(THREADS) else { return };
    let threads = threads.parse().unwrap();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(Arc::new(MemoryStore::new()));
        client.enqueue(Hog).await.unwrap();
        let short = Duration::from_millis(10);
        let worker = Worker::new(&client).handle(hog).drain_deadline(short).cancel_grace(short);
        worker.run().await.unwrap();
    });
    // Where a program ends, and a runtime waits for its threads.
    drop(runtime);
    unreachable!("a runtime does not end while a handler holds a thread of it");
}

/// Starts the program, and answers how it ends after one signal.
fn end_of_a_program(threads: &str) -> std::process::ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_program_whose_handler_blocks_for_ever", "--nocapture"])
        .env(THREADS, threads)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let said = BufReader::new(child.stdout.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line.contains(HOLDS)), "the handler runs");
    let sent = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let asked = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if asked.elapsed() > 2 * PATIENCE {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("a blocked handler keeps the process alive");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_handler_that_blocks_for_ever_does_not_keep_the_process_alive() {
    assert_eq!(end_of_a_program("4").code(), Some(1));
}

#[test]
fn nor_does_one_that_holds_the_only_thread() {
    assert_eq!(end_of_a_program("1").code(), Some(1));
}
