//! The layer that a program adds to its subscriber.

use std::cell::RefCell;
use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Span, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::attempt_log::{Cut, LogLevel};
use crate::ctx::{Ctx, WeakCtx};

/// Puts events of `tracing` that a handler emits into the log of its attempt, as [`Ctx::log`] does. Add it to the program's
/// subscriber, with a filter of its own if not everything is to be kept:
///
/// ```
/// use tracing_subscriber::filter::LevelFilter;
/// use tracing_subscriber::prelude::*;
/// use windlass_worker::CaptureLayer;
///
/// tracing_subscriber::registry()
///     .with(tracing_subscriber::fmt::layer())
///     .with(CaptureLayer::new().with_filter(LevelFilter::INFO))
///     .init();
/// ```
///
/// A line is the text of the event and its fields. Events belong to the innermost attempt whose span they are in: also those of
/// other tasks and threads that were given the span, as with `.instrument(Span::current())`. Events of Windlass itself are left out, and
/// those of a batch handler, which runs several attempts in one call: there, use [`Ctx::log`] of the item.
///
/// The span of an attempt is an `info` span of the target `windlass_worker::attempts`. A filter that turns it off, as `warn` for
/// everything does, leaves nothing to capture by.
#[derive(Debug, Clone, Copy, Default)]
pub struct CaptureLayer {
    _more_to_come: (),
}

thread_local! {
    /// The attempt whose span is being made on this thread.
    static INTRODUCED: RefCell<Option<WeakCtx>> = const { RefCell::new(None) };
}

/// Makes the span of an attempt, so that layers find the attempt.
pub(crate) fn introduced(ctx: &Ctx, make: impl FnOnce() -> Span) -> Span {
    /// Gone also if a subscriber panics.
    struct Introduction;
    impl Drop for Introduction {
        fn drop(&mut self) {
            INTRODUCED.set(None);
        }
    }
    INTRODUCED.set(Some(ctx.downgrade()));
    let _introduction = Introduction;
    make()
}

/// Where the span of an attempt is made.
const TARGET: &str = "windlass_worker::attempts";
/// Crates whose events are not the handler's.
const OWN: [&str; 9] = [
    "windlass",
    "windlass_core",
    "windlass_local",
    "windlass_store_memory",
    "windlass_store_postgres",
    "windlass_store_redis",
    "windlass_store_server",
    "windlass_store_sqlite",
    "windlass_worker",
];

impl CaptureLayer {
    /// A layer that captures every event that reaches it.
    pub fn new() -> Self {
        Self::default()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for CaptureLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        if attributes.metadata().target() != TARGET {
            return;
        }
        let introduced = INTRODUCED.with_borrow(Clone::clone);
        if let (Some(attempt), Some(span)) = (introduced, context.span(id)) {
            span.extensions_mut().replace(attempt);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let target = event.metadata().target();
        if OWN.contains(&target.split("::").next().unwrap_or(target)) {
            return;
        }
        let mut spans = context.event_scope(event).into_iter().flatten();
        let attempt = spans.find_map(|span| span.extensions().get::<WeakCtx>().cloned());
        // An attempt that has gone has ended.
        let Some(ctx) = attempt.and_then(|attempt| attempt.upgrade()) else { return };
        let mut text = Text { cut: Cut::new(), fields: Cut::new() };
        event.record(&mut text);
        ctx.say(level(*event.metadata().level()), text.into_text());
    }
}

fn level(level: Level) -> LogLevel {
    match level {
        Level::ERROR => LogLevel::Error,
        Level::WARN => LogLevel::Warn,
        Level::INFO => LogLevel::Info,
        Level::DEBUG => LogLevel::Debug,
        Level::TRACE => LogLevel::Trace,
    }
}

/// The text of an event, and its fields behind it.
struct Text {
    cut: Cut,
    fields: Cut,
}

impl Text {
    fn into_text(self) -> String {
        let Self { mut cut, fields } = self;
        if !fields.is_empty() {
            let space = if cut.is_empty() { "" } else { " " };
            // Writing into memory does not fail.
            let _ = write!(cut, "{space}{}", fields.into_text());
        }
        cut.into_text()
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        // A value that fails to be written leaves what came before it.
        let _ = match name {
            "message" => write!(self.cut, "{value:?}"),
            // What a bridge from the crate `log` adds.
            _ if name.starts_with("log.") => Ok(()),
            _ => {
                let space = if self.fields.is_empty() { "" } else { " " };
                write!(self.fields, "{space}{name}={value:?}")
            }
        };
    }
}
