//! A future that borrows, in the queue of a scope.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::{Accepts, AsItIs, Delivers, Fails, Perform, Sealed, Unit, Work, verdict};
use crate::machine::Verdict;
use crate::sync::{Mutex, lock};

/// A future that waits in the queue of a [scope](crate::Builder::scope), and may borrow for `'env`.
pub struct Borrowed<'env>(Pin<Box<dyn Future<Output = Verdict> + Send + 'env>>);

impl Work for Borrowed<'_> {}

impl Sealed for Borrowed<'_> {
    type Done = ();
    type Slot = Option<Self>;

    fn put(slot: &mut Option<Self>, work: Self) {
        *slot = Some(work);
    }

    fn take(slot: &mut Option<Self>) -> Option<Self> {
        slot.take()
    }

    fn put_done(_slot: &mut Option<Self>, (): ()) {}

    fn take_done(_slot: &mut Option<Self>) -> Option<()> {
        Some(())
    }
}

impl<T: Send> Delivers<T> for Borrowed<'_> {
    // What borrows cannot be told by its type at run time, so its output takes another way.
    type Ticket = Arc<Mutex<Option<T>>>;

    fn deliver((): (), ticket: &Self::Ticket) -> T {
        lock(ticket).take().expect("work that has ended has left its output")
    }
}

impl<'env> Borrowed<'env> {
    pub(crate) fn new<F>(
        future: F,
        fails: impl Fails<F::Output> + 'env,
    ) -> (Self, Arc<Mutex<Option<F::Output>>>)
    where
        F: Future + Send + 'env,
        F::Output: Send + 'env,
    {
        let place = Arc::new(Mutex::new(None));
        let ticket = Arc::clone(&place);
        let run = async move {
            let output = future.await;
            let verdict = verdict(&output, fails);
            *lock(&place) = Some(output);
            verdict
        };
        (Self(Box::pin(run)), ticket)
    }
}

impl<'env, F> Accepts<F> for Borrowed<'env>
where
    F: Future + Send + 'env,
    F::Output: Send + 'env,
{
    type Output = F::Output;

    fn pack(future: F) -> (Self, Self::Ticket) {
        Self::new(future, |_| false)
    }
}

impl<'env> Perform<Borrowed<'env>> for AsItIs {
    type Run = Borrowed<'env>;

    #[inline]
    fn start(&self, work: Borrowed<'env>) -> Borrowed<'env> {
        work
    }
}

impl Unit<()> for Borrowed<'_> {
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Verdict, ())> {
        self.0.as_mut().poll(context).map(|verdict| (verdict, ()))
    }
}

impl std::fmt::Debug for Borrowed<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Borrowed").finish_non_exhaustive()
    }
}
