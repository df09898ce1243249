//! A subscription to the events of a queue.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::Stream;

use crate::machine::feed::Event;
use crate::queue::Queue;
use crate::shared::Shared;
use crate::work::Work;

/// How many events are kept for a subscriber that does not read them.
const KEPT: usize = 1_024;

/// The events of a queue, from the moment of subscribing on: a stream, which ends when the queue is closed and
/// everything in it is done. A subscriber that falls 1,024 events behind loses the oldest and gets
/// [`Event::Lost`].
#[must_use = "events are kept for a subscription until it is dropped"]
pub struct Events<W: Work> {
    shared: Arc<Shared<W>>,
    number: u64,
}

impl<W: Work> Queue<W> {
    /// Subscribes to what happens in this queue. Without subscribers, events cost nothing.
    pub fn events(&self) -> Events<W> {
        let number = self.shared.lock().subscribe(KEPT);
        Events { shared: Arc::clone(&self.shared), number }
    }
}

impl<W: Work> Events<W> {
    /// The next event; `None` when the queue is over.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &Context<'_>) -> Poll<Option<Event>> {
        let mut stale = None;
        self.shared.lock().poll_event(self.number, context, &mut stale)
    }
}

impl<W: Work> Stream for Events<W> {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(context)
    }
}

impl<W: Work> Drop for Events<W> {
    fn drop(&mut self) {
        let stale = self.shared.lock().unsubscribe(self.number);
        drop(stale);
    }
}

impl<W: Work> fmt::Debug for Events<W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Events").finish_non_exhaustive()
    }
}
