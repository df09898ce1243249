//! Handlers that hold a runtime thread are named, and attempts have a span that never tells their payload.

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing_subscriber::fmt::format::FmtSpan;
use windlass_worker::{Job, JobError, Worker};

use crate::support::{eventually, scene};

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
