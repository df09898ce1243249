//! The caller's side of a piece of work: a future of its result, and the right to cancel it.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::error::Error;
use crate::machine::Id;
use crate::shared::Shared;
use crate::slot::Slot;
use crate::work::{Closure, Work};

/// A future of the result of work that was added. It settles in every ending.
///
/// Dropping it cancels the work: if it waits, it leaves the queue, and if it runs, it is dropped.
/// [`detach`](Self::detach) lets it go on.
#[must_use = "dropping a handle cancels its work: await it, keep it, or detach() it"]
pub struct Handle<T, W: Work = Closure<'static>> {
    slot: Arc<Slot<T>>,
    shared: Arc<Shared<W>>,
    id: Id,
    is_over: bool,
}

impl<T, W: Work> Handle<T, W> {
    pub(crate) fn new(slot: Arc<Slot<T>>, shared: Arc<Shared<W>>, id: Id) -> Self {
        Self { slot, shared, id, is_over: false }
    }

    /// A handle of work that was not taken in.
    pub(crate) fn refused(shared: Arc<Shared<W>>, error: Error) -> Self {
        Self { slot: Slot::settled(Err(error)), shared, id: Id::NONE, is_over: false }
    }

    /// The id of the work.
    pub fn id(&self) -> Id {
        self.id
    }

    /// Whether the result is there, so that awaiting it would not wait.
    pub fn is_settled(&self) -> bool {
        self.is_over || self.slot.is_settled()
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
        self.is_over = true;
    }
}

impl<T, W: Work> Future for Handle<T, W> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let result = self.slot.poll(context);
        self.is_over |= result.is_ready();
        result
    }
}

impl<T, W: Work> Drop for Handle<T, W> {
    fn drop(&mut self) {
        if !self.is_over && !self.slot.is_settled() {
            self.shared.cancel(self.id);
        }
    }
}

impl<T, W: Work> fmt::Debug for Handle<T, W> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Handle").field("id", &self.id).finish_non_exhaustive()
    }
}
