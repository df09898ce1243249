//! What follows from a change, for after the lock.

use std::task::Waker;

use super::slab::Spare;
use crate::work::Work;

/// What has to be done after the lock is released: anything that may run code of others, or takes long. Mostly nothing.
pub(crate) struct Effects<W: Work> {
    first: Option<Waker>,
    pub(crate) adds: usize,
    /// Whether a runner was called.
    pub(crate) has_called: bool,
    more: Option<Box<More<W>>>,
}

struct More<W: Work> {
    wakers: Vec<Waker>,
    refused: Vec<W>,
    spare: Option<Box<Spare<W>>>,
}

/// What is only dropped: work that was refused, and what a burst needed.
pub(crate) type Dropped<W> = (Vec<W>, Option<Box<Spare<W>>>);

impl<W: Work> Effects<W> {
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

    #[cold]
    pub(super) fn drop_later(&mut self, spare: Box<Spare<W>>) {
        self.more().spare = Some(spare);
    }

    /// Whom to wake, and what to drop.
    pub(crate) fn take(&mut self) -> (impl Iterator<Item = Waker> + use<W>, Dropped<W>) {
        let (wakers, refused, spare) = self.more.take().map_or_else(Default::default, |more| {
            let More { wakers, refused, spare } = *more;
            (wakers, refused, spare)
        });
        (self.first.take().into_iter().chain(wakers), (refused, spare))
    }

    #[cold]
    fn more(&mut self) -> &mut More<W> {
        let nothing = || Box::new(More { wakers: Vec::new(), refused: Vec::new(), spare: None });
        self.more.get_or_insert_with(nothing)
    }
}
