//! Spans of OpenTelemetry around what is done for jobs, by the conventions for messaging, version 1.44. Without the feature
//! `opentelemetry` all of it is empty; the context that a job was handed in with is kept and passed on in any case.
//!
//! What must hold: a job whose trace is not sampled costs a branch. Names of spans and attributes are stated in `trace/spans.rs`.

#[cfg(not(feature = "opentelemetry"))]
mod off;
#[cfg(feature = "opentelemetry")]
mod on;
#[cfg(feature = "opentelemetry")]
mod spans;

use windlass_core::NewJob;
use windlass_core::job::Trace;

#[cfg(not(feature = "opentelemetry"))]
pub(crate) use off::{AttemptSpan, Settling, Traced, attach, capture, send, send_all};
#[cfg(feature = "opentelemetry")]
pub(crate) use on::{AttemptSpan, Settling, Traced, attach, capture, send, send_all};

/// Gives jobs the trace of the attempt that they come from, unless they have one.
pub(crate) fn inherit<'a>(trace: Option<&Trace>, jobs: impl IntoIterator<Item = &'a mut NewJob>) {
    let Some(trace) = trace else { return };
    for job in jobs {
        job.spec.trace.get_or_insert_with(|| trace.clone());
    }
}
