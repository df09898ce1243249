//! Flushes what callers put in: the one future that a batcher spawns. Flushes run inside of it, so many at once as
//! allowed.

use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, Stream};
use tokio::time::{Instant, Sleep, sleep_until};

use super::BatchError;
use super::builder::unanswered;
use super::pending::{Batch, Cut, Pending};
use crate::error::{drop_quietly, panic_text};

/// Runs until the batcher is closed and everything is flushed.
pub(super) struct Driver<T, R, Flush> {
    pending: Arc<Pending<T, R>>,
    flush: Arc<Flush>,
    in_flight: usize,
    flights: FuturesUnordered<Flight>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// A flush that is under way. Its end is the number of its first item.
struct Flight(Option<Pin<Box<dyn Future<Output = u64> + Send>>>);

impl Future for Flight {
    type Output = u64;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        self.0.as_mut().map_or(Poll::Pending, |flight| flight.as_mut().poll(context))
    }
}

impl Drop for Flight {
    /// A panic in here would keep the other flights from being dropped, and their callers waiting for ever.
    fn drop(&mut self) {
        drop_quietly(self.0.take());
    }
}

impl<T, R, F, Flush> Driver<T, R, Flush>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Future<Output = Vec<R>> + Send + 'static,
    Flush: Fn(Vec<T>) -> F + Send + Sync + 'static,
{
    pub(super) fn new(pending: Arc<Pending<T, R>>, in_flight: usize, flush: Flush) -> Self {
        Self { pending, flush: Arc::new(flush), in_flight, flights: FuturesUnordered::new(), timer: None }
    }

    fn poll_due(&mut self, due: Instant, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.timer {
            Some(timer) if timer.deadline() != due => timer.as_mut().reset(due),
            Some(_) => {}
            None => self.timer = Some(Box::pin(sleep_until(due))),
        }
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }
}

impl<T, R, F, Flush> Future for Driver<T, R, Flush>
where
    T: Send + 'static,
    R: Send + 'static,
    F: Future<Output = Vec<R>> + Send + 'static,
    Flush: Fn(Vec<T>) -> F + Send + Sync + 'static,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            while let Poll::Ready(Some(first)) = Pin::new(&mut this.flights).poll_next(context) {
                this.pending.end(first);
            }
            match this.pending.cut(this.flights.len() < this.in_flight, context.waker()) {
                Cut::Flush(mut batch) => {
                    batch.make_room();
                    let flight = fly(Arc::clone(&this.flush), batch);
                    this.flights.push(Flight(Some(Box::pin(flight))));
                }
                Cut::Wait(None) => return Poll::Pending,
                Cut::Wait(Some(due)) => {
                    if this.poll_due(due, context).is_pending() {
                        return Poll::Pending;
                    }
                }
                Cut::End if this.flights.is_empty() => return Poll::Ready(()),
                Cut::End => return Poll::Pending,
            }
        }
    }
}

impl<T, R, Flush> Drop for Driver<T, R, Flush> {
    /// Also when the runtime ends: then no caller may go on waiting.
    fn drop(&mut self) {
        self.pending.desert();
    }
}

/// Flushes one batch and tells every caller its own outcome.
async fn fly<T, R, F, Flush>(flush: Arc<Flush>, batch: Batch<T, R>) -> u64
where
    F: Future<Output = Vec<R>>,
    Flush: Fn(Vec<T>) -> F,
{
    let Batch { first, items, answers, .. } = batch;
    let count = items.len();
    let outcome = AssertUnwindSafe(async { flush(items).await }).catch_unwind().await;
    let (results, otherwise) = match outcome {
        Ok(results) => {
            let answered = results.len();
            (results, unanswered(count, answered))
        }
        Err(payload) => {
            let text = panic_text(&*payload);
            drop_quietly(payload);
            (Vec::new(), BatchError::Panicked(text))
        }
    };
    let mut results = results.into_iter();
    for answer in answers {
        let result = results.next().ok_or_else(|| otherwise.clone());
        // The caller may have gone away, or never have wanted to know; what it asked for is done all the same.
        match answer {
            Some(answer) => drop_quietly(answer.send(result)),
            None => drop_quietly(result),
        }
    }
    results.for_each(drop_quietly);
    first
}
