//! One trace from a request through enqueue, claim, attempt and the jobs that come of it, as a receiver of OTLP sees it.

mod receiver;

use std::sync::OnceLock;
use std::time::Duration;

use opentelemetry::trace::{SpanKind, TraceContextExt, Tracer, TracerProvider};
use opentelemetry::{Context, global};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::trace::SdkTracerProvider;
use serde::{Deserialize, Serialize};
use tracing::Instrument;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::prelude::*;
use windlass::core::job::Trace;
use windlass::{Client, Ctx, Job, JobError, JobState, Worker};

use self::receiver::{Poster, Receiver, Span};

#[derive(Debug, Serialize, Deserialize)]
struct Order {
    fails: bool,
}

#[derive(Debug, Serialize, Deserialize)]
struct Invoice;

#[derive(Debug, Serialize, Deserialize)]
struct Mail;

impl Job for Order {
    const KIND: &'static str = "order";
    type Output = Option<String>;
}

impl Job for Invoice {
    const KIND: &'static str = "invoice";
    type Output = Option<String>;
}

impl Job for Mail {
    const KIND: &'static str = "mail";
    type Output = Option<String>;
}

fn parent_of(ctx: &Ctx) -> Option<String> {
    ctx.trace().map(|trace| trace.parent().to_owned())
}

async fn order(job: Order, ctx: Ctx, client: Client) -> Result<Option<String>, JobError> {
    if job.fails {
        return Err(JobError::fail("out of stock"));
    }
    async { client.enqueue(Invoice).await }.instrument(tracing::info_span!("charge")).await?;
    ctx.then(Mail).await?;
    Ok(parent_of(&ctx))
}

async fn invoice(_job: Invoice, ctx: Ctx) -> Result<Option<String>, JobError> {
    Ok(parent_of(&ctx))
}

/// Blocks its thread.
fn mail(_job: Mail, ctx: Ctx) -> Result<Option<String>, JobError> {
    let inside = Context::current().span().span_context().span_id().to_string();
    assert!(ctx.trace().is_none_or(|trace| !trace.is_sampled() || trace.span_id() == inside));
    Ok(parent_of(&ctx))
}

/// Where spans go, once for all tests of the process.
fn telemetry() -> &'static (SdkTracerProvider, Receiver) {
    static TELEMETRY: OnceLock<(SdkTracerProvider, Receiver)> = OnceLock::new();
    TELEMETRY.get_or_init(|| {
        let receiver = Receiver::start();
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(Poster)
            .with_protocol(Protocol::HttpJson)
            .with_endpoint(format!("http://{}/v1/traces", receiver.address))
            .build();
        let provider =
            SdkTracerProvider::builder().with_batch_exporter(exporter.expect("set up well")).build();
        global::set_tracer_provider(provider.clone());
        // The bridge for spans of `tracing`, without the worker's own span of each attempt.
        let bridge = tracing_opentelemetry::layer().with_tracer(provider.tracer("handlers"));
        let own = filter_fn(|span| span.target() != "windlass_worker::attempts");
        tracing_subscriber::registry().with(bridge.with_filter(own)).init();
        (provider, receiver)
    })
}

/// Runs jobs until so many have ended, and answers what the store knows of them.
async fn run(client: &Client, count: u64) {
    let worker = Worker::new(client).handle(order).handle(invoice).handle_blocking(mail);
    let worker = worker.start().expect("set up well");
    let ended = async {
        loop {
            let counts = client.queue("default").expect("a name").counts().await.expect("answers");
            if counts.of(JobState::Completed) + counts.of(JobState::Dead) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), ended).await.expect("they end");
    worker.stop().await;
}

fn one<'a>(spans: &'a [Span], name: &str, kind: &str) -> &'a Span {
    let is_it =
        |span: &&Span| span.name == name && span.get("messaging.windlass.kind").as_deref() == Some(kind);
    let found: Vec<_> = spans.iter().filter(is_it).collect();
    assert_eq!(found.len(), 1, "{name} of {kind} among {spans:#?}");
    found[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_from_a_request_to_the_jobs_that_come_of_it() {
    let (provider, receiver) = telemetry();
    let client = windlass::open("memory:").await.expect("opens");
    let tracer = global::tracer("a server");
    let request = tracer.span_builder("POST /orders").with_kind(SpanKind::Server).start(&tracer);
    let context = Context::new().with_span(request);
    let (trace, request) = {
        let span = context.span().span_context().clone();
        (span.trace_id().to_string(), span.span_id().to_string())
    };
    let handle = {
        use opentelemetry::trace::FutureExt;
        let enqueue = async { client.enqueue(Order { fails: false }).await };
        enqueue.with_context(context.clone()).await.expect("accepted")
    };
    context.span().end();
    drop(context);
    run(&client, 3).await;
    provider.force_flush().expect("sent");
    let spans = receiver.spans(&trace);
    let enqueued = one(&spans, "enqueue default", "order");
    assert_eq!((&enqueued.parent, enqueued.kind), (&request, 4), "a producer, in the request");
    let claimed = one(&spans, "claim default", "order");
    assert_eq!((&claimed.parent, claimed.kind), (&enqueued.id, 3));
    let ran = one(&spans, "process default", "order");
    assert_eq!((&ran.parent, ran.kind), (&enqueued.id, 5), "a consumer");
    assert!(claimed.starts <= claimed.ends && claimed.ends <= ran.starts + 1_000_000, "{claimed:?} {ran:?}");
    let passed_on = format!("00-{trace}-{}-01", ran.id);
    assert_eq!(handle.output().await.expect("completed"), Some(passed_on));
    let charge = spans.iter().find(|span| span.name == "charge").expect("the span of the handler");
    assert_eq!(charge.parent, ran.id);
    let child = one(&spans, "enqueue default", "invoice");
    assert_eq!(child.parent, charge.id);
    assert_eq!(one(&spans, "process default", "invoice").parent, child.id);
    assert_eq!(one(&spans, "process default", "mail").parent, ran.id, "what follows is written with its end");
    let settled = spans.iter().filter(|span| span.name == "settle default").collect::<Vec<_>>();
    assert!(settled.iter().any(|span| span.parent == ran.id), "{settled:?}");
    let jobs: u64 = settled
        .iter()
        .map(|span| {
            span.get("messaging.batch.message_count").expect("a number").parse::<u64>().expect("a number")
        })
        .sum();
    assert_eq!(jobs, 3, "each once");
    assert_eq!(settled.iter().map(|span| span.links.len() + 1).sum::<usize>(), 3);
    for (key, value) in [
        ("messaging.system", "windlass"),
        ("messaging.destination.name", "default"),
        ("messaging.operation.type", "process"),
        ("messaging.message.id", &handle.id().to_string()),
        ("messaging.windlass.attempt", "1"),
    ] {
        assert_eq!(ran.get(key).as_deref(), Some(value), "{key}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_header_is_enough_and_what_failed_says_so() {
    let (provider, receiver) = telemetry();
    let client = windlass::open("memory:").await.expect("opens");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let header = format!("00-{trace}-b7ad6b7169203331-01");
    client.enqueue(Order { fails: true }).traceparent(&header).await.expect("accepted");
    run(&client, 1).await;
    provider.force_flush().expect("sent");
    let spans = receiver.spans(trace);
    assert_eq!(one(&spans, "enqueue default", "order").parent, "b7ad6b7169203331");
    let ran = one(&spans, "process default", "order");
    assert_eq!(ran.get("error.type").as_deref(), Some("error"), "and not what it says");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_that_is_not_sampled_is_passed_on_and_makes_no_span() {
    let (provider, receiver) = telemetry();
    let client = windlass::open("memory:").await.expect("opens");
    let trace = "11111111111111111111111111111111";
    let header = format!("00-{trace}-b7ad6b7169203331-00");
    let context = Trace::new(&header, Some("vendor=1".into())).expect("a trace");
    let handle = client.enqueue(Order { fails: false }).trace(context.clone()).await.expect("accepted");
    let stranger = client.enqueue(Invoice).traceparent("not one").await.expect("accepted all the same");
    run(&client, 4).await;
    assert_eq!(handle.output().await.expect("completed"), Some(header));
    let job = client.job(handle.id()).await.expect("answers").expect("there");
    assert_eq!(job.spec.trace, Some(context), "as it was handed in");
    assert_eq!(stranger.output().await.expect("completed"), None);
    provider.force_flush().expect("sent");
    assert!(receiver.spans(trace).is_empty());
}
