//! Events of `tracing` as lines of the attempt in whose span they are.
//!
//! The worker makes a span for each attempt. While it does, the attempt lies where the layer finds it, and the layer keeps it
//! with the span: so events are found wherever the span is entered, also on other threads.

#[cfg(feature = "capture")]
mod layer;

#[cfg(feature = "capture")]
pub use layer::CaptureLayer;
#[cfg(feature = "capture")]
pub(crate) use layer::introduced;

/// Makes the span of an attempt.
#[cfg(not(feature = "capture"))]
pub(crate) fn introduced(_ctx: &crate::ctx::Ctx, make: impl FnOnce() -> tracing::Span) -> tracing::Span {
    make()
}
