//! Where everything lives that waits, runs, or has ended and was not asked for yet. Places are used again instead
//! of allocated again, and nothing ever moves: growing costs no copy, which the lock would have to be held for.

use std::ops::{Index, IndexMut};
use std::sync::Arc;
use std::task::Waker;

use super::aside::Asides;
use super::{Extra, Id, Outcome};
use crate::work::Work;

/// No entry, no seat, nothing aside.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries that are allocated together. The first so many are kept when all are free, the rest is given back.
const CHUNK: usize = 4_096;

/// Entries, each known by its place.
pub(crate) struct Slab<W: Work> {
    /// All full but the last.
    chunks: Vec<Vec<Entry<W>>>,
    /// The first free entry; the next is in its `next`.
    free: u32,
    /// How many entries are not free.
    used: usize,
    sequence: u32,
    asides: Asides,
}

/// One piece of work. As small as can be: memory that is touched for the first time is what a burst pays most for,
/// so what few have is kept [aside](Asides).
pub(crate) struct Entry<W: Work> {
    /// Its place within its priority.
    pub(crate) order: i64,
    /// Tells this use of the place from those before.
    pub(crate) sequence: u32,
    pub(super) previous: u32,
    /// The next in the same list; while it runs, who runs it.
    pub(super) next: u32,
    aside: u32,
    pub(crate) priority: i16,
    pub(crate) stage: Stage,
    /// Whether somebody has a handle.
    pub(crate) is_awaited: bool,
    /// The work until it is handed out, and its output once it has ended.
    slot: W::Slot,
}

/// Where a piece of work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    /// In the list of its priority.
    Ready,
    /// Out of the lists, until another of its key ends.
    Held,
    Running,
    /// Has ended, and its handle has not asked yet.
    Settled,
}

impl<W: Work> Entry<W> {
    /// Takes the work out, to be run or dropped.
    #[inline]
    pub(crate) fn take_work(&mut self) -> Option<W> {
        W::take(&mut self.slot)
    }

    /// It runs from now on.
    #[inline]
    pub(crate) fn run_at(&mut self, seat: u32) {
        self.stage = Stage::Running;
        self.next = seat;
    }

    /// Who runs it.
    #[inline]
    pub(crate) fn seat(&self) -> u32 {
        debug_assert!(self.stage == Stage::Running, "only what runs has a seat");
        self.next
    }

    pub(super) fn has_aside(&self) -> bool {
        self.aside != NONE
    }
}

impl<W: Work> Slab<W> {
    pub(super) fn new() -> Self {
        Self { chunks: Vec::new(), free: NONE, used: 0, sequence: 0, asides: Asides::default() }
    }

    /// Keeps a piece of work, in no list yet.
    #[inline]
    pub(crate) fn keep(&mut self, work: W, priority: i16, is_awaited: bool, extra: Option<Arc<Extra>>) -> Id {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.used += 1;
        let index = if self.free == NONE { self.grow() } else { self.free };
        let entry = &mut self[index];
        let free = entry.next;
        entry.sequence = sequence;
        entry.priority = priority;
        entry.is_awaited = is_awaited;
        W::put(&mut entry.slot, work);
        self.free = free;
        if let Some(extra) = extra {
            self.aside(index).extra = Some(extra);
        }
        Id { index, sequence }
    }

    /// One more entry, which is free.
    fn grow(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // Many queues are small.
            let size = if self.chunks.is_empty() { 0 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(size));
        }
        let full = self.chunks.len() - 1;
        let chunk = &mut self.chunks[full];
        let index = full * CHUNK + chunk.len();
        chunk.push(Entry {
            order: 0,
            sequence: 0,
            previous: NONE,
            next: NONE,
            aside: NONE,
            priority: 0,
            stage: Stage::Free,
            is_awaited: false,
            slot: W::Slot::default(),
        });
        u32::try_from(index)
            .ok()
            .filter(|index| *index != NONE)
            .expect("fewer than four billion pieces of work wait")
    }

    /// Forgets an entry that is in no list and whose slot is empty.
    #[inline]
    pub(crate) fn forget(&mut self, index: u32) {
        let free = self.free;
        let entry = &mut self[index];
        debug_assert!(
            W::take(&mut entry.slot).is_none(),
            "code of users is dropped after the lock is released"
        );
        entry.stage = Stage::Free;
        entry.next = free;
        if entry.has_aside() {
            self.tidy(index);
        }
        self.free = index;
        self.used -= 1;
        if self.used == 0 && self.chunks.len() > 1 {
            self.shrink();
        }
    }

    /// Gives what a burst needed back.
    #[cold]
    fn shrink(&mut self) {
        self.chunks.truncate(1);
        self.chunks.shrink_to_fit();
        self.chunks[0].clear();
        self.free = NONE;
        self.asides = Asides::default();
    }

    /// The entry of an id, if it still is that one's.
    #[inline]
    pub(crate) fn find(&mut self, id: Id) -> Option<&mut Entry<W>> {
        let entry = self.chunks.get_mut(id.index as usize / CHUNK)?.get_mut(id.index as usize % CHUNK)?;
        (entry.sequence == id.sequence && entry.stage != Stage::Free).then_some(entry)
    }

    /// What was rarely asked for with an entry.
    #[inline]
    pub(crate) fn extra(&self, index: u32) -> Option<&Extra> {
        let aside = self[index].aside;
        if aside == NONE { None } else { self.asides[aside].extra.as_deref() }
    }

    /// Keeps how an entry has ended.
    #[inline]
    pub(super) fn settle(&mut self, index: u32, outcome: Outcome<W::Done>) {
        let entry = &mut self[index];
        entry.stage = Stage::Settled;
        match outcome {
            Ok(done) => W::put_done(&mut entry.slot, done),
            Err(error) => self.aside(index).error = Some(error),
        }
    }

    /// Takes out how an entry has ended, and forgets it.
    #[inline]
    pub(super) fn take_outcome(&mut self, index: u32) -> Outcome<W::Done> {
        let entry = &mut self[index];
        let done = W::take_done(&mut entry.slot);
        let place = entry.aside;
        let error = if place == NONE { None } else { self.asides[place].error.take() };
        self.forget(index);
        error.map_or_else(|| Ok(done.expect("what has settled has an output or an error")), Err)
    }

    /// Remembers who waits for the outcome of an entry. Answers who did before, to be dropped without the lock.
    pub(super) fn listen(&mut self, index: u32, waker: &Waker) -> Option<Waker> {
        let kept = &mut self.aside(index).waker;
        let is_known = kept.as_ref().is_some_and(|kept| kept.will_wake(waker));
        if is_known { None } else { kept.replace(waker.clone()) }
    }

    /// Who waits for the outcome of an entry, and does no more.
    #[inline]
    pub(super) fn take_waker(&mut self, index: u32) -> Option<Waker> {
        let place = self[index].aside;
        if place == NONE { None } else { self.asides[place].waker.take() }
    }

    /// All entries with their places.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Entry<W>)> {
        (0..).zip(self.chunks.iter().flatten())
    }

    fn aside(&mut self, index: u32) -> &mut super::aside::Aside {
        let mut place = self[index].aside;
        if place == NONE {
            place = self.asides.keep();
            self[index].aside = place;
        }
        &mut self.asides[place]
    }

    fn tidy(&mut self, index: u32) {
        let place = std::mem::replace(&mut self[index].aside, NONE);
        self.asides.forget(place);
    }
}

impl<W: Work> Index<u32> for Slab<W> {
    type Output = Entry<W>;

    #[inline]
    fn index(&self, index: u32) -> &Entry<W> {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

impl<W: Work> IndexMut<u32> for Slab<W> {
    #[inline]
    fn index_mut(&mut self, index: u32) -> &mut Entry<W> {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}
