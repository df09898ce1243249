//! The forms of work: a future of its own ([`Closure`], or [`Borrowed`] in a scope), or an item for the queue's
//! handler ([`Item`]); how each is run, and how its output gets to its handle.

mod borrowed;
mod closure;
mod item;

use std::pin::Pin;
use std::task::{Context, Poll};

use crate::error::Why;
use crate::machine::Verdict;
pub use borrowed::Borrowed;
pub use closure::Closure;
pub(crate) use item::Handle;
pub use item::Item;

/// Work that can wait in a queue. Sealed: [`Closure`], [`Borrowed`] and [`Item`] are all there is.
pub trait Work: Sealed {}

/// What a queue needs to know of work.
pub trait Sealed: Send + Sized {
    /// What is kept of it for its handle when it has ended.
    #[doc(hidden)]
    type Done: Send;

    /// Holds the work while it waits, nothing while it runs, and then what is kept for its handle.
    #[doc(hidden)]
    type Slot: Default + Send;

    #[doc(hidden)]
    fn put(slot: &mut Self::Slot, work: Self);

    #[doc(hidden)]
    fn take(slot: &mut Self::Slot) -> Option<Self>;

    #[doc(hidden)]
    fn put_done(slot: &mut Self::Slot, done: Self::Done);

    #[doc(hidden)]
    fn take_done(slot: &mut Self::Slot) -> Option<Self::Done>;
}

/// Work whose output of type `T` can get to its handle.
pub trait Delivers<T>: Work {
    /// What a handle has to have for that.
    #[doc(hidden)]
    type Ticket: Send;

    #[doc(hidden)]
    fn deliver(done: Self::Done, ticket: &Self::Ticket) -> T;
}

/// What a queue of this work takes in: futures for [`Closure`] and [`Borrowed`], items for [`Item`].
pub trait Accepts<X>: Delivers<Self::Output> {
    /// What comes out.
    type Output;

    #[doc(hidden)]
    fn pack(input: X) -> (Self, Self::Ticket);
}

/// Work that runs.
pub(crate) trait Unit<D> {
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Verdict, D)>;
}

/// How queued work becomes work that runs.
pub(crate) trait Perform<W: Work>: Clone {
    type Run: Unit<W::Done>;
    fn start(&self, work: W) -> Self::Run;
}

/// Whether an output counts as a failure in events and counts. A type of its own, so that to ask costs nothing where
/// none does.
pub(crate) trait Fails<T>: Fn(&T) -> bool + Copy + Send + Sync {}

impl<T, V: Fn(&T) -> bool + Copy + Send + Sync> Fails<T> for V {}

#[inline]
fn verdict<T>(output: &T, fails: impl Fails<T>) -> Verdict {
    if fails(output) { Verdict::Failed(Why::Own) } else { Verdict::Completed }
}

/// Runs futures as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsItIs;
