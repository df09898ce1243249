//! A future of any type. Its box keeps the output, too, until the handle asks.

use std::any::Any;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use super::{Accepts, AsItIs, Delivers, Fails, Perform, Sealed, Unit, Work, verdict};
use crate::machine::Verdict;

/// A future that waits in a queue, of any type.
pub struct Closure(Packed);

/// A future in a box, which keeps its output when it has ended: so one allocation is all that work needs.
type Packed = Pin<Box<dyn Keeps + Send>>;

trait Keeps {
    fn advance(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict>;
    fn give(self: Pin<&mut Self>, place: &mut dyn Any);
}

impl Closure {
    pub(crate) fn new<F>(future: F, fails: impl Fails<F::Output> + 'static) -> Self
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        Self(Box::pin(Keeping { state: State::Runs { future }, fails }))
    }
}

impl Work for Closure {}

impl Sealed for Closure {
    type Done = Self;
    type Slot = Option<Self>;

    #[inline]
    fn put(slot: &mut Option<Self>, work: Self) {
        *slot = Some(work);
    }

    #[inline]
    fn take(slot: &mut Option<Self>) -> Option<Self> {
        slot.take()
    }

    #[inline]
    fn put_done(slot: &mut Option<Self>, done: Self) {
        *slot = Some(done);
    }

    #[inline]
    fn take_done(slot: &mut Option<Self>) -> Option<Self> {
        slot.take()
    }
}

impl<T: Send + 'static> Delivers<T> for Closure {
    type Ticket = ();

    fn deliver(mut done: Self, (): &()) -> T {
        let mut place: Option<T> = None;
        done.0.as_mut().give(&mut place);
        place.expect("the handle of a future has the type of its output")
    }
}

impl<F> Accepts<F> for Closure
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    type Output = F::Output;

    fn pack(future: F) -> (Self, ()) {
        (Self::new(future, |_| false), ())
    }
}

pin_project! {
    struct Keeping<F: Future, V> {
        #[pin]
        state: State<F, F::Output>,
        fails: V,
    }
}

pin_project! {
    #[project = StateProjection]
    #[project_replace = StateReplaced]
    enum State<F, T> {
        Runs { #[pin] future: F },
        Ended { output: T },
        Given,
    }
}

impl<F: Future, V: Fails<F::Output>> Keeps for Keeping<F, V>
where
    F::Output: 'static,
{
    fn advance(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict> {
        let mut this = self.project();
        let StateProjection::Runs { future } = this.state.as_mut().project() else {
            panic!("work was run after its end");
        };
        let output = ready!(future.poll(context));
        let verdict = verdict(&output, *this.fails);
        // Drops the future, as soon as it has ended.
        this.state.set(State::Ended { output });
        Poll::Ready(verdict)
    }

    fn give(self: Pin<&mut Self>, place: &mut dyn Any) {
        let place = place.downcast_mut::<Option<F::Output>>();
        if let StateReplaced::Ended { output } = self.project().state.project_replace(State::Given)
            && let Some(place) = place
        {
            *place = Some(output);
        }
    }
}

impl Perform<Closure> for AsItIs {
    type Run = Running;

    #[inline]
    fn start(&self, work: Closure) -> Running {
        Running(Some(work))
    }
}

/// A closure that runs, until it goes to its handle.
pub(crate) struct Running(Option<Closure>);

impl Unit<Closure> for Running {
    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Verdict, Closure)> {
        let place = &mut self.get_mut().0;
        let closure = place.as_mut().expect("work is not run after its end");
        let verdict = ready!(closure.0.as_mut().advance(context));
        Poll::Ready((verdict, place.take().expect("it was there just now")))
    }
}

impl std::fmt::Debug for Closure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Closure").finish_non_exhaustive()
    }
}
