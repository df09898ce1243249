//! How work ends when it does not end with its own result, and why work is not taken in.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use thiserror::Error;

/// Why work has no result of its own. Every [`Handle`](crate::Handle) settles, with a result or with this.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// It panicked, saying this.
    #[error("the work panicked: {0}")]
    Panicked(Box<str>),
    /// It ran longer than it was given.
    #[error("the work timed out after {0:?}")]
    TimedOut(Duration),
    /// It was cancelled, by its handle, its id or its token.
    #[error("the work was cancelled")]
    Cancelled,
    /// The queue was cleared before it started.
    #[error("the work was cleared from the queue before it started")]
    Cleared,
    /// The queue was aborted.
    #[error("the queue was aborted before the work was done")]
    Aborted,
    /// The queue had no room for it.
    #[error("the queue is full: wait for room with push, or try again later")]
    Full,
    /// The queue was closed, or its runtime has ended, before it was done.
    #[error("the queue was closed before the work was done")]
    Closed,
}

impl Error {
    /// The kind of this error, without what it carries.
    pub fn kind(&self) -> Why {
        match self {
            Self::Panicked(_) => Why::Panicked,
            Self::TimedOut(_) => Why::TimedOut,
            Self::Cancelled => Why::Cancelled,
            Self::Cleared => Why::Cleared,
            Self::Aborted => Why::Aborted,
            Self::Full => Why::Full,
            Self::Closed => Why::Closed,
        }
    }
}

/// The kinds of failure, as [`Event::Failed`](crate::Event::Failed) names them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Why {
    /// It ended with an `Err` of its own, and was added with `add_fallible` or the like.
    Own,
    /// It panicked.
    Panicked,
    /// It ran longer than it was given.
    TimedOut,
    /// It was cancelled.
    Cancelled,
    /// The queue was cleared before it started.
    Cleared,
    /// The queue was aborted.
    Aborted,
    /// The queue had no room for it.
    Full,
    /// The queue was closed, or its runtime has ended, before it was done.
    Closed,
}

impl Why {
    /// The error of work that was ended from outside, or not taken in.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Full => Error::Full,
            Self::Cleared => Error::Cleared,
            Self::Aborted => Error::Aborted,
            Self::Closed => Error::Closed,
            _ => Error::Cancelled,
        }
    }
}

/// Work that was not taken in, given back.
#[derive(Clone, PartialEq, Eq, Error)]
pub enum Refused<F> {
    /// There was no room.
    #[error("the queue is full: wait for room with push, or try again later")]
    Full(F),
    /// The queue takes nothing in any more.
    #[error("the queue is closed")]
    Closed(F),
}

impl<F> Refused<F> {
    /// The refusal of work for which there was no place, for this reason.
    #[cold]
    pub(crate) fn new(error: &Error, work: F) -> Self {
        if *error == Error::Full { Self::Full(work) } else { Self::Closed(work) }
    }

    /// What was refused.
    pub fn into_inner(self) -> F {
        match self {
            Self::Full(work) | Self::Closed(work) => work,
        }
    }
}

// Futures cannot be shown, and a refusal has to be all the same.
impl<F> std::fmt::Debug for Refused<F> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
        })
    }
}

/// A setting that makes no sense.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// Nothing could ever run.
    #[error("the concurrency is 0: it has to be at least 1")]
    NoConcurrency,
    /// Nothing could ever wait.
    #[error("the capacity is 0: it has to be at least 1")]
    NoCapacity,
    /// Nothing with a key could ever run.
    #[error("the limit per key is 0: it has to be at least 1")]
    NoKeyLimit,
    /// Nothing could ever start.
    #[error("the rate allows nothing: it has to allow at least 1 per interval")]
    NoRate,
    /// Every instant would be a new interval.
    #[error("the interval of the rate is zero: it has to be longer")]
    NoInterval,
    /// Producers would be told to go on while they are told to stop.
    #[error("the low watermark is {low} and the high one {high}: low has to be below high")]
    Watermarks {
        /// Where producers go on.
        low: usize,
        /// Where producers stop.
        high: usize,
    },
    /// Producers would never be told to stop.
    #[error(
        "the high watermark is {high} and the capacity {capacity}: so many never wait, it has to be at most that"
    )]
    HighWatermark {
        /// Where producers stop.
        high: usize,
        /// How many may wait.
        capacity: usize,
    },
    /// A batch could never hold anything.
    #[error("a batch may hold 0 items or bytes: it has to be at least 1")]
    NoBatch,
    /// There is no runtime to run anything.
    #[error("no tokio runtime here: build the queue inside of one, or hand one over with runtime()")]
    NoRuntime,
}

/// The text of a panic.
pub(crate) fn panic_text(payload: &(dyn std::any::Any + Send)) -> Box<str> {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no text").into()
}

/// Drops a value of the user's that is not wanted. A panic in that must not hit what comes next.
#[inline]
pub(crate) fn drop_quietly<T>(unwanted: T) {
    if std::mem::needs_drop::<T>() {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(unwanted)));
    }
}
