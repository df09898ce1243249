//! The settings of a batcher, checked before it is made.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Runtime;

use super::driver::Driver;
use super::pending::{Limits, Pending};
use super::{BatchError, Batcher};
use crate::error::ConfigError;

/// Makes a [`Batcher`]. Without any setting: natural batching, up to 1,000 items in a batch, one flush at a time,
/// and at most 10,000 items that wait.
#[must_use]
pub struct BatchBuilder<T> {
    limits: Limits<T>,
    in_flight: usize,
    capacity: usize,
    runtime: Option<Runtime>,
}

impl<T: Send + 'static> BatchBuilder<T> {
    pub(super) fn new() -> Self {
        let limits = Limits { size: 1_000, bytes: None, linger: None };
        Self { limits, in_flight: 1, capacity: 10_000, runtime: None }
    }

    /// Flushes as soon as so many items wait; no batch is bigger.
    pub fn size(mut self, size: usize) -> Self {
        self.limits.size = size;
        self
    }

    /// Flushes as soon as the items that wait have so many bytes together; no batch has more, unless a single item
    /// does. The function says how many an item has.
    pub fn bytes(mut self, bytes: usize, weigh: impl Fn(&T) -> usize + Send + Sync + 'static) -> Self {
        self.limits.bytes = Some((bytes, Box::new(weigh)));
        self
    }

    /// Lets items wait for company, for this long at most.
    pub fn linger(mut self, linger: Duration) -> Self {
        self.limits.linger = Some(linger);
        self
    }

    /// At most so many flushes are under way at once.
    pub fn in_flight(mut self, flushes: usize) -> Self {
        self.in_flight = flushes;
        self
    }

    /// At most so many items wait to be flushed; beyond that, callers wait. If these are fewer than a batch may have,
    /// a batch is full with them.
    pub fn capacity(mut self, items: usize) -> Self {
        self.capacity = items;
        self
    }

    /// Runs on this runtime, instead of the one that the batcher is built in.
    pub fn runtime(mut self, runtime: Runtime) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// A batcher that hands its items to this function, which answers one result per item, in order. Errors of an
    /// item are results: answer a `Vec<Result<_, _>>`.
    pub fn build<R, F, Flush>(self, flush: Flush) -> Result<Batcher<T, R>, ConfigError>
    where
        R: Send + 'static,
        F: Future<Output = Vec<R>> + Send + 'static,
        Flush: Fn(Vec<T>) -> F + Send + Sync + 'static,
    {
        let bytes = self.limits.bytes.as_ref().map(|(bytes, _)| *bytes);
        if self.limits.size == 0 || bytes == Some(0) {
            return Err(ConfigError::NoBatch);
        }
        if self.in_flight == 0 {
            return Err(ConfigError::NoConcurrency);
        }
        if self.capacity == 0 {
            return Err(ConfigError::NoCapacity);
        }
        let here = || Runtime::try_current().map_err(|_| ConfigError::NoRuntime);
        let runtime = self.runtime.map_or_else(here, Ok)?;
        // Items that fill all room would linger for company that cannot come.
        let limits = Limits { size: self.limits.size.min(self.capacity), ..self.limits };
        let pending = Pending::new(limits, self.capacity);
        runtime.spawn(Driver::new(Arc::clone(&pending), self.in_flight, flush));
        Ok(Batcher::of(pending))
    }

    /// The same, for a function that succeeds or fails as a whole: every caller gets a clone of its result.
    ///
    /// ```
    /// # use windlass_local::Batcher;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let log = Batcher::builder().build_whole(|lines: Vec<&str>| async move {
    ///     if lines.contains(&"bad") { Err("cannot be written") } else { Ok(()) }
    /// })?;
    /// assert_eq!(log.add("good").await?, Ok(()));
    /// assert_eq!(log.add("bad").await?, Err("cannot be written"));
    /// # Ok(()) }
    /// ```
    pub fn build_whole<R, F, Flush>(self, flush: Flush) -> Result<Batcher<T, R>, ConfigError>
    where
        R: Clone + Send + 'static,
        F: Future<Output = R> + Send + 'static,
        Flush: Fn(Vec<T>) -> F + Send + Sync + 'static,
    {
        self.build(move |items| {
            let count = items.len();
            let flush = flush(items);
            async move { vec![flush.await; count] }
        })
    }
}

impl<T> fmt::Debug for BatchBuilder<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BatchBuilder").finish_non_exhaustive()
    }
}

/// What is said to each item of a flush that answered too little.
pub(super) fn unanswered(items: usize, answered: usize) -> BatchError {
    BatchError::Unanswered { items, answered }
}
