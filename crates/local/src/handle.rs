//! The caller's side of a piece of work: a future of its result, and the right to cancel it.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::{Error, Why};
use crate::machine::Id;
use crate::shared::Shared;
use crate::work::{Closure, Delivers};

/// A future of the result of work that was added. It settles in every ending.
///
/// Dropping it cancels the work: if it waits, it leaves the queue, and if it runs, it is dropped.
/// [`detach`](Self::detach) lets it go on.
#[must_use = "dropping a handle cancels its work: await it, keep it, or detach() it"]
pub struct Handle<T, W: Delivers<T> = Closure> {
    shared: Arc<Shared<W>>,
    id: Id,
    state: State,
    ticket: W::Ticket,
    output: PhantomData<fn() -> T>,
}

enum State {
    /// The queue has it.
    Open,
    /// It was never taken in.
    Refused(Why),
    /// The result is out, or nobody wants it.
    Over,
}

impl<T, W: Delivers<T>> Handle<T, W> {
    pub(crate) fn new(shared: Arc<Shared<W>>, id: Id, ticket: W::Ticket) -> Self {
        Self { shared, id, state: State::Open, ticket, output: PhantomData }
    }

    /// A handle of work that was not taken in.
    #[cold]
    pub(crate) fn refused(shared: Arc<Shared<W>>, error: &Error, ticket: W::Ticket) -> Self {
        Self { shared, id: Id::NONE, state: State::Refused(error.kind()), ticket, output: PhantomData }
    }

    /// The id of the work.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Whether the result is there, so that awaiting it would not wait.
    pub fn is_settled(&self) -> bool {
        !matches!(self.state, State::Open) || self.shared.lock().is_settled(self.id)
    }

    /// Cancels the work, and leaves the handle to see how it ends. Answers whether there was something to cancel.
    pub fn cancel(&self) -> bool {
        self.shared.cancel(self.id)
    }

    /// Moves the work behind all others of another priority, if it still waits.
    pub fn set_priority(&self, priority: i16) -> bool {
        self.shared.lock().set_priority(self.id, priority)
    }

    /// Lets the work go on without anybody who waits for its result.
    pub fn detach(mut self) {
        if matches!(self.state, State::Open) {
            let outcome = self.shared.lock().let_go(self.id);
            drop(outcome);
        }
        self.state = State::Over;
    }
}

// The output is handed out by value, never pinned.
impl<T, W: Delivers<T>> Unpin for Handle<T, W> {}

impl<T, W: Delivers<T>> Future for Handle<T, W> {
    type Output = Result<T, Error>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.state {
            State::Open => {}
            State::Refused(why) => {
                self.state = State::Over;
                return Poll::Ready(Err(why.into_error()));
            }
            State::Over => panic!("a handle was polled after it had given its result"),
        }
        let outcome = self.shared.lock().poll_outcome(self.id, context);
        outcome.map(|outcome| {
            self.state = State::Over;
            let outcome = outcome.expect("an open handle has an entry in its queue");
            let done = outcome.map_err(|error| *error)?;
            Ok(W::deliver(done, &self.ticket))
        })
    }
}

impl<T, W: Delivers<T>> Drop for Handle<T, W> {
    fn drop(&mut self) {
        if matches!(self.state, State::Open) {
            let outcome = self.shared.act(|machine, effects| machine.abandon_one(self.id, effects));
            drop(outcome);
        }
    }
}

impl<T, W: Delivers<T>> fmt::Debug for Handle<T, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}
