//! The spans: names, kinds and attributes, and how a stored context becomes one of OpenTelemetry.

use std::str::FromStr;
use std::time::{Instant, SystemTime};

use opentelemetry::trace::{
    SpanBuilder, SpanContext, SpanId, SpanKind, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue, global};
use windlass_core::job::Trace;
use windlass_core::{JobId, Name};

/// An operation of the conventions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Enqueue,
    Claim,
    Run,
    Settle,
}

impl Operation {
    const fn name(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Claim => "claim",
            Self::Run => "process",
            Self::Settle => "settle",
        }
    }

    const fn kind(self) -> SpanKind {
        match self {
            Self::Enqueue => SpanKind::Producer,
            Self::Claim | Self::Settle => SpanKind::Client,
            Self::Run => SpanKind::Consumer,
        }
    }

    const fn type_name(self) -> &'static str {
        match self {
            Self::Enqueue => "send",
            Self::Claim => "receive",
            Self::Run => "process",
            Self::Settle => "settle",
        }
    }

    /// A span of this operation on a queue, not started yet.
    pub(super) fn span(self, queue: &Name, more: impl IntoIterator<Item = KeyValue>) -> SpanBuilder {
        let attributes = [
            KeyValue::new("messaging.system", "windlass"),
            KeyValue::new("messaging.destination.name", queue.to_string()),
            KeyValue::new("messaging.operation.name", self.name()),
            KeyValue::new("messaging.operation.type", self.type_name()),
        ];
        let name = format!("{} {queue}", self.name());
        SpanBuilder::from_name(name)
            .with_kind(self.kind())
            .with_attributes(attributes.into_iter().chain(more))
    }
}

/// What is said of one job.
pub(super) fn of_job(id: JobId, kind: &Name, payload: usize) -> [KeyValue; 3] {
    [
        KeyValue::new("messaging.message.id", id.to_string()),
        KeyValue::new("messaging.message.body.size", i64::try_from(payload).unwrap_or(i64::MAX)),
        KeyValue::new("messaging.windlass.kind", kind.to_string()),
    ]
}

/// How many jobs a call is about.
pub(super) fn of_batch(jobs: usize) -> KeyValue {
    KeyValue::new("messaging.batch.message_count", i64::try_from(jobs).unwrap_or(i64::MAX))
}

/// Starts a span below a context. With no provider set, it is that context once more.
pub(super) fn start(span: SpanBuilder, parent: &Context) -> Context {
    let scope = InstrumentationScope::builder("windlass").with_version(env!("CARGO_PKG_VERSION")).build();
    let tracer = global::tracer_with_scope(scope);
    parent.with_span(tracer.build_with_context(span, parent))
}

/// The context that a job was stored with.
pub(super) fn context(trace: &Trace) -> Context {
    let id = (TraceId::from_hex(trace.trace_id()), SpanId::from_hex(trace.span_id()));
    let (Ok(trace_id), Ok(span_id)) = id else { return Context::new() };
    let flags = TraceFlags::new(trace.flags());
    let state = trace.state().and_then(|state| TraceState::from_str(state).ok()).unwrap_or_default();
    Context::new().with_remote_span_context(SpanContext::new(trace_id, span_id, flags, true, state))
}

/// The text to store of a context; nothing where it has none.
pub(super) fn stored(context: &SpanContext) -> Option<Trace> {
    if !context.is_valid() {
        return None;
    }
    let (trace, span) = (context.trace_id(), context.span_id());
    let parent = format!("00-{trace:032x}-{span:016x}-{:02x}", context.trace_flags().to_u8());
    Trace::of_headers(&parent, Some(context.trace_state().header().as_str()))
}

/// An instant on the clock of the system.
pub(super) fn wall(at: Instant) -> SystemTime {
    let (now, ago) = (SystemTime::now(), at.elapsed());
    now.checked_sub(ago).unwrap_or(now)
}
