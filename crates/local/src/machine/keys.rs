//! At most so many at once per key. Work whose key has no place left is held aside, in order, until another of
//! the same key ends; so the next to start is found without looking through all that cannot. What was held and may
//! start now is kept here as well, and not put back into the list of its priority: its place there could only be
//! found by walking past all that came in between.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What is known of every key that runs or is held.
#[derive(Debug)]
pub(crate) struct Keys {
    limit: usize,
    keys: HashMap<Arc<str>, Key>,
    /// What was held and may start, the next to start first.
    freed: BTreeMap<Place, u32>,
}

#[derive(Debug, Default)]
struct Key {
    running: usize,
    held: BTreeMap<Place, u32>,
}

/// Where work is in the order of all that waits: by falling priority, and within one by its place.
pub(crate) type Place = (Reverse<i16>, i64);

impl Keys {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, keys: HashMap::new(), freed: BTreeMap::new() }
    }

    /// Takes a place of this key, if one is left.
    pub(crate) fn start(&mut self, key: &Arc<str>) -> bool {
        let entry = self.keys.entry(Arc::clone(key)).or_default();
        let may_start = entry.running < self.limit;
        if may_start {
            entry.running += 1;
        }
        may_start
    }

    /// Holds work of a key that has no place left.
    pub(crate) fn hold(&mut self, key: &Arc<str>, place: Place, index: u32) {
        let entry = self.keys.entry(Arc::clone(key)).or_default();
        entry.held.insert(place, index);
    }

    /// Everything that is held or was.
    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        let held = self.keys.values().flat_map(|key| key.held.values());
        held.chain(self.freed.values()).copied()
    }

    /// Lets work go that was held, because it leaves or moves.
    pub(crate) fn let_go(&mut self, key: &str, place: Place) {
        if let Some(entry) = self.keys.get_mut(key) {
            entry.held.remove(&place);
            self.tidy(key);
        }
    }

    /// Work that was held may start.
    pub(crate) fn free(&mut self, place: Place, index: u32) {
        self.freed.insert(place, index);
    }

    /// The same is taken out: it starts, leaves or moves.
    pub(crate) fn take_freed(&mut self, place: Place) -> Option<u32> {
        self.freed.remove(&place)
    }

    /// The first of what was held and may start.
    pub(crate) fn first_freed(&self) -> Option<Place> {
        self.freed.first_key_value().map(|(place, _)| *place)
    }

    /// Work of this key has ended: answers which may now be ready.
    pub(crate) fn end(&mut self, key: &str) -> Option<u32> {
        self.keys.get_mut(key)?.running -= 1;
        self.next(key)
    }

    /// Which may be ready instead of one that was and has gone: it may have had the place that another left.
    pub(crate) fn next(&mut self, key: &str) -> Option<u32> {
        let limit = self.limit;
        let entry = self.keys.get_mut(key).filter(|entry| entry.running < limit)?;
        let next = entry.held.pop_first().map(|(_, index)| index);
        self.tidy(key);
        next
    }

    fn tidy(&mut self, key: &str) {
        if self.keys.get(key).is_some_and(|entry| entry.running == 0 && entry.held.is_empty()) {
            self.keys.remove(key);
        }
    }
}
