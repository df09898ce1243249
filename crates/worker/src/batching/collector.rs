//! Gathers items by key until their batch is full or the first has waited long enough. Knows nothing of jobs.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::AbortHandle;

use super::Config;

/// Items that wait, and what takes them when their batch is complete.
pub(super) struct Collector<K, T> {
    config: Config,
    /// Starts the call of a batch. Called without the lock.
    start: Box<dyn Fn(Vec<T>) + Send + Sync>,
    waiting: Mutex<Waiting<K, T>>,
}

struct Waiting<K, T> {
    /// One batch per key. None of them is empty or full.
    batches: HashMap<Arc<K>, Gathering<T>>,
    /// The number of the next batch.
    next: u64,
    is_closed: bool,
}

/// A batch that is not complete yet.
struct Gathering<T> {
    /// Tells it from an earlier batch of its key.
    number: u64,
    items: Vec<T>,
    _timer: Timer,
}

/// What flushes a batch when its first item has waited long enough. Dropping it stops that.
struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl<K, T> Collector<K, T>
where
    K: Hash + Eq + Send + Sync + 'static,
    T: Send + 'static,
{
    pub(super) fn new(config: Config, start: impl Fn(Vec<T>) + Send + Sync + 'static) -> Arc<Self> {
        let waiting = Waiting { batches: HashMap::new(), next: 0, is_closed: false };
        Arc::new(Self { config, start: Box::new(start), waiting: Mutex::new(waiting) })
    }

    /// Adds an item to the batch of its key, which starts if that makes it full. The item is made under the lock, so that
    /// none is counted that a flush would not find. Answers whether it was taken in.
    pub(super) fn add(self: &Arc<Self>, key: K, item: impl FnOnce() -> T) -> bool {
        let full = {
            let mut waiting = self.lock();
            if waiting.is_closed {
                return false;
            }
            let item = item();
            match waiting.batches.get_mut(&key) {
                Some(batch) => {
                    batch.items.push(item);
                    let is_full = batch.items.len() >= self.config.up_to;
                    if is_full { waiting.batches.remove(&key).map(|batch| batch.items) } else { None }
                }
                None if self.config.up_to <= 1 => Some(vec![item]),
                None => {
                    let (key, number) = (Arc::new(key), waiting.next);
                    waiting.next += 1;
                    let timer = self.timer(Arc::clone(&key), number);
                    waiting.batches.insert(key, Gathering { number, items: vec![item], _timer: timer });
                    None
                }
            }
        };
        if let Some(items) = full {
            (self.start)(items);
        }
        true
    }

    /// Starts a batch of one item.
    pub(super) fn start_alone(&self, item: T) {
        (self.start)(vec![item]);
    }

    /// Takes an item out again, if it waits here.
    pub(super) fn remove(&self, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let mut waiting = self.lock();
        let places = waiting.batches.iter().map(|(key, batch)| (key, batch.items.iter().position(&is_it)));
        let (key, place) = places.into_iter().find_map(|(key, place)| Some((Arc::clone(key), place?)))?;
        let batch = waiting.batches.get_mut(&key)?;
        let item = batch.items.remove(place);
        if batch.items.is_empty() {
            waiting.batches.remove(&key);
        }
        Some(item)
    }

    /// Starts all that waits: no more can come.
    pub(super) fn flush(&self) {
        let batches: Vec<_> = self.lock().batches.drain().map(|(_, batch)| batch.items).collect();
        batches.into_iter().for_each(|items| (self.start)(items));
    }

    /// Takes nothing in from now on, and gives back all that waits.
    pub(super) fn close(&self) -> Vec<T> {
        let mut waiting = self.lock();
        waiting.is_closed = true;
        waiting.batches.drain().flat_map(|(_, batch)| batch.items).collect()
    }

    /// Starts one batch in a while, unless it is gone by then. So nothing is set while nothing waits.
    fn timer(self: &Arc<Self>, key: Arc<K>, number: u64) -> Timer {
        let (this, linger) = (Arc::downgrade(self), self.config.linger);
        let expires = tokio::spawn(async move {
            tokio::time::sleep(linger).await;
            if let Some(this) = this.upgrade() {
                this.expire(&key, number);
            }
        });
        Timer(expires.abort_handle())
    }

    fn expire(&self, key: &K, number: u64) {
        let batch = {
            let mut waiting = self.lock();
            let is_it = waiting.batches.get(key).is_some_and(|batch| batch.number == number);
            if is_it { waiting.batches.remove(key) } else { None }
        };
        if let Some(batch) = batch {
            (self.start)(batch.items);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting<K, T>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
