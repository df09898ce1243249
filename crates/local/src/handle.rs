//! The caller's side of a piece of work: a future of its result, and the right to cancel it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::error::Error;
use crate::machine::Id;
use crate::shared::Shared;
use crate::work::{Closure, Delivers};

/// A future of the result of work that was added. It settles in every ending.
///
/// Dropping it cancels the work: if it waits, it leaves the queue, and if it runs, it is dropped.
/// [`detach`](Self::detach) lets it go on.
#[must_use = "dropping a handle cancels its work: await it, keep it, or detach() it"]
pub struct Handle<T, W: Delivers<T> = Closure> {
    /// The queue, as long as it has something for this handle: not if the work was never taken in, nor when the
    /// result is out or not wanted.
    shared: Option<Arc<Shared<W>>>,
    id: Id,
    ticket: W::Ticket,
    output: PhantomData<fn() -> T>,
}

impl<T, W: Delivers<T>> Handle<T, W> {
    #[inline]
    pub(crate) fn new(shared: Arc<Shared<W>>, id: Id, ticket: W::Ticket) -> Self {
        Self { shared: Some(shared), id, ticket, output: PhantomData }
    }

    /// A handle of work that was not taken in.
    #[cold]
    pub(crate) fn refused(error: &Error, ticket: W::Ticket) -> Self {
        Self { shared: None, id: Id::refused(error.kind()), ticket, output: PhantomData }
    }

    /// The id of the work.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Whether the result is there, so that awaiting it would not wait.
    pub fn is_settled(&self) -> bool {
        self.shared.as_ref().is_none_or(|shared| shared.lock().is_settled(self.id))
    }

    /// Cancels the work, and leaves the handle to see how it ends. Answers whether there was something to cancel.
    pub fn cancel(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.cancel(self.id))
    }

    /// Moves the work behind all others of another priority, if it still waits.
    pub fn set_priority(&self, priority: i16) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.lock().set_priority(self.id, priority))
    }

    /// Lets the work go on without waiting for its result.
    pub fn detach(mut self) {
        if let Some(shared) = self.shared.take() {
            let left = shared.lock().let_go(self.id);
            drop(left);
        }
    }

    /// Cancels work whose handle is dropped. Apart, because most handles have given their result by then, and dropping
    /// those is to cost nothing.
    #[inline(never)]
    fn abandon(shared: &Arc<Shared<W>>, id: Id) {
        let left = shared.act(|machine, effects| machine.abandon_one(id, effects));
        drop(left);
    }

    /// The error of work that was never taken in, once.
    #[cold]
    fn refusal(&mut self) -> Error {
        let why = self.id.why_refused().expect("a handle is not polled after it has given its result");
        self.id = Id::NONE;
        why.into_error()
    }
}

// The output is handed out by value, never pinned.
impl<T, W: Delivers<T>> Unpin for Handle<T, W> {}

impl<T, W: Delivers<T>> Future for Handle<T, W> {
    type Output = Result<T, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(shared) = &self.shared else { return Poll::Ready(Err(self.refusal())) };
        let (mut stale, mut spare) = (None, None);
        let outcome = ready!(shared.lock().poll_outcome(self.id, context, &mut stale, &mut spare));
        if let Some(spare) = spare {
            drop(spare);
        }
        self.shared = None;
        let outcome = outcome.expect("an open handle has an entry in its queue");
        let done = outcome.map_err(|error| *error)?;
        Poll::Ready(Ok(W::deliver(done, &self.ticket)))
    }
}

impl<T, W: Delivers<T>> Drop for Handle<T, W> {
    #[inline]
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            Self::abandon(&shared, self.id);
        }
    }
}

impl<T, W: Delivers<T>> fmt::Debug for Handle<T, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}
