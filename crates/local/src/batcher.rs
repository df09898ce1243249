//! The batch collector: items come one by one, go out together, and each caller learns what became of its own.

mod builder;
mod driver;
mod pending;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use thiserror::Error;
use tokio::sync::oneshot;

use crate::error::Refused;
pub use builder::BatchBuilder;
use pending::Pending;

/// Collects items and hands them to a function many at a time.
///
/// Without a [linger](BatchBuilder::linger), batching is natural: a lone item goes out at once, and what arrives
/// while a flush is under way goes out together with the next one. With it, items wait for company, until there are
/// enough or the first has waited long enough. Clones are the same batcher; when the last one is dropped, what is
/// left is flushed.
///
/// ```
/// # use std::time::Duration;
/// # use windlass_local::{Batcher, ConfigError};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let inserts = Batcher::builder()
///     .size(500)
///     .linger(Duration::from_millis(5))
///     .build(|rows: Vec<u32>| async move {
///         // INSERT … and answer one result per row, in the same order.
///         rows.into_iter().map(|row| row + 1_000).collect()
///     })?;
/// let (a, b) = tokio::join!(inserts.add(1), inserts.add(2));     // one INSERT
/// assert_eq!((a?, b?), (1_001, 1_002));
/// # Ok(()) }
/// ```
pub struct Batcher<T: Send + 'static, R: Send + 'static> {
    pending: Arc<Pending<T, R>>,
    owner: Arc<Owner<T, R>>,
}

/// Counts the clones of a batcher, apart from its driver.
struct Owner<T: Send + 'static, R: Send + 'static>(Arc<Pending<T, R>>);

impl<T: Send + 'static, R: Send + 'static> Drop for Owner<T, R> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Why an item has no outcome of its own.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// The batcher was closed before it took the item, or its runtime has ended.
    #[error("the batcher was closed before the item was flushed")]
    Closed,
    /// The flush panicked, saying this. Whether it had an effect is unknown.
    #[error("the flush panicked: {0}")]
    Panicked(Box<str>),
    /// The flush answered fewer results than it had items, and none for this one.
    #[error(
        "the flush answered {answered} results for {items} items: it has to answer one for each, in order"
    )]
    Unanswered {
        /// How many items it had.
        items: usize,
        /// How many results it answered.
        answered: usize,
    },
}

impl<T: Send + 'static> Batcher<T, ()> {
    /// All settings of a batcher.
    pub fn builder() -> BatchBuilder<T> {
        BatchBuilder::new()
    }
}

impl<T: Send + 'static, R: Send + 'static> Batcher<T, R> {
    fn of(pending: Arc<Pending<T, R>>) -> Self {
        let owner = Arc::new(Owner(Arc::clone(&pending)));
        Self { pending, owner }
    }

    /// Hands an item in, as soon as there is room, and waits for its own outcome. Once it is in, it is flushed even
    /// if this future is dropped.
    pub async fn add(&self, item: T) -> Result<R, BatchError> {
        match self.push(item).await {
            Ok(outcome) => outcome.await,
            Err(_) => Err(BatchError::Closed),
        }
    }

    /// Waits for room and hands an item in.
    pub async fn push(&self, item: T) -> Result<Outcome<R>, Refused<T>> {
        let Ok(permit) = Arc::clone(&self.pending.room).acquire_owned().await else {
            return Err(Refused::Closed(item));
        };
        let (answer, answered) = oneshot::channel();
        self.pending.put(item, Some(answer), permit).map_err(Refused::Closed)?;
        Ok(Outcome { answered })
    }

    /// Hands an item in if there is room, and gives it back if not.
    pub fn try_push(&self, item: T) -> Result<Outcome<R>, Refused<T>> {
        let permit = match Arc::clone(&self.pending.room).try_acquire_owned() {
            Ok(permit) => permit,
            Err(tokio::sync::TryAcquireError::NoPermits) => return Err(Refused::Full(item)),
            Err(tokio::sync::TryAcquireError::Closed) => return Err(Refused::Closed(item)),
        };
        let (answer, answered) = oneshot::channel();
        self.pending.put(item, Some(answer), permit).map_err(Refused::Closed)?;
        Ok(Outcome { answered })
    }

    /// Waits for room and hands an item in without waiting for its outcome.
    pub async fn post(&self, item: T) -> Result<(), Refused<T>> {
        match Arc::clone(&self.pending.room).acquire_owned().await {
            Ok(permit) => self.pending.put(item, None, permit).map_err(Refused::Closed),
            Err(_) => Err(Refused::Closed(item)),
        }
    }

    /// Flushes what is there without waiting for more, and waits until it is done.
    pub async fn flush(&self) -> Result<(), BatchError> {
        self.pending.flush().await.map_err(|_| BatchError::Closed)
    }

    /// Takes nothing in any more, flushes what is left and waits until it is done.
    pub async fn close(&self) -> Result<(), BatchError> {
        self.pending.close();
        self.flush().await
    }

    /// How many items wait to be flushed.
    pub fn waiting(&self) -> usize {
        self.pending.waiting()
    }
}

impl<T: Send + 'static, R: Send + 'static> Clone for Batcher<T, R> {
    fn clone(&self) -> Self {
        Self { pending: Arc::clone(&self.pending), owner: Arc::clone(&self.owner) }
    }
}

impl<T: Send + 'static, R: Send + 'static> fmt::Debug for Batcher<T, R> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Batcher").field("waiting", &self.waiting()).finish_non_exhaustive()
    }
}

/// A future of what became of one item.
#[derive(Debug)]
#[must_use = "awaiting it tells what became of the item"]
pub struct Outcome<R> {
    answered: oneshot::Receiver<Result<R, BatchError>>,
}

impl<R> Future for Outcome<R> {
    type Output = Result<R, BatchError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answered = Pin::new(&mut self.answered).poll(context);
        answered.map(|answered| answered.unwrap_or(Err(BatchError::Closed)))
    }
}
