//! What follows from a change, for after the lock.

use std::task::Waker;

/// What has to be done after the lock is released: anything that may run code of others. Mostly nothing.
pub(crate) struct Effects<W> {
    first: Option<Waker>,
    pub(crate) adds: usize,
    /// Whether a runner was called.
    pub(crate) has_called: bool,
    more: Option<Box<More<W>>>,
}

struct More<W> {
    wakers: Vec<Waker>,
    refused: Vec<W>,
}

impl<W> Effects<W> {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { first: None, adds: 0, has_called: false, more: None }
    }

    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        self.first.is_none() && self.adds == 0 && self.more.is_none()
    }

    pub(super) fn wake(&mut self, waker: Waker) {
        match self.first {
            None => self.first = Some(waker),
            Some(_) => self.more().wakers.push(waker),
        }
    }

    pub(super) fn refuse(&mut self, work: W) {
        self.more().refused.push(work);
    }

    /// Whom to wake, and what to drop.
    pub(crate) fn take(&mut self) -> (impl Iterator<Item = Waker> + use<W>, Vec<W>) {
        let (wakers, refused) = self.more.take().map_or_else(Default::default, |more| {
            let More { wakers, refused } = *more;
            (wakers, refused)
        });
        (self.first.take().into_iter().chain(wakers), refused)
    }

    #[cold]
    fn more(&mut self) -> &mut More<W> {
        self.more.get_or_insert_with(|| Box::new(More { wakers: Vec::new(), refused: Vec::new() }))
    }
}
