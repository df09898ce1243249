//! The forms of work: a future of its own ([`Closure`], or [`Borrowed`] in a scope), or an item for the queue's
//! handler ([`Item`]); how each is run, and how its output gets to its handle.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::error::Why;
use crate::machine::Verdict;
use crate::sync::{Mutex, lock};

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

/// Runs closures as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsItIs;

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
