//! Who waits for an outcome. Most handles are asked when their work has ended, so wakers are kept apart from the
//! entries, which then are smaller: memory that is touched for the first time is what a burst pays most for.

use std::task::Waker;

use super::lanes::NONE;

/// Wakers, each known by its place.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    kept: Vec<Option<Waker>>,
    free: Vec<u32>,
}

impl Wakers {
    /// Keeps a waker instead of the one at this place, if there is one.
    pub(crate) fn keep(&mut self, place: &mut u32, waker: &Waker) {
        if *place == NONE {
            *place = self.free.pop().unwrap_or_else(|| {
                self.kept.push(None);
                u32::try_from(self.kept.len() - 1).expect("fewer than four billion handles are awaited")
            });
        }
        let kept = &mut self.kept[*place as usize];
        if !kept.as_ref().is_some_and(|kept| kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
    }

    /// Takes the waker at this place out.
    #[inline]
    pub(crate) fn take(&mut self, place: &mut u32) -> Option<Waker> {
        if *place == NONE {
            return None;
        }
        let place = std::mem::replace(place, NONE);
        self.free.push(place);
        self.kept[place as usize].take()
    }
}
