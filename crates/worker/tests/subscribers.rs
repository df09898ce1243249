//! What the program's subscriber hears, and what becomes of one that panics. In a process of their own, where
//! every test has a subscriber: one thread without could switch an event off for all.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "it/faulty.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod faulty;
#[path = "it/support.rs"]
#[allow(dead_code, reason = "shared with the other tests")]
mod support;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt;
use windlass_core::State;
use windlass_worker::{Job, JobError, Part, Worker};

use crate::faulty::{Call, Fault, Faulty};
use crate::support::{Act, end_of, eventually, probe, scene, scene_on, worker};

#[derive(Serialize, Deserialize)]
struct Nap {
    secret: String,
}

impl Job for Nap {
    const KIND: &'static str = "nap";
    type Output = ();
}

async fn nap(job: Nap) -> Result<(), JobError> {
    // Holds the thread, as a handler should not.
    std::thread::sleep(Duration::from_millis(600));
    if job.secret.is_empty() { Ok(()) } else { Err(JobError::fail("slept badly")) }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_handler_that_holds_a_thread_is_named() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::INFO)
        .with_span_events(FmtSpan::NEW)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // Attempts run on this thread, so its default is theirs.
    let _guard = tracing::subscriber::set_default(subscriber);
    let (client, _) = scene();
    let running = Worker::new(&client).handle(nap).start().unwrap();
    let handle = client.enqueue(Nap { secret: "hunter2".into() }).await.unwrap();
    handle.output().await.unwrap_err();
    eventually("the lag was seen", async || running.health().lag_max > Duration::from_millis(100)).await;
    running.stop().await;
    let said = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    for wanted in [
        "kind `nap` held a runtime thread for 6",
        "use handle_blocking or yield",
        &format!("attempt{{job.id={} job.kind=nap job.queue=default attempt=1 fence=1-", handle.id()),
        "slept badly",
    ] {
        assert!(said.contains(wanted), "{wanted:?} is missing in:\n{said}");
    }
    assert!(!said.contains("hunter2"), "payloads are not logged:\n{said}");
}

#[tokio::test]
async fn a_worker_whose_handle_is_dropped_says_that_it_stops() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _guard = tracing::subscriber::set_default(subscriber);
    let (client, stage) = scene();
    let said = || String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let wanted = "the worker stops because its handle was dropped";
    worker(&client, &stage).start().unwrap().stop().await;
    worker(&client, &stage).start().unwrap().abort();
    assert!(!said().contains(wanted), "it was told to stop:\n{}", said());
    let _ = worker(&client, &stage).name("careless").start().unwrap();
    assert!(said().contains(wanted) && said().contains("careless"), "{}", said());
}

/// A subscriber of the program's that panics when an event has this field.
struct Touchy(&'static str);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Touchy {
    fn on_event(&self, event: &tracing::Event<'_>, _context: tracing_subscriber::layer::Context<'_, S>) {
        assert!(event.metadata().fields().field(self.0).is_none(), "the subscriber panics");
    }
}

#[tokio::test]
async fn a_panic_while_recording_does_not_end_the_recorder() {
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(Touchy("fence")));
    let store = Faulty::new();
    let (client, stage) = scene_on(Arc::clone(&store) as _);
    store.fail(Call::Settle, Fault::Unknown, 1);
    let running = worker(&client, &stage).start().unwrap();
    for _ in 0..2 {
        let handle = client.enqueue(probe(Act::Succeed)).await.unwrap();
        assert_eq!(end_of(&handle).await.state, State::Completed);
    }
    eventually("green", async || running.health().is_ok()).await;
    let health = running.health();
    assert_eq!((health.of(Part::Settler).restarts, health.unsettled), (1, 0));
    running.stop().await;
}

#[tokio::test]
async fn a_panic_while_enqueueing_does_not_close_the_client() {
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(Touchy("is_over")));
    let store = Faulty::new();
    let (client, _) = scene_on(Arc::clone(&store) as _);
    store.fail(Call::Enqueue, Fault::Unavailable, 1);
    let error = client.enqueue(probe(Act::Succeed)).await.unwrap_err();
    assert_eq!(error.to_string(), "outcome unknown: panicked: the subscriber panics");
    client.enqueue(probe(Act::Succeed)).await.unwrap();
}
