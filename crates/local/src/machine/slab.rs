//! Where everything lives that waits, runs, or has ended and was not asked for yet. Places are used again instead
//! of allocated again, and nothing ever moves: growing costs no copy, which the lock would have to be held for.

use std::ops::{Index, IndexMut};
use std::task::{Poll, Waker};

use super::rare::{Rare, RareParts};
use super::{Extra, Id, Outcome, Start};
use crate::work::Work;

/// No entry, no runner.
pub(crate) const NONE: u32 = u32::MAX;

/// Entries that are allocated together. The first so many are kept when all are free, the rest is given back.
/// Few enough for an allocator to have them at hand: more it would get from the system, and give back there.
const CHUNK: usize = 2_048;

/// Entries, each known by its place.
pub(crate) struct Slab<W: Work> {
    /// All full but the last.
    chunks: Vec<Vec<Entry<W>>>,
    /// The first free entry; the next is in its `next`.
    free: u32,
    /// How many entries are not free.
    used: usize,
    sequence: u32,
    rare_parts: RareParts,
    /// What is to be dropped without the lock.
    spare: Option<Box<Spare<W>>>,
}

/// What a burst needed. Dropping it takes as long as the burst was large.
pub(crate) struct Spare<W: Work> {
    _chunks: Vec<Vec<Entry<W>>>,
    _rare_parts: RareParts,
}

/// One piece of work. As small as can be: memory that is touched for the first time is what a burst pays most for,
/// so what few have is kept [apart](RareParts).
pub(crate) struct Entry<W: Work> {
    /// Tells this use of the place from those before.
    pub(crate) sequence: u32,
    /// The one before it in its list, unless it is the first. If it has rare parts, this is one of them, and here
    /// is where.
    previous_or_rare: u32,
    /// The next in its list, or the next that is free; while it runs, who runs it.
    pub(super) next: u32,
    pub(crate) priority: i16,
    pub(crate) stage: Stage,
    /// [`AWAITED`] and [`RARE`].
    marks: u8,
    /// The work until it is handed out, and its output once it has ended.
    slot: W::Slot,
}

/// A future waits in half a line of a processor's cache.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Entry<crate::work::Closure>>() == 32);

/// It has a handle.
const AWAITED: u8 = 1;

/// There is more to know of it.
const RARE: u8 = 2;

/// Where a piece of work stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Free,
    /// In the list of its priority.
    Ready,
    /// Out of the lists, until another of its key ends.
    Held,
    /// Out of the lists, and may start: another of its key has ended.
    Freed,
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

    /// Hands the work out: it runs from now on.
    #[inline]
    pub(super) fn start(&mut self, index: u32, runner: u32) -> Start<W> {
        self.stage = Stage::Running;
        self.next = runner;
        let work = self.take_work().expect("what was not handed out has its work");
        Start { id: Id::new(index, self.sequence), work }
    }

    /// Forgets it, which is in no list and whose slot is empty: the place is free.
    #[inline]
    fn forget(&mut self, index: u32, free: &mut u32, rare_parts: &mut RareParts) {
        debug_assert!(self.take_work().is_none(), "code of users is dropped after the lock is released");
        self.stage = Stage::Free;
        self.next = std::mem::replace(free, index);
        if let Some(place) = self.rare() {
            self.marks &= !RARE;
            rare_parts.forget(place);
        }
    }

    /// Who runs it.
    #[inline]
    pub(crate) fn runner(&self) -> u32 {
        debug_assert!(self.stage == Stage::Running, "only what runs has a runner");
        self.next
    }

    /// Whether there is more to know of it.
    #[inline]
    pub(super) fn has_rare(&self) -> bool {
        self.marks & RARE != 0
    }

    /// Where that is.
    #[inline]
    fn rare(&self) -> Option<u32> {
        self.has_rare().then_some(self.previous_or_rare)
    }

    /// Its handle is gone.
    pub(crate) fn let_go(&mut self) {
        self.marks &= !AWAITED;
    }
}

impl<W: Work> Slab<W> {
    pub(super) fn new() -> Self {
        let (rare_parts, spare) = (RareParts::default(), None);
        Self { chunks: Vec::new(), free: NONE, used: 0, sequence: 0, rare_parts, spare }
    }

    /// Keeps a piece of work that is ready, behind another.
    #[inline]
    pub(super) fn keep(&mut self, work: W, priority: i16, is_awaited: bool, previous: u32) -> Id {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.used += 1;
        let mut slot = W::Slot::default();
        W::put(&mut slot, work);
        let stage = Stage::Ready;
        let marks = if is_awaited { AWAITED } else { 0 };
        let entry = Entry { sequence, previous_or_rare: previous, next: NONE, priority, stage, marks, slot };
        let index = self.free;
        if index == NONE {
            return Id::new(self.grow(entry), sequence);
        }
        let place = &mut self[index];
        let free = place.next;
        *place = entry;
        self.free = free;
        Id::new(index, sequence)
    }

    /// Keeps an entry where none was before.
    #[inline]
    fn grow(&mut self, entry: Entry<W>) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.add_chunk();
        }
        let full = self.chunks.len() - 1;
        let chunk = &mut self.chunks[full];
        let index = full * CHUNK + chunk.len();
        chunk.push(entry);
        index as u32
    }

    #[cold]
    fn add_chunk(&mut self) {
        let end = (self.chunks.len() + 1) * CHUNK;
        assert!(u32::try_from(end).is_ok(), "fewer than four billion pieces of work wait");
        // Many queues are small.
        let size = if self.chunks.is_empty() { 0 } else { CHUNK };
        self.chunks.push(Vec::with_capacity(size));
    }

    /// One less is used.
    #[inline]
    fn count_down(&mut self) {
        self.used -= 1;
        if self.used == 0 && self.chunks.len() > 1 {
            self.shrink();
        }
    }

    /// Gives what a burst needed back, but for the first chunk.
    #[cold]
    fn shrink(&mut self) {
        let mut chunks = std::mem::take(&mut self.chunks);
        let mut first = std::mem::take(&mut chunks[0]);
        first.clear();
        self.chunks.push(first);
        self.free = NONE;
        let rare_parts = std::mem::take(&mut self.rare_parts);
        self.spare = Some(Box::new(Spare { _chunks: chunks, _rare_parts: rare_parts }));
    }

    /// What a burst needed, once it is over.
    #[inline]
    pub(super) fn take_spare(&mut self) -> Option<Box<Spare<W>>> {
        self.spare.take()
    }

    /// The entry of an id, if it still is that one's.
    #[inline]
    pub(crate) fn find(&mut self, id: Id) -> Option<&mut Entry<W>> {
        find(&mut self.chunks, id)
    }

    /// Whether an entry runs at this runner.
    pub(super) fn runs_at(&self, index: u32, runner: u32) -> bool {
        let chunk = self.chunks.get(index as usize / CHUNK);
        let entry = chunk.and_then(|chunk| chunk.get(index as usize % CHUNK));
        entry.is_some_and(|entry| entry.stage == Stage::Running && entry.next == runner)
    }

    /// What was rarely asked for with an entry.
    #[inline]
    pub(crate) fn extra(&self, index: u32) -> Option<&Extra> {
        self[index].rare().and_then(|place| self.rare_parts[place].extra.as_deref())
    }

    /// The place of an entry within its priority, if it was given one.
    pub(super) fn order(&self, index: u32) -> i64 {
        self[index].rare().map_or(0, |place| self.rare_parts[place].order)
    }

    /// The one before an entry in its list, unless it is the first.
    pub(super) fn previous(&self, index: u32) -> u32 {
        let entry = &self[index];
        entry.rare().map_or(entry.previous_or_rare, |place| self.rare_parts[place].previous)
    }

    pub(super) fn set_previous(&mut self, index: u32, previous: u32) {
        match self[index].rare() {
            None => self[index].previous_or_rare = previous,
            Some(place) => self.rare_parts[place].previous = previous,
        }
    }

    /// Keeps how an entry has ended, and answers the waker of its handle. Without a handle it is forgotten, and the
    /// outcome answered, to be dropped without the lock.
    #[inline(always)]
    pub(super) fn settle(
        &mut self,
        index: u32,
        outcome: Outcome<W::Done>,
    ) -> (Option<Outcome<W::Done>>, Option<Waker>) {
        let entry = entry_at(&mut self.chunks, index);
        if entry.marks & AWAITED == 0 {
            entry.forget(index, &mut self.free, &mut self.rare_parts);
            self.count_down();
            return (Some(outcome), None);
        }
        entry.stage = Stage::Settled;
        let error = match outcome {
            Ok(done) => {
                W::put_done(&mut entry.slot, done);
                if !entry.has_rare() {
                    return (None, None);
                }
                None
            }
            Err(error) => Some(error),
        };
        let rare = self.rare(index);
        rare.error = error;
        (None, rare.waker.take())
    }

    /// Takes out how an entry has ended, and forgets it, if it has; nothing if there is none of this id.
    #[inline]
    pub(super) fn poll_outcome(&mut self, id: Id) -> Poll<Option<Outcome<W::Done>>> {
        let Some(entry) = find(&mut self.chunks, id) else { return Poll::Ready(None) };
        if entry.stage != Stage::Settled {
            return Poll::Pending;
        }
        let done = W::take_done(&mut entry.slot);
        let error = entry.rare().and_then(|place| self.rare_parts[place].error.take());
        entry.forget(id.index(), &mut self.free, &mut self.rare_parts);
        self.count_down();
        let done = || done.expect("what has settled has an output or an error");
        Poll::Ready(Some(error.map_or_else(|| Ok(done()), Err)))
    }

    /// Remembers who waits for the outcome of an entry. Answers who did before, to be dropped without the lock.
    pub(super) fn listen(&mut self, index: u32, waker: &Waker) -> Option<Waker> {
        let kept = &mut self.rare(index).waker;
        let is_known = kept.as_ref().is_some_and(|kept| kept.will_wake(waker));
        if is_known { None } else { kept.replace(waker.clone()) }
    }

    /// Who waits for the outcome of an entry, and does no more.
    #[inline]
    pub(super) fn take_waker(&mut self, index: u32) -> Option<Waker> {
        self[index].rare().and_then(|place| self.rare_parts[place].waker.take())
    }

    /// The rare parts of an entry, which it has from now on.
    #[inline]
    pub(super) fn rare(&mut self, index: u32) -> &mut Rare {
        let place = self[index].rare().unwrap_or_else(|| self.make_rare(index));
        &mut self.rare_parts[place]
    }

    #[cold]
    fn make_rare(&mut self, index: u32) -> u32 {
        let place = self.rare_parts.keep();
        let entry = &mut self[index];
        entry.marks |= RARE;
        let previous = std::mem::replace(&mut entry.previous_or_rare, place);
        self.rare_parts[place].previous = previous;
        place
    }
}

/// The entry at a place: a function, so that the rest of a slab can be used along with it.
#[inline]
fn entry_at<W: Work>(chunks: &mut [Vec<Entry<W>>], index: u32) -> &mut Entry<W> {
    &mut chunks[index as usize / CHUNK][index as usize % CHUNK]
}

/// The entry of an id, if it still is that one's.
#[inline]
fn find<W: Work>(chunks: &mut [Vec<Entry<W>>], id: Id) -> Option<&mut Entry<W>> {
    let entry = chunks.get_mut(id.index() as usize / CHUNK)?.get_mut(id.index() as usize % CHUNK)?;
    (entry.sequence == id.sequence() && entry.stage != Stage::Free).then_some(entry)
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
        entry_at(&mut self.chunks, index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Accepts, Item};

    #[test]
    fn what_a_burst_needed_is_left_to_be_dropped_without_the_lock() {
        const BURST: u32 = 5 * CHUNK as u32;
        let mut slab = Slab::<Item<u32, u32>>::new();
        let ids: Vec<Id> = (0..BURST).map(|number| slab.keep(Item::pack(number).0, 0, false, NONE)).collect();
        for id in &ids {
            slab.rare(id.index()).order = 1;
            slab[id.index()].take_work();
        }
        let (last, others) = ids.split_last().unwrap();
        others.iter().for_each(|id| drop(slab.settle(id.index(), Ok(0))));
        assert!(slab.take_spare().is_none(), "one is left");
        drop(slab.settle(last.index(), Ok(0)));
        let spare = slab.take_spare().expect("all have ended");
        assert_eq!((slab.chunks.len(), slab.chunks[0].len(), spare._chunks.len()), (1, 0, 5));
        let id = slab.keep(Item::pack(7).0, 0, false, NONE);
        assert_eq!((id.index(), slab.rare(id.index()).order), (0, 0), "it begins anew");
    }

    #[test]
    fn places_of_rare_parts_are_used_again() {
        let mut parts = RareParts::default();
        let places: Vec<u32> = (0..5_000).map(|_| parts.keep()).collect();
        assert_eq!(places, (0..5_000).collect::<Vec<_>>());
        [7, 4_099].into_iter().for_each(|place| parts.forget(place));
        assert_eq!([parts.keep(), parts.keep(), parts.keep()], [4_099, 7, 5_000]);
    }
}
