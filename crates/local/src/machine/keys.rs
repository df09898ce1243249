//! At most so many at once per key. Work whose key has no place left is held aside, in order, until another of
//! the same key ends; so the next to start is found without looking through all that cannot.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What is known of every key that runs or is held.
#[derive(Debug)]
pub(crate) struct Keys {
    limit: usize,
    keys: HashMap<Arc<str>, Key>,
}

#[derive(Debug, Default)]
struct Key {
    running: usize,
    held: BTreeMap<Place, u32>,
}

type Place = (Reverse<i16>, i64);

impl Keys {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, keys: HashMap::new() }
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
    pub(crate) fn hold(&mut self, key: &Arc<str>, priority: i16, order: i64, index: u32) {
        let entry = self.keys.entry(Arc::clone(key)).or_default();
        entry.held.insert((Reverse(priority), order), index);
    }

    /// Everything that is held.
    pub(crate) fn held(&self) -> impl Iterator<Item = u32> {
        self.keys.values().flat_map(|key| key.held.values().copied())
    }

    /// Lets work go that was held, because it leaves or moves.
    pub(crate) fn let_go(&mut self, key: &str, priority: i16, order: i64) {
        if let Some(entry) = self.keys.get_mut(key) {
            entry.held.remove(&(Reverse(priority), order));
            self.tidy(key);
        }
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
