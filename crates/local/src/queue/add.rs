//! Adding work, with or without options, waiting for room or not, with or without a result to wait for.
//!
//! The methods are the same on the queue and on [`With`], for futures and for items.

use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Refused};
use crate::handle::Handle;
use crate::machine::{Extra, Id, Options};
use crate::queue::Queue;
use crate::queue::until::Place;
use crate::token::Token;
use crate::work::{Accepts, Borrowed, Closure, Delivers, Work};

/// Options for the work that is added through it. Made by [`Queue::with`]; can be used any number of times.
#[derive(Debug, Clone)]
#[must_use]
pub struct With<'queue, W: Work> {
    queue: &'queue Queue<W>,
    options: Options,
}

impl<W: Work> Queue<W> {
    /// Options for work: `queue.with().priority(5).timeout(limit).add(work)`.
    pub fn with(&self) -> With<'_, W> {
        With { queue: self, options: Options::default() }
    }

    /// Adds work; its result comes through the handle. Takes effect at once, without being awaited. If the queue is
    /// full, the handle settles with [`Error::Full`].
    pub fn add<X>(&self, input: X) -> Handle<W::Output, W>
    where
        W: Accepts<X>,
    {
        self.insert(W::pack(input), Options::default(), false)
    }

    /// Waits for room, then adds work. Those who wait get in, in the order of their coming.
    pub async fn push<X>(&self, input: X) -> Result<Handle<W::Output, W>, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.with().push(input).await
    }

    /// Adds work if there is room, and gives it back if not.
    pub fn try_push<X>(&self, input: X) -> Result<Handle<W::Output, W>, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.try_push_with(input, Options::default)
    }

    /// Waits for room, then adds work without a handle on its result.
    pub async fn post<X>(&self, input: X) -> Result<Id, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.with().post(input).await
    }

    /// Adds work without a handle on its result if there is room, and gives it back if not.
    pub fn try_post<X>(&self, input: X) -> Result<Id, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.try_post_with(input, Options::default)
    }

    /// Adds many, as room allows, and waits for all. The results are in the order of the work.
    pub async fn add_all<I, T>(&self, inputs: I) -> Vec<Result<T, Error>>
    where
        I: IntoIterator,
        W: Accepts<I::Item, Output = T>,
    {
        self.with().add_all(inputs).await
    }

    #[inline]
    fn try_push_with<X>(
        &self,
        input: X,
        options: impl FnOnce() -> Options,
    ) -> Result<Handle<W::Output, W>, Refused<X>>
    where
        W: Accepts<X>,
    {
        match self.shared.find_room() {
            Ok(is_promised) => Ok(self.insert(W::pack(input), options(), is_promised)),
            Err(error) => Err(Refused::new(&error, input)),
        }
    }

    #[inline]
    fn try_post_with<X>(&self, input: X, options: impl FnOnce() -> Options) -> Result<Id, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.insert_unwatched(input, options(), false)
    }

    /// Puts work in and answers its handle, which is settled already if it was not taken in.
    #[inline]
    fn insert<T>(&self, (work, ticket): (W, W::Ticket), options: Options, is_promised: bool) -> Handle<T, W>
    where
        W: Delivers<T>,
    {
        let options = Options { is_awaited: true, ..options };
        match self.shared.insert(work, |work| work, options, is_promised) {
            Ok(id) => Handle::new(Arc::clone(&self.shared), id, ticket),
            Err((error, _)) => Handle::refused(&error, ticket),
        }
    }

    /// Puts work in without a handle, or gives it back. What a token has cancelled ends here.
    #[inline]
    fn insert_unwatched<X>(&self, input: X, options: Options, is_promised: bool) -> Result<Id, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.shared.insert(input, |input| W::pack(input).0, options, is_promised).or_else(|(error, input)| {
            if error == Error::Cancelled { Ok(Id::NONE) } else { Err(Refused::new(&error, input)) }
        })
    }
}

impl Queue {
    /// Adds work whose `Err` counts as a failure in events, counts and [`until_failure`](Queue::until_failure).
    pub fn add_fallible<F, T, E>(&self, future: F) -> Handle<Result<T, E>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.with().add_fallible(future)
    }
}

impl<'env> Queue<Borrowed<'env>> {
    /// Adds work whose `Err` counts as a failure in events, counts and [`until_failure`](Queue::until_failure).
    pub fn add_fallible<F, T, E>(&self, future: F) -> Handle<Result<T, E>, Borrowed<'env>>
    where
        F: Future<Output = Result<T, E>> + Send + 'env,
        T: Send + 'env,
        E: Send + 'env,
    {
        self.with().add_fallible(future)
    }
}

impl<W: Work> With<'_, W> {
    /// Higher ones start first; 0 is what work has that says nothing. First in, first out within a priority.
    pub fn priority(mut self, priority: i16) -> Self {
        self.options.priority = priority;
        self
    }

    /// Goes before all others of its priority.
    pub fn front(mut self) -> Self {
        self.options.is_first = true;
        self
    }

    /// How long it may run, counted from its start.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.extra().timeout = Some(timeout);
        self
    }

    /// It may run for ever, whatever the timeout of the queue is.
    pub fn no_timeout(self) -> Self {
        self.timeout(Duration::MAX)
    }

    /// What it belongs to, for a queue that has a limit [per key](crate::Builder::per_key).
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.extra().key = Some(key.into());
        self
    }

    /// A name to know it by in lists.
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.extra().name = Some(name.into());
        self
    }

    /// It is cancelled when this token is: at once, or, in a [scope](crate::Builder::scope), before anything else is
    /// run there.
    pub fn token(mut self, token: &Token) -> Self {
        self.queue.shared.source.heed(&self.queue.shared, token);
        self.extra().token = Some(token.clone());
        self
    }

    fn extra(&mut self) -> &mut Extra {
        Arc::make_mut(self.options.extra.get_or_insert_default())
    }

    /// Adds work; its result comes through the handle. Takes effect at once, without being awaited. If the queue is
    /// full, the handle settles with [`Error::Full`].
    pub fn add<X>(&self, input: X) -> Handle<W::Output, W>
    where
        W: Accepts<X>,
    {
        self.queue.insert(W::pack(input), self.options.clone(), false)
    }

    /// Waits for room, then adds work. Those who wait get in, in the order of their coming.
    pub async fn push<X>(&self, input: X) -> Result<Handle<W::Output, W>, Refused<X>>
    where
        W: Accepts<X>,
    {
        match Place::wait(&self.queue.shared).await {
            Ok(place) => Ok(self.add_at(place, input)),
            Err(_) => Err(Refused::Closed(input)),
        }
    }

    /// Adds work if there is room, and gives it back if not.
    pub fn try_push<X>(&self, input: X) -> Result<Handle<W::Output, W>, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.queue.try_push_with(input, || self.options.clone())
    }

    /// Waits for room, then adds work without a handle on its result.
    pub async fn post<X>(&self, input: X) -> Result<Id, Refused<X>>
    where
        W: Accepts<X>,
    {
        match Place::wait(&self.queue.shared).await {
            Ok(place) => self.queue.insert_unwatched(input, self.options.clone(), place.use_up()),
            Err(_) => Err(Refused::Closed(input)),
        }
    }

    /// Adds work without a handle on its result if there is room, and gives it back if not.
    pub fn try_post<X>(&self, input: X) -> Result<Id, Refused<X>>
    where
        W: Accepts<X>,
    {
        self.queue.try_post_with(input, || self.options.clone())
    }

    /// Adds many, as room allows, and waits for all. The results are in the order of the work.
    pub async fn add_all<I, T>(&self, inputs: I) -> Vec<Result<T, Error>>
    where
        I: IntoIterator,
        W: Accepts<I::Item, Output = T>,
    {
        let mut handles = Vec::new();
        for input in inputs {
            handles.push(self.push(input).await.map_err(|_| Error::Closed));
        }
        let mut results = Vec::with_capacity(handles.len());
        for handle in handles {
            results.push(match handle {
                Ok(handle) => handle.await,
                Err(error) => Err(error),
            });
        }
        results
    }

    pub(crate) fn add_at<X>(&self, place: Place<'_, W>, input: X) -> Handle<W::Output, W>
    where
        W: Accepts<X>,
    {
        self.queue.insert(W::pack(input), self.options.clone(), place.use_up())
    }
}

impl With<'_, Closure> {
    /// Adds work whose `Err` counts as a failure in events, counts and [`until_failure`](Queue::until_failure).
    pub fn add_fallible<F, T, E>(&self, future: F) -> Handle<Result<T, E>>
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: Send + 'static,
    {
        self.queue.insert((Closure::new(future, Result::is_err), ()), self.options.clone(), false)
    }
}

impl<'env> With<'_, Borrowed<'env>> {
    /// Adds work whose `Err` counts as a failure in events, counts and [`until_failure`](Queue::until_failure).
    pub fn add_fallible<F, T, E>(&self, future: F) -> Handle<Result<T, E>, Borrowed<'env>>
    where
        F: Future<Output = Result<T, E>> + Send + 'env,
        T: Send + 'env,
        E: Send + 'env,
    {
        self.queue.insert(Borrowed::new(future, Result::is_err), self.options.clone(), false)
    }
}
