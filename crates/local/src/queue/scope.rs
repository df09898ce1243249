//! Queues that spawn nothing: the work runs where the driver is polled, and may borrow what is there.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;

use crate::error::ConfigError;
use crate::queue::Queue;
use crate::queue::builder::Builder;
use crate::runner::Runner;
use crate::shared::Shared;
use crate::source::RunnerSource;
use crate::work::{AsItIs, Borrowed};

/// Runs the work of a queue, wherever it is polled. Ends when the queue is closed and all is done. If it is dropped
/// before, everything that is left settles with [`Error::Closed`](crate::Error::Closed).
#[must_use = "nothing in the queue runs unless its driver is polled"]
pub struct Driver<'env> {
    shared: Arc<Shared<Borrowed<'env>>>,
    runners: FuturesUnordered<Runner<Borrowed<'env>, AsItIs>>,
}

impl Builder {
    /// A queue that spawns nothing, and the driver that runs its work: on any executor, and with futures that borrow
    /// for `'env`. Timeouts and rates need tokio's timer.
    ///
    /// ```
    /// # use windlass_local::{ConfigError, Queue};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), ConfigError> {
    /// let words = vec!["one".to_owned(), "three".to_owned()];
    /// let (queue, driver) = Queue::builder().concurrency(2).build_driven()?;
    /// let lengths: Vec<_> = words.iter().map(|word| queue.add(async move { word.len() })).collect();
    /// drop(queue);                                         // so that the driver has an end
    /// driver.await;
    /// for (length, word) in lengths.into_iter().zip(&words) {
    ///     assert_eq!(length.await, Ok(word.len()));
    /// }
    /// # Ok(()) }
    /// ```
    pub fn build_driven<'env>(self) -> Result<(Queue<Borrowed<'env>>, Driver<'env>), ConfigError> {
        self.check()?;
        let shared = Shared::new(self.settings, RunnerSource::driven());
        let driver = Driver { shared: Arc::clone(&shared), runners: FuturesUnordered::new() };
        Ok((Queue::of(shared), driver))
    }

    /// Runs a function that has a queue for work which borrows, and then what is left in that queue. Nothing is
    /// spawned; everything runs where this is awaited, interleaved and not in parallel. Once the function has ended, the
    /// queue takes nothing in any more and cannot be paused; if it is paused then, what waits is
    /// [closed](crate::Error::Closed).
    ///
    /// ```
    /// # use windlass_local::{ConfigError, Queue};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), ConfigError> {
    /// let words = vec!["one".to_owned(), "three".to_owned()];
    /// let lengths = Queue::builder()
    ///     .concurrency(2)
    ///     .scope(async |queue| queue.add_all(words.iter().map(async |word| word.len())).await)
    ///     .await?;
    /// assert_eq!(lengths, [Ok(3), Ok(5)]);
    /// # Ok(()) }
    /// ```
    pub async fn scope<'env, R>(
        self,
        body: impl AsyncFnOnce(Queue<Borrowed<'env>>) -> R,
    ) -> Result<R, ConfigError> {
        let (queue, mut driver) = self.build_driven()?;
        let mut body = std::pin::pin!(body(queue.clone()));
        let mut result = None;
        let both = std::future::poll_fn(|context| {
            if result.is_none()
                && let Poll::Ready(output) = body.as_mut().poll(context)
            {
                result = Some(output);
                queue.shared.abandon();
            }
            let is_done = Pin::new(&mut driver).poll(context).is_ready();
            if is_done { result.take().map_or(Poll::Pending, Poll::Ready) } else { Poll::Pending }
        });
        Ok(both.await)
    }
}

impl Future for Driver<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            while let Poll::Ready(request) = this.shared.source.poll_request(context) {
                request.tokens.iter().for_each(|token| this.shared.cancel_by(token));
                for _ in 0..request.runners {
                    this.runners.push(Runner::new(Arc::clone(&this.shared), AsItIs));
                }
            }
            match Pin::new(&mut this.runners).poll_next(context) {
                Poll::Ready(Some(())) => {}
                Poll::Ready(None) if this.shared.lock().is_over() => return Poll::Ready(()),
                Poll::Ready(None) | Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl Drop for Driver<'_> {
    fn drop(&mut self) {
        self.shared.end();
    }
}

impl fmt::Debug for Driver<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Driver").finish_non_exhaustive()
    }
}
