//! The order of what waits: one list per priority, linked through a slab, so that taking the next, putting in
//! front, removing from the middle and moving between priorities all touch a few neighbours only.

use std::cmp::Reverse;

use super::Id;
use super::keys::Place;
use super::slab::{Entry, NONE, Slab, Stage};
use crate::work::Work;

/// The slab and its lists.
pub(crate) struct Lanes<W: Work> {
    pub(super) slab: Slab<W>,
    /// By rising priority; none is empty.
    levels: Vec<Level>,
    /// Where entries may leave their list and come back to their place in it, which then has to be known.
    orders: Option<Orders>,
}

#[derive(Debug)]
struct Level {
    priority: i16,
    head: u32,
    tail: u32,
}

/// The places of the next that comes to the front, and to the back.
#[derive(Debug)]
struct Orders {
    front: i64,
    back: i64,
}

impl<W: Work> Lanes<W> {
    pub(crate) fn new(is_ordered: bool) -> Self {
        let orders = is_ordered.then_some(Orders { front: -1, back: 0 });
        Self { slab: Slab::new(), levels: Vec::new(), orders }
    }

    /// Takes work in, behind all others of its priority.
    #[inline]
    pub(crate) fn push_back(&mut self, work: W, priority: i16, is_awaited: bool) -> Id {
        let level = match self.levels.last_mut() {
            Some(level) if level.priority == priority => level,
            _ => Self::level(&mut self.levels, priority),
        };
        let id = self.slab.keep(work, priority, is_awaited, level.tail);
        let previous = std::mem::replace(&mut level.tail, id.index());
        if previous == NONE {
            level.head = id.index();
        } else {
            self.slab[previous].next = id.index();
        }
        self.put_last(id.index());
        id
    }

    /// Takes work in, before all others of its priority.
    pub(crate) fn push_front(&mut self, work: W, priority: i16, is_awaited: bool) -> Id {
        let id = self.slab.keep(work, priority, is_awaited, NONE);
        let next = Self::level(&mut self.levels, priority).head;
        self.link(id.index(), NONE, next);
        if let Some(orders) = &mut self.orders {
            self.slab.rare(id.index()).order = orders.front;
            orders.front -= 1;
        }
        id
    }

    /// Moves an entry that is ready behind all others of another priority.
    pub(crate) fn move_to(&mut self, index: u32, priority: i16) {
        self.take_out(index);
        self.slab[index].priority = priority;
        let previous = Self::level(&mut self.levels, priority).tail;
        self.link(index, previous, NONE);
        self.put_last(index);
    }

    /// Gives an entry the place behind all others, where places are known.
    pub(crate) fn put_last(&mut self, index: u32) {
        if let Some(orders) = &mut self.orders {
            self.slab.rare(index).order = orders.back;
            orders.back += 1;
        }
    }

    /// The place of an entry in the order of all that waits, where places are known.
    pub(crate) fn place(&self, index: u32) -> Place {
        (Reverse(self.slab[index].priority), self.slab.order(index))
    }

    /// The place of the next that is ready.
    pub(crate) fn first(&self) -> Option<Place> {
        self.levels.last().map(|level| self.place(level.head))
    }

    fn link(&mut self, index: u32, previous: u32, next: u32) {
        let entry = &mut self.slab[index];
        entry.stage = Stage::Ready;
        entry.next = next;
        let level = Self::level(&mut self.levels, entry.priority);
        self.slab.set_previous(index, previous);
        match previous {
            NONE => level.head = index,
            _ => self.slab[previous].next = index,
        }
        match next {
            NONE => level.tail = index,
            _ => self.slab.set_previous(next, index),
        }
    }

    /// Takes the next to start out of its list.
    #[inline]
    pub(crate) fn take_first(&mut self) -> Option<(u32, &mut Entry<W>)> {
        let level = self.levels.last_mut()?;
        let index = level.head;
        let entry = &mut self.slab[index];
        entry.stage = Stage::Held;
        level.head = entry.next;
        if entry.next == NONE {
            self.levels.pop();
        }
        Some((index, entry))
    }

    /// Takes an entry out of the list of its priority.
    pub(crate) fn take_out(&mut self, index: u32) {
        let previous = self.slab.previous(index);
        let entry = &mut self.slab[index];
        entry.stage = Stage::Held;
        let Entry { priority, next, .. } = *entry;
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
            self.slab.set_previous(next, previous);
        } else if is_head {
            self.levels.remove(number);
        } else {
            level.tail = previous;
        }
    }

    /// Everything that is ready, the next to start first.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u32> {
        let next = |index: &u32| Some(self.slab[*index].next).filter(|next| *next != NONE);
        self.levels.iter().rev().flat_map(move |level| std::iter::successors(Some(level.head), next))
    }

    /// The level of a priority, made if need be.
    fn level(levels: &mut Vec<Level>, priority: i16) -> &mut Level {
        let position = levels.binary_search_by_key(&priority, |level| level.priority);
        let position = position.unwrap_or_else(|position| {
            levels.insert(position, Level { priority, head: NONE, tail: NONE });
            position
        });
        &mut levels[position]
    }
}
