//! What few pieces of work have, kept apart from their entries so that those are small: rare options, the waker of a
//! handle that waits already, an error.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;

use super::Extra;
use super::slab::NONE;
use crate::error::Error;

/// Rare parts that are allocated together. They never move: growing costs no copy, which the lock would have to be held
/// for.
const CHUNK: usize = 2_048;

/// The rare parts of all entries, each known by its place.
#[derive(Debug)]
pub(super) struct RareParts {
    /// All full but the last.
    chunks: Vec<Vec<Rare>>,
    /// The first free place; the next is in its `previous`.
    free: u32,
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

impl Default for RareParts {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: NONE }
    }
}

impl RareParts {
    /// A place, with nothing in it.
    #[inline]
    pub(super) fn keep(&mut self) -> u32 {
        let place = self.free;
        if place == NONE {
            return self.grow();
        }
        self.free = std::mem::take(&mut self[place].previous);
        place
    }

    /// A place where none was before.
    #[cold]
    fn grow(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // Many queues are small.
            let size = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(size));
        }
        let full = self.chunks.len() - 1;
        let chunk = &mut self.chunks[full];
        chunk.push(Rare::default());
        u32::try_from(full * CHUNK + chunk.len() - 1).expect("no more than there are entries")
    }

    /// Gives a place back.
    #[inline]
    pub(super) fn forget(&mut self, place: u32) {
        debug_assert!(self[place].waker.is_none(), "the handle that waited was woken or dropped");
        self[place] = Rare { previous: self.free, ..Rare::default() };
        self.free = place;
    }
}

impl Index<u32> for RareParts {
    type Output = Rare;

    #[inline]
    fn index(&self, place: u32) -> &Rare {
        &self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}

impl IndexMut<u32> for RareParts {
    #[inline]
    fn index_mut(&mut self, place: u32) -> &mut Rare {
        &mut self.chunks[place as usize / CHUNK][place as usize % CHUNK]
    }
}
