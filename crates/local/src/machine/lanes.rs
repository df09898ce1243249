//! The order of what waits: one list per priority, linked through a slab, so that taking the next, putting in
//! front, removing from the middle and moving between priorities all touch a few neighbours only, and so that
//! memory is used again instead of allocated again.

use std::task::Waker;

use super::wakers::Wakers;
use super::{Extra, Id, Outcome};
use crate::work::Work;

/// No entry.
pub(crate) const NONE: u32 = u32::MAX;

/// A slab that has grown beyond this is given back as soon as it is empty.
const ENTRIES_KEPT: usize = 4_096;

/// The slab and its lists.
pub(crate) struct Lanes<W: Work> {
    entries: Vec<Entry<W>>,
    free: u32,
    /// How many entries are not free.
    used: usize,
    wakers: Wakers,
    /// By rising priority; none is empty.
    levels: Vec<Level>,
    running: List,
    sequence: u32,
    front: i64,
    back: i64,
}

/// One piece of work, waiting or running.
pub(crate) struct Entry<W: Work> {
    /// Tells this use of the place from those before.
    pub(crate) sequence: u32,
    /// Its place within its priority.
    pub(crate) order: i64,
    previous: u32,
    next: u32,
    pub(crate) priority: i16,
    pub(crate) stage: Stage,
    /// Who runs it, while it runs.
    pub(crate) seat: u32,
    /// Whether somebody has a handle.
    pub(crate) is_awaited: bool,
    /// Where the waker is of who waits for the outcome.
    waker: u32,
    pub(crate) load: Load<W>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// What an entry holds.
pub(crate) enum Load<W: Work> {
    /// Nothing: the work is with its runner, or the place is free.
    Empty,
    Work(W),
    Outcome(Outcome<W::Done>),
}

impl<W: Work> Load<W> {
    #[inline]
    pub(crate) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::Empty)
    }
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

#[derive(Debug, Clone, Copy)]
struct List {
    head: u32,
    tail: u32,
}

#[derive(Debug)]
struct Level {
    priority: i16,
    list: List,
}

const EMPTY: List = List { head: NONE, tail: NONE };

impl<W: Work> Lanes<W> {
    pub(crate) fn new() -> Self {
        Self {
            entries: Vec::new(),
            free: NONE,
            used: 0,
            wakers: Wakers::default(),
            levels: Vec::new(),
            running: EMPTY,
            sequence: 0,
            front: -1,
            back: 0,
        }
    }

    /// Keeps a piece of work, in no list yet.
    #[inline]
    pub(crate) fn keep(&mut self, work: W, priority: i16, is_awaited: bool, extra: Option<Box<Extra>>) -> Id {
        let sequence = self.sequence;
        self.sequence = sequence.wrapping_add(1);
        self.used += 1;
        let index = self.free;
        if index == NONE {
            return self.grow(Entry {
                sequence,
                order: 0,
                previous: NONE,
                next: NONE,
                priority,
                stage: Stage::Held,
                seat: NONE,
                is_awaited,
                waker: NONE,
                load: Load::Work(work),
                extra,
            });
        }
        // What is free is empty: only these have to be set again.
        let entry = &mut self.entries[index as usize];
        self.free = entry.next;
        entry.sequence = sequence;
        entry.priority = priority;
        entry.is_awaited = is_awaited;
        entry.load = Load::Work(work);
        entry.extra = extra;
        Id { index, sequence }
    }

    fn grow(&mut self, entry: Entry<W>) -> Id {
        let index = u32::try_from(self.entries.len()).expect("fewer than four billion pieces of work wait");
        let sequence = entry.sequence;
        self.entries.push(entry);
        Id { index, sequence }
    }

    /// Puts an entry behind all others of its priority.
    #[inline]
    pub(crate) fn put_back(&mut self, index: u32) {
        let level = self.level(index);
        let list = &mut self.levels[level].list;
        let previous = std::mem::replace(&mut list.tail, index);
        match previous {
            NONE => list.head = index,
            _ => self.entries[previous as usize].next = index,
        }
        let entry = &mut self.entries[index as usize];
        entry.order = self.back;
        entry.previous = previous;
        entry.next = NONE;
        self.back += 1;
    }

    /// Puts an entry before all others of its priority.
    pub(crate) fn put_front(&mut self, index: u32) {
        self.entry(index).order = self.front;
        self.front -= 1;
        self.put_in_order(index);
    }

    /// Puts an entry where its order says, which is near the front.
    pub(crate) fn put_in_order(&mut self, index: u32) {
        let level = self.level(index);
        let order = self.entries[index as usize].order;
        let mut list = self.levels[level].list;
        let mut before = list.head;
        while before != NONE && self.entries[before as usize].order < order {
            before = self.entries[before as usize].next;
        }
        self.link(&mut list, index, before);
        self.levels[level].list = list;
    }

    /// The next to start, still in its list.
    #[inline]
    pub(crate) fn first(&self) -> Option<u32> {
        self.levels.last().map(|level| level.list.head)
    }

    /// Takes an entry out of the list of its priority.
    #[inline]
    pub(crate) fn take_out(&mut self, index: u32) {
        let priority = self.entries[index as usize].priority;
        let level = if self.levels.last().is_some_and(|level| level.priority == priority) {
            self.levels.len() - 1
        } else {
            self.levels
                .binary_search_by_key(&priority, |level| level.priority)
                .expect("what is ready is in the list of its priority")
        };
        let mut list = self.levels[level].list;
        self.unlink(&mut list, index);
        self.levels[level].list = list;
        if list.head == NONE {
            self.levels.remove(level);
        }
        self.entry(index).stage = Stage::Held;
    }

    /// Hands the work of an entry out to a seat.
    #[inline]
    pub(crate) fn hand_out(&mut self, index: u32, seat: u32) -> W {
        let mut list = self.running;
        self.link(&mut list, index, NONE);
        self.running = list;
        let entry = self.entry(index);
        entry.stage = Stage::Running;
        entry.seat = seat;
        match entry.load.take() {
            Load::Work(work) => work,
            _ => unreachable!("what was not handed out has its work"),
        }
    }

    /// A running entry runs no more.
    #[inline]
    pub(crate) fn end(&mut self, index: u32) {
        let mut list = self.running;
        self.unlink(&mut list, index);
        self.running = list;
    }

    /// Forgets an entry that is in no list.
    #[inline]
    pub(crate) fn forget(&mut self, index: u32) {
        debug_assert!(self.entries[index as usize].waker == NONE, "whoever waited was woken or went away");
        let free = self.free;
        let entry = self.entry(index);
        debug_assert!(
            matches!(entry.load, Load::Empty),
            "code of users is dropped after the lock is released"
        );
        entry.stage = Stage::Free;
        entry.next = free;
        entry.extra = None;
        self.free = index;
        self.used -= 1;
        if self.used == 0 && self.entries.len() > ENTRIES_KEPT {
            self.entries = Vec::new();
            self.free = NONE;
        }
    }

    /// Remembers who waits for the outcome of an entry.
    pub(crate) fn listen(&mut self, index: u32, waker: &Waker) {
        self.wakers.keep(&mut self.entries[index as usize].waker, waker);
    }

    /// Who waits for the outcome of an entry, and does no more.
    #[inline]
    pub(crate) fn take_waker(&mut self, index: u32) -> Option<Waker> {
        self.wakers.take(&mut self.entries[index as usize].waker)
    }

    /// The entry of an id, if it still is that one's.
    pub(crate) fn find(&mut self, id: Id) -> Option<&mut Entry<W>> {
        let entry = self.entries.get_mut(id.index as usize)?;
        (entry.sequence == id.sequence && entry.stage != Stage::Free).then_some(entry)
    }

    #[inline]
    pub(crate) fn entry(&mut self, index: u32) -> &mut Entry<W> {
        &mut self.entries[index as usize]
    }

    /// Everything that waits, ready or held, with its place in the slab.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, &Entry<W>)> {
        let is_waiting = |entry: &Entry<W>| matches!(entry.stage, Stage::Ready | Stage::Held);
        (0..).zip(&self.entries).filter(move |(_, entry)| is_waiting(entry))
    }

    /// Everything that runs, oldest first.
    pub(crate) fn running(&self) -> impl Iterator<Item = (u32, &Entry<W>)> {
        let mut index = self.running.head;
        std::iter::from_fn(move || {
            let entry = self.entries.get(index as usize)?;
            Some((std::mem::replace(&mut index, entry.next), entry))
        })
    }

    /// The level of an entry's priority, made if need be.
    #[inline]
    fn level(&mut self, index: u32) -> usize {
        let entry = &mut self.entries[index as usize];
        entry.stage = Stage::Ready;
        let priority = entry.priority;
        if self.levels.last().is_some_and(|level| level.priority == priority) {
            return self.levels.len() - 1;
        }
        match self.levels.binary_search_by_key(&priority, |level| level.priority) {
            Ok(level) => level,
            Err(level) => {
                self.levels.insert(level, Level { priority, list: EMPTY });
                level
            }
        }
    }

    #[inline]
    fn link(&mut self, list: &mut List, index: u32, before: u32) {
        let previous = if before == NONE { list.tail } else { self.entries[before as usize].previous };
        let entry = &mut self.entries[index as usize];
        entry.previous = previous;
        entry.next = before;
        match previous {
            NONE => list.head = index,
            _ => self.entries[previous as usize].next = index,
        }
        match before {
            NONE => list.tail = index,
            _ => self.entries[before as usize].previous = index,
        }
    }

    #[inline]
    fn unlink(&mut self, list: &mut List, index: u32) {
        let Entry { previous, next, .. } = self.entries[index as usize];
        match previous {
            NONE => list.head = next,
            _ => self.entries[previous as usize].next = next,
        }
        match next {
            NONE => list.tail = previous,
            _ => self.entries[next as usize].previous = previous,
        }
    }
}
