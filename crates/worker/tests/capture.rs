//! Events of `tracing` in the logs of attempts. In a process of their own, where every test has a subscriber: one thread without
//! could switch an event off for all.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tracing::level_filters::LevelFilter;
use tracing::{Instrument, Span};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::prelude::*;
use windlass_core::retry::Policy;
use windlass_core::{JobId, Options, State};
use windlass_store_memory::MemoryStore;
use windlass_worker::{CaptureLayer, Client, Ctx, Handle, Job, JobError, LogLevel, Worker};

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Emit {
    Plain,
    Elsewhere,
    Long,
    Panic,
}

impl Job for Emit {
    const KIND: &'static str = "emit";
    type Output = ();

    fn options() -> Options {
        Options::new().retry(Policy::never())
    }
}

async fn emit(job: Emit, ctx: Ctx) -> Result<(), JobError> {
    match job {
        Emit::Plain => {
            tracing::info!(rows = 3, name = "ada\u{1b}[2J", "imported");
            ctx.log(LogLevel::Warn, "said by hand");
            let nested = tracing::info_span!("nested", depth = 1);
            nested.in_scope(|| tracing::error!(error = %"no route", "lost"));
            tracing::debug!("details");
            tracing::info!(only = "fields");
        }
        Emit::Elsewhere => {
            let own =
                tokio::spawn(async { tracing::info!("in a task with the span") }.instrument(Span::current()));
            own.await?;
            tokio::spawn(async { tracing::info!("in a task without") }).await?;
            let span = Span::current();
            tokio::task::spawn_blocking(move || span.in_scope(|| tracing::info!("on a thread"))).await?;
        }
        Emit::Long => tracing::info!(text = "x".repeat(100_000), "{}", "y".repeat(100_000)),
        Emit::Panic => {
            tracing::warn!("about to fall");
            panic!("it falls");
        }
    }
    Ok(())
}

async fn run<J: Job>(job: J) -> Vec<(LogLevel, String)> {
    let client = Client::new(Arc::new(MemoryStore::new()));
    let running = Worker::new(&client).handle(emit).start().unwrap();
    let handle = client.enqueue(job).await.unwrap();
    let said = lines(&client, &handle).await;
    running.stop().await;
    said
}

async fn lines<J: Job>(client: &Client, handle: &Handle<J>) -> Vec<(LogLevel, String)> {
    tokio::time::timeout(Duration::from_secs(30), handle.finished()).await.unwrap().unwrap();
    let lines = client.logs(handle.id()).await.unwrap().unwrap().next().await.unwrap();
    lines.into_iter().map(|line| (line.level, line.text)).collect()
}

fn texts(said: &[(LogLevel, String)]) -> Vec<&str> {
    said.iter().map(|(_, text)| text.as_str()).collect()
}

#[tokio::test]
async fn events_become_lines_of_their_attempt() {
    let layer = CaptureLayer::new().with_filter(LevelFilter::INFO);
    let _guard = tracing_subscriber::registry().with(layer).set_default();
    let said = run(Emit::Plain).await;
    let expected = [
        (LogLevel::Info, "imported rows=3 name=\"ada\\u{1b}[2J\"".to_owned()),
        (LogLevel::Warn, "said by hand".to_owned()),
        (LogLevel::Error, "lost error=no route".to_owned()),
        (LogLevel::Info, "only=\"fields\"".to_owned()),
    ];
    assert_eq!(said, expected);
}

#[tokio::test]
async fn events_belong_to_the_attempt_wherever_its_span_is() {
    let _guard = tracing_subscriber::registry().with(CaptureLayer::new()).set_default();
    let said = run(Emit::Elsewhere).await;
    // The subscriber of this test is that of its thread alone.
    assert_eq!(texts(&said), ["in a task with the span"]);
}

#[tokio::test]
async fn long_events_are_cut_and_what_came_before_a_panic_is_kept() {
    let _guard = tracing_subscriber::registry().with(CaptureLayer::new()).set_default();
    let said = run(Emit::Long).await;
    assert!(said.len() == 1 && said[0].1.len() <= windlass_worker::LOG_LINE_MAX, "{}", said[0].1.len());
    assert!(said[0].1.starts_with("yyy") && said[0].1.ends_with("bytes in all)"), "{}", said[0].1);
    let said = run(Emit::Panic).await;
    assert_eq!(texts(&said), ["about to fall"], "events of the engine are not the handler's");
}

#[tokio::test]
async fn attempts_that_run_side_by_side_do_not_mix() {
    let _guard = tracing_subscriber::registry().with(CaptureLayer::new()).set_default();
    let client = Client::new(Arc::new(MemoryStore::new()));
    let running = Worker::new(&client).handle(emit).concurrency(8).start().unwrap();
    let handles = client.enqueue_all((0..40).map(|_| Emit::Plain)).await.unwrap();
    for handle in &handles {
        assert_eq!(lines(&client, handle).await.len(), 5);
    }
    running.stop().await;
}

/// A filter that turns the span of attempts off leaves nothing to capture by, and harms nothing.
#[tokio::test]
async fn without_its_span_an_attempt_has_no_events() {
    let filter = EnvFilter::new("warn");
    let _guard = tracing_subscriber::registry().with(filter).with(CaptureLayer::new()).set_default();
    assert_eq!(texts(&run(Emit::Plain).await), ["said by hand"]);
    let filter = EnvFilter::new("warn,windlass_worker::attempts=info");
    let _other = tracing_subscriber::registry().with(filter).with(CaptureLayer::new()).set_default();
    assert_eq!(texts(&run(Emit::Plain).await), ["said by hand", "lost error=no route"]);
}

#[tokio::test]
async fn draining_captures_as_well() {
    let _guard = tracing_subscriber::registry().with(CaptureLayer::new()).set_default();
    let client = Client::new(Arc::new(MemoryStore::new()));
    let handle = client.enqueue(Emit::Plain).await.unwrap();
    Worker::new(&client).handle(emit).drain().await.unwrap();
    assert_eq!(handle.state().await.unwrap(), Some(State::Completed));
    assert_eq!(lines(&client, &handle).await.len(), 5);
    assert!(client.logs(JobId::new()).await.unwrap().is_none());
}
