//! What few pieces of work have, kept apart from their entries so that those are small: rare options, the waker of a
//! handle that waits already, an error.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;

use super::Extra;
use crate::error::Error;

/// The rare parts of all entries, each known by its place.
#[derive(Debug, Default)]
pub(super) struct RareParts {
    kept: Vec<Rare>,
    free: Vec<u32>,
}

/// The rare parts of one entry.
#[derive(Debug, Default)]
pub(super) struct Rare {
    pub(super) extra: Option<Arc<Extra>>,
    /// Who waits for the outcome.
    pub(super) waker: Option<Waker>,
    pub(super) error: Option<Box<Error>>,
    /// Its place within its priority, where that has to be known.
    pub(super) order: i64,
    /// The one before it in its list, unless it is the first.
    pub(super) previous: u32,
}

impl RareParts {
    /// A place, with nothing in it.
    pub(super) fn keep(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.kept.push(Rare::default());
            u32::try_from(self.kept.len() - 1).expect("no more than there are entries")
        })
    }

    /// Gives a place back.
    pub(super) fn forget(&mut self, place: u32) {
        debug_assert!(self[place].waker.is_none(), "the handle that waited was woken or dropped");
        self[place] = Rare::default();
        self.free.push(place);
    }
}

impl Index<u32> for RareParts {
    type Output = Rare;

    #[inline]
    fn index(&self, place: u32) -> &Rare {
        &self.kept[place as usize]
    }
}

impl IndexMut<u32> for RareParts {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Rare {
        &mut self.kept[place as usize]
    }
}
