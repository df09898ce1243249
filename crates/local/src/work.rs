//! The two forms of work: a future of its own ([`Closure`]), or an item for the queue's handler ([`Item`]); and how
//! either is run, settled and refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use pin_project_lite::pin_project;

use crate::error::{Error, Why, panic_text};
use crate::machine::Verdict;
use crate::slot::Answer;

/// Work that can wait in a queue. Sealed: [`Closure`] and [`Item`] are all there is.
pub trait Work: Sealed {}

/// What a queue needs of work.
pub trait Sealed: Send {
    /// Settles work that will not run.
    #[doc(hidden)]
    fn refuse(self, error: Error);
}

/// What a queue of this work takes in: futures for [`Closure`], items for [`Item`].
pub trait Accepts<X>: Work {
    /// What comes out.
    type Output;

    /// Packs it up, with the place where its result goes.
    #[doc(hidden)]
    fn pack(input: X, answer: Answer<Self::Output>) -> Self;
}

/// Work that runs: ends with a verdict, after it has settled its own answer.
pub(crate) trait Unit: Future<Output = Verdict> {
    /// Settles it with an error, before it is dropped.
    fn refuse(self: Pin<&mut Self>, error: Error);
}

/// How queued work becomes work that runs.
pub(crate) trait Perform<W>: Clone {
    type Run: Unit;
    fn start(&self, work: W) -> Self::Run;
}

/// Whether an output counts as a failure in events and counts.
pub(crate) type Fails<T> = fn(&T) -> bool;

fn verdict<T>(output: &T, fails: Fails<T>) -> Verdict {
    if fails(output) { Verdict::Failed(Why::Own) } else { Verdict::Completed }
}

/// A future that waits in a queue, of any type. Borrows for `'env`, which is `'static` but in a
/// [scope](crate::Builder::scope).
pub struct Closure<'env>(Packed<'env>);

type Packed<'env> = Pin<Box<dyn Unit + Send + 'env>>;

impl<'env> Closure<'env> {
    pub(crate) fn new<F>(future: F, answer: Answer<F::Output>, fails: Fails<F::Output>) -> Self
    where
        F: Future + Send + 'env,
        F::Output: Send + 'env,
    {
        Self(Box::pin(Answering { future, answer, fails }))
    }
}

impl Work for Closure<'_> {}

impl<'env, F> Accepts<F> for Closure<'env>
where
    F: Future + Send + 'env,
    F::Output: Send + 'env,
{
    type Output = F::Output;

    fn pack(future: F, answer: Answer<F::Output>) -> Self {
        Self::new(future, answer, |_| false)
    }
}

impl Sealed for Closure<'_> {
    fn refuse(mut self, error: Error) {
        self.0.as_mut().refuse(error);
    }
}

impl Unit for Packed<'_> {
    fn refuse(self: Pin<&mut Self>, error: Error) {
        self.get_mut().as_mut().refuse(error);
    }
}

impl std::fmt::Debug for Closure<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Closure").finish_non_exhaustive()
    }
}

/// Runs closures as they are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AsItIs;

impl<'env> Perform<Closure<'env>> for AsItIs {
    type Run = Packed<'env>;

    fn start(&self, work: Closure<'env>) -> Packed<'env> {
        work.0
    }
}

pin_project! {
    /// A future, and where its result goes.
    struct Answering<F: Future> {
        #[pin]
        future: F,
        answer: Answer<F::Output>,
        fails: Fails<F::Output>,
    }
}

impl<F: Future> Future for Answering<F> {
    type Output = Verdict;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict> {
        let this = self.project();
        let output = ready!(this.future.poll(context));
        let verdict = verdict(&output, *this.fails);
        this.answer.settle(Ok(output));
        Poll::Ready(verdict)
    }
}

impl<F: Future> Unit for Answering<F> {
    fn refuse(self: Pin<&mut Self>, error: Error) {
        self.project().answer.settle(Err(error));
    }
}

/// An item that waits in a queue for the queue's handler.
#[derive(Debug)]
pub struct Item<T, R> {
    item: T,
    answer: Answer<R>,
}

impl<T: Send, R: Send> Work for Item<T, R> {}

impl<T: Send, R: Send> Accepts<T> for Item<T, R> {
    type Output = R;

    fn pack(item: T, answer: Answer<R>) -> Self {
        Self { item, answer }
    }
}

impl<T: Send, R: Send> Sealed for Item<T, R> {
    fn refuse(mut self, error: Error) {
        self.answer.settle(Err(error));
    }
}

/// Runs items through a handler.
pub(crate) struct Handle<H, R> {
    pub(crate) handler: std::sync::Arc<H>,
    pub(crate) fails: Fails<R>,
}

impl<H, R> Clone for Handle<H, R> {
    fn clone(&self) -> Self {
        Self { handler: std::sync::Arc::clone(&self.handler), fails: self.fails }
    }
}

impl<H, T, F> Perform<Item<T, F::Output>> for Handle<H, F::Output>
where
    H: Fn(T) -> F,
    F: Future,
{
    type Run = Handling<F>;

    fn start(&self, work: Item<T, F::Output>) -> Handling<F> {
        let Item { item, mut answer } = work;
        let started = catch_unwind(AssertUnwindSafe(|| (self.handler)(item)));
        let future =
            started.map_err(|payload| answer.settle(Err(Error::Panicked(panic_text(&*payload))))).ok();
        Handling { future, answer, fails: self.fails }
    }
}

pin_project! {
    /// A call of the handler. Without a future if the handler panicked before it made one.
    pub(crate) struct Handling<F: Future> {
        #[pin]
        future: Option<F>,
        answer: Answer<F::Output>,
        fails: Fails<F::Output>,
    }
}

impl<F: Future> Future for Handling<F> {
    type Output = Verdict;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Verdict> {
        let this = self.project();
        let Some(future) = this.future.as_pin_mut() else {
            return Poll::Ready(Verdict::Failed(Why::Panicked));
        };
        let output = ready!(future.poll(context));
        let verdict = verdict(&output, *this.fails);
        this.answer.settle(Ok(output));
        Poll::Ready(verdict)
    }
}

impl<F: Future> Unit for Handling<F> {
    fn refuse(self: Pin<&mut Self>, error: Error) {
        self.project().answer.settle(Err(error));
    }
}
