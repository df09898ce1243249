//! Where a result waits for whoever wants it: one allocation shared by the side that answers and the side that
//! is answered. The answering side settles when it is dropped, so no ending leaves anybody waiting.

use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use crate::error::Error;
use crate::sync::{Mutex, lock};

/// The shared place.
#[derive(Debug)]
pub(crate) struct Slot<T>(Mutex<State<T>>);

#[derive(Debug)]
enum State<T> {
    Open(Option<Waker>),
    Settled(Result<T, Error>),
    Taken,
}

impl<T> Slot<T> {
    /// A fresh slot, and the side that answers.
    pub(crate) fn new() -> (Arc<Self>, Answer<T>) {
        let slot = Arc::new(Self(Mutex::new(State::Open(None))));
        (Arc::clone(&slot), Answer(Some(slot)))
    }

    /// A slot that is settled already.
    pub(crate) fn settled(result: Result<T, Error>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(State::Settled(result))))
    }

    /// Takes the result out, or leaves word whom to wake.
    ///
    /// # Panics
    /// If the result was taken before.
    pub(crate) fn poll(&self, context: &Context<'_>) -> Poll<Result<T, Error>> {
        let mut state = lock(&self.0);
        if let State::Open(waker) = &mut *state {
            if !waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                *waker = Some(context.waker().clone());
            }
            return Poll::Pending;
        }
        match std::mem::replace(&mut *state, State::Taken) {
            State::Settled(result) => Poll::Ready(result),
            _ => panic!("a handle was polled after it had given its result"),
        }
    }

    /// Whether there is nothing to wait for any more.
    pub(crate) fn is_settled(&self) -> bool {
        !matches!(*lock(&self.0), State::Open(_))
    }

    fn settle(&self, result: Result<T, Error>) {
        let before = std::mem::replace(&mut *lock(&self.0), State::Settled(result));
        if let State::Open(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The side that answers. Dropped without an answer, it says that the queue was closed.
#[derive(Debug)]
pub struct Answer<T>(Option<Arc<Slot<T>>>);

impl<T> Answer<T> {
    /// An answer that nobody waits for.
    pub(crate) const fn to_nobody() -> Self {
        Self(None)
    }

    /// Answers. Only the first answer counts.
    pub(crate) fn settle(&mut self, result: Result<T, Error>) {
        if let Some(slot) = self.0.take() {
            slot.settle(result);
        }
    }
}

impl<T> Drop for Answer<T> {
    fn drop(&mut self) {
        self.settle(Err(Error::Closed));
    }
}
