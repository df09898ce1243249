//! An item for the handler of its queue. It waits as it is, and so does what was made of it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Accepts, Delivers, Fails, Perform, Sealed, Unit, Work, verdict};
use crate::machine::Verdict;

/// An item that waits in a queue for the queue's handler, which makes an `R` of it.
#[derive(Debug)]
pub struct Item<T, R> {
    item: T,
    output: std::marker::PhantomData<fn() -> R>,
}

impl<T: Send, R: Send> Work for Item<T, R> {}

impl<T: Send, R: Send> Sealed for Item<T, R> {
    type Done = R;
    type Slot = Slot<T, R>;

    #[inline]
    fn put(slot: &mut Slot<T, R>, work: Self) {
        *slot = Slot::Item(work.item);
    }

    #[inline]
    fn take(slot: &mut Slot<T, R>) -> Option<Self> {
        match std::mem::take(slot) {
            Slot::Item(item) => Some(Self { item, output: std::marker::PhantomData }),
            _ => None,
        }
    }

    #[inline]
    fn put_done(slot: &mut Slot<T, R>, done: R) {
        *slot = Slot::Output(done);
    }

    #[inline]
    fn take_done(slot: &mut Slot<T, R>) -> Option<R> {
        match std::mem::take(slot) {
            Slot::Output(output) => Some(output),
            _ => None,
        }
    }
}

/// An item, or what was made of it.
#[doc(hidden)]
#[derive(Debug, Default)]
pub enum Slot<T, R> {
    #[default]
    Empty,
    Item(T),
    Output(R),
}

impl<T: Send, R: Send> Delivers<R> for Item<T, R> {
    type Ticket = ();

    fn deliver(done: R, (): &()) -> R {
        done
    }
}

impl<T: Send, R: Send> Accepts<T> for Item<T, R> {
    type Output = R;

    #[inline]
    fn pack(item: T) -> (Self, ()) {
        (Self { item, output: std::marker::PhantomData }, ())
    }
}

/// Runs items through a handler.
pub(crate) struct Handle<H, V> {
    pub(crate) handler: Arc<H>,
    pub(crate) fails: V,
}

impl<H, V: Copy> Clone for Handle<H, V> {
    fn clone(&self) -> Self {
        Self { handler: Arc::clone(&self.handler), fails: self.fails }
    }
}

impl<H, T, F, V> Perform<Item<T, F::Output>> for Handle<H, V>
where
    T: Send,
    H: Fn(T) -> F,
    F: Future,
    F::Output: Send,
    V: Fails<F::Output>,
{
    type Run = Handling<F, V>;

    #[inline]
    fn start(&self, work: Item<T, F::Output>) -> Handling<F, V> {
        Handling { future: (self.handler)(work.item), fails: self.fails }
    }
}

pin_project! {
    /// A call of the handler.
    pub(crate) struct Handling<F, V> {
        #[pin]
        future: F,
        fails: V,
    }
}

impl<F: Future, V: Fails<F::Output>> Unit<F::Output> for Handling<F, V> {
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Verdict, F::Output)> {
        let this = self.project();
        let output = ready!(this.future.poll(context));
        Poll::Ready((verdict(&output, *this.fails), output))
    }
}
