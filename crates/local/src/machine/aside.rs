//! What few pieces of work have, apart from their entries so that those are small: options that are rarely asked
//! for, somebody who waits already, an error.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;

use super::Extra;
use crate::error::Error;

/// What is kept aside, each known by its place.
#[derive(Debug, Default)]
pub(super) struct Asides {
    kept: Vec<Aside>,
    free: Vec<u32>,
}

/// What is kept aside of one piece of work.
#[derive(Debug, Default)]
pub(super) struct Aside {
    pub(super) extra: Option<Arc<Extra>>,
    /// Who waits for the outcome.
    pub(super) waker: Option<Waker>,
    pub(super) error: Option<Box<Error>>,
    /// Its place within its priority, where that has to be known.
    pub(super) order: i64,
    /// The one before it in its list, unless it is the first.
    pub(super) previous: u32,
}

impl Asides {
    /// A place, with nothing in it.
    pub(super) fn keep(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.kept.push(Aside::default());
            u32::try_from(self.kept.len() - 1).expect("no more than there are entries")
        })
    }

    /// Gives a place back.
    pub(super) fn forget(&mut self, place: u32) {
        debug_assert!(self[place].waker.is_none(), "whoever waited was woken or went away");
        self[place] = Aside::default();
        self.free.push(place);
    }
}

impl Index<u32> for Asides {
    type Output = Aside;

    #[inline]
    fn index(&self, place: u32) -> &Aside {
        &self.kept[place as usize]
    }
}

impl IndexMut<u32> for Asides {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Aside {
        &mut self.kept[place as usize]
    }
}
