//! The order of what waits: one list per priority, linked through a slab, so that taking the next, putting in
//! front, removing from the middle and moving between priorities all touch a few neighbours only.

use super::slab::{Entry, NONE, Slab, Stage};
use crate::work::Work;

/// The slab and its lists.
pub(crate) struct Lanes<W: Work> {
    pub(super) slab: Slab<W>,
    /// By rising priority; none is empty.
    levels: Vec<Level>,
    front: i64,
    back: i64,
}

#[derive(Debug)]
struct Level {
    priority: i16,
    /// Its `previous` is not kept up to date: whoever is the head has none.
    head: u32,
    tail: u32,
}

impl<W: Work> Lanes<W> {
    pub(crate) fn new() -> Self {
        Self { slab: Slab::new(), levels: Vec::new(), front: -1, back: 0 }
    }

    /// Puts an entry behind all others of its priority.
    #[inline]
    pub(crate) fn put_back(&mut self, index: u32) {
        let order = self.back;
        self.back += 1;
        let entry = &mut self.slab[index];
        entry.stage = Stage::Ready;
        entry.order = order;
        entry.next = NONE;
        let priority = entry.priority;
        let level = self.level(priority);
        let level = &mut self.levels[level];
        let previous = std::mem::replace(&mut level.tail, index);
        if previous == NONE {
            level.head = index;
        } else {
            self.slab[previous].next = index;
            self.slab[index].previous = previous;
        }
    }

    /// Puts an entry before all others of its priority.
    pub(crate) fn put_front(&mut self, index: u32) {
        self.slab[index].order = self.front;
        self.front -= 1;
        self.put_in_order(index);
    }

    /// Puts an entry where its order says, which is near the front.
    pub(crate) fn put_in_order(&mut self, index: u32) {
        let Entry { priority, order, .. } = self.slab[index];
        let level = self.level(priority);
        let (mut previous, mut next) = (NONE, self.levels[level].head);
        while next != NONE && self.slab[next].order < order {
            previous = next;
            next = self.slab[next].next;
        }
        let entry = &mut self.slab[index];
        entry.stage = Stage::Ready;
        (entry.previous, entry.next) = (previous, next);
        match previous {
            NONE => self.levels[level].head = index,
            _ => self.slab[previous].next = index,
        }
        match next {
            NONE => self.levels[level].tail = index,
            _ => self.slab[next].previous = index,
        }
    }

    /// Takes the next to start out of its list.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<u32> {
        let level = self.levels.last_mut()?;
        let index = level.head;
        let entry = &mut self.slab[index];
        entry.stage = Stage::Held;
        level.head = entry.next;
        if entry.next == NONE {
            self.levels.pop();
        }
        Some(index)
    }

    /// Takes an entry out of the list of its priority.
    pub(crate) fn take_out(&mut self, index: u32) {
        let entry = &mut self.slab[index];
        entry.stage = Stage::Held;
        let Entry { priority, previous, next, .. } = *entry;
        let number = self
            .levels
            .binary_search_by_key(&priority, |level| level.priority)
            .expect("what is ready is in the list of its priority");
        let level = &mut self.levels[number];
        let is_head = level.head == index;
        if is_head {
            level.head = next;
        } else {
            self.slab[previous].next = next;
        }
        if next != NONE {
            self.slab[next].previous = previous;
        } else if is_head {
            self.levels.remove(number);
        } else {
            level.tail = previous;
        }
    }

    /// Everything that waits, ready or held, with its place in the slab.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = (u32, &Entry<W>)> {
        let is_waiting = |entry: &Entry<W>| matches!(entry.stage, Stage::Ready | Stage::Held);
        self.slab.iter().filter(move |(_, entry)| is_waiting(entry))
    }

    /// The level of a priority, made if need be.
    #[inline]
    fn level(&mut self, priority: i16) -> usize {
        match self.levels.last() {
            Some(level) if level.priority == priority => self.levels.len() - 1,
            _ => self.other_level(priority),
        }
    }

    fn other_level(&mut self, priority: i16) -> usize {
        match self.levels.binary_search_by_key(&priority, |level| level.priority) {
            Ok(level) => level,
            Err(level) => {
                self.levels.insert(level, Level { priority, head: NONE, tail: NONE });
                level
            }
        }
    }
}
