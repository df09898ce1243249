//! A stream through a queue: a bounded number of its items is in the queue at a time, and results come out in the
//! order of the items, or as they are done.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_util::Stream;
use futures_util::stream::FuturesUnordered;
use pin_project_lite::pin_project;

use crate::error::Error;
use crate::handle::Handle;
use crate::queue::Queue;
use crate::queue::until::Place;
use crate::work::{Accepts, Delivers, Work};

/// How far a stream is read ahead at most, unless told otherwise.
const AHEAD_MAX: usize = 1_024;

impl<W: Work> Queue<W> {
    /// Runs every item of a stream through the queue. Results come out in the order of the items.
    ///
    /// ```
    /// # use windlass_local::{Queue, each};
    /// # #[tokio::main(flavor = "current_thread")] async fn main() {
    /// let queue = Queue::new(4);
    /// let mut squares = queue.map(each(1..=3), |number: u32| async move { number * number });
    /// let mut sum = 0;
    /// while let Some(square) = squares.next().await {
    ///     sum += square.expect("multiplying does not panic here");
    /// }
    /// assert_eq!(sum, 14);
    /// # }
    /// ```
    pub fn map<S, F, X>(&self, stream: S, function: F) -> Map<'_, S, F, X, W>
    where
        S: Stream,
        F: FnMut(S::Item) -> X,
        W: Accepts<X>,
    {
        Map { feeder: self.feeder(stream, function), handles: Handles::InOrder(VecDeque::new()) }
    }

    /// The same, with results as they are done.
    pub fn map_unordered<S, F, X>(&self, stream: S, function: F) -> Map<'_, S, F, X, W>
    where
        S: Stream,
        F: FnMut(S::Item) -> X,
        W: Accepts<X>,
    {
        Map { feeder: self.feeder(stream, function), handles: Handles::AsDone(FuturesUnordered::new()) }
    }

    fn feeder<S, F, X>(&self, stream: S, function: F) -> Feeder<'_, S, F, X, W> {
        let ahead = self.concurrency().saturating_mul(2).min(AHEAD_MAX);
        Feeder { stream, function, queue: self, ahead, stalled: None, is_ended: false }
    }
}

/// The items of an iterator as a stream, for [`Queue::map`].
pub fn each<I: IntoIterator>(items: I) -> impl Stream<Item = I::Item> + use<I> {
    futures_util::stream::iter(items)
}

pin_project! {
    /// Feeds a stream into a queue.
    struct Feeder<'queue, S, F, X, W: Work> {
        #[pin]
        stream: S,
        function: F,
        queue: &'queue Queue<W>,
        ahead: usize,
        // Waits for room.
        stalled: Option<(Place<'queue, W>, X)>,
        is_ended: bool,
    }
}

impl<S, F, X, W> Feeder<'_, S, F, X, W>
where
    S: Stream,
    F: FnMut(S::Item) -> X,
    W: Accepts<X>,
{
    /// Puts the next item into the queue; `None` if there is none.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Handle<W::Output, W>>> {
        let this = self.project();
        let refused = |error, input| Handle::refused(&error, W::pack(input).1);
        if this.stalled.is_none() {
            if *this.is_ended {
                return Poll::Ready(None);
            }
            let Some(item) = ready!(this.stream.poll_next(context)) else {
                *this.is_ended = true;
                return Poll::Ready(None);
            };
            let input = (this.function)(item);
            match Place::find(&this.queue.shared) {
                Ok(place) => return Poll::Ready(Some(this.queue.with().add_at(place, input))),
                Err(Error::Full) => *this.stalled = Some((Place::join(&this.queue.shared), input)),
                Err(error) => return Poll::Ready(Some(refused(error, input))),
            }
        }
        let (place, _) = this.stalled.as_mut().expect("it was just set, or had been");
        let promised = ready!(place.poll_promised(context));
        let (place, input) = this.stalled.take().expect("it is still there");
        Poll::Ready(Some(match promised {
            Ok(()) => this.queue.with().add_at(place, input),
            Err(error) => refused(error, input),
        }))
    }
}

/// What is in the queue, and in which order its results come out.
enum Handles<T, W: Delivers<T>> {
    InOrder(VecDeque<Handle<T, W>>),
    AsDone(FuturesUnordered<Handle<T, W>>),
}

impl<T, W: Delivers<T>> Handles<T, W> {
    fn len(&self) -> usize {
        match self {
            Self::InOrder(handles) => handles.len(),
            Self::AsDone(handles) => handles.len(),
        }
    }

    fn push(&mut self, handle: Handle<T, W>) {
        match self {
            Self::InOrder(handles) => handles.push_back(handle),
            Self::AsDone(handles) => handles.push(handle),
        }
    }

    /// The next result; `None` if nothing is in the queue.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<T, Error>>> {
        match self {
            Self::InOrder(handles) => {
                let Some(first) = handles.front_mut() else { return Poll::Ready(None) };
                let result = ready!(Pin::new(first).poll(context));
                handles.pop_front();
                Poll::Ready(Some(result))
            }
            Self::AsDone(handles) => Pin::new(handles).poll_next(context),
        }
    }
}

pin_project! {
    /// Results in the order of the items, made by [`Queue::map`], or as they are done, made by
    /// [`Queue::map_unordered`]. Dropping it cancels what is not done.
    #[must_use = "streams do nothing unless polled"]
    pub struct Map<'queue, S, F, X, W>
    where
        W: Accepts<X>,
    {
        #[pin]
        feeder: Feeder<'queue, S, F, X, W>,
        handles: Handles<W::Output, W>,
    }
}

impl<S, F, X, W: Accepts<X>> Map<'_, S, F, X, W> {
    /// Lets so many items be in the queue at once. Else it is twice the concurrency, at most 1,024.
    pub fn ahead(mut self, ahead: usize) -> Self {
        self.feeder.ahead = ahead.max(1);
        self
    }

    /// The next result; `None` after the last.
    pub async fn next(&mut self) -> Option<<Self as Stream>::Item>
    where
        Self: Stream + Unpin,
    {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<S, F, X, W> Stream for Map<'_, S, F, X, W>
where
    S: Stream,
    F: FnMut(S::Item) -> X,
    W: Accepts<X>,
{
    type Item = Result<W::Output, Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut this = self.project();
        let mut is_over = false;
        while this.handles.len() < this.feeder.ahead && !is_over {
            match this.feeder.as_mut().poll(context) {
                Poll::Ready(Some(handle)) => this.handles.push(handle),
                Poll::Ready(None) => is_over = true,
                Poll::Pending => break,
            }
        }
        match ready!(this.handles.poll(context)) {
            // The stream has more, and wakes when it has.
            None if !is_over => Poll::Pending,
            result => Poll::Ready(result),
        }
    }
}

impl<S, F, X, W: Accepts<X>> fmt::Debug for Map<'_, S, F, X, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Map").field("in_queue", &self.handles.len()).finish_non_exhaustive()
    }
}
