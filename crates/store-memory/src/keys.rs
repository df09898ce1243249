//! Unique keys and who holds them. Keys are taken by `accept` and by a retry by hand, and given up by `moves`.

use std::collections::{BTreeSet, HashMap};

use windlass_core::clock::Timestamp;
use windlass_core::unique::{Digest, UniqueKey};
use windlass_core::{JobId, Name};

#[derive(Debug, Default)]
pub(crate) struct Keys {
    holders: HashMap<(Name, Digest), Holder>,
    /// Keys that are free at an instant, whatever becomes of their holder.
    by_time: BTreeSet<(Timestamp, Name, Digest)>,
}

#[derive(Debug, Clone, Copy)]
struct Holder {
    id: JobId,
    free_at: Option<Timestamp>,
}

/// How many keys whose time is over are forgotten whenever one is taken: more than are added.
const FORGOTTEN: usize = 2;

impl Keys {
    /// The job that holds a key of a queue now.
    pub(crate) fn holder(&self, queue: &Name, digest: Digest, now: Timestamp) -> Option<JobId> {
        let holder = self.holders.get(&(queue.clone(), digest))?;
        holder.free_at.is_none_or(|free_at| free_at > now).then_some(holder.id)
    }

    /// Gives a key that is free to a job.
    pub(crate) fn take(&mut self, queue: &Name, key: UniqueKey, id: JobId, now: Timestamp) {
        for _ in 0..FORGOTTEN {
            let Some((free_at, ..)) = self.by_time.first() else { break };
            if *free_at > now {
                break;
            }
            let (_, queue, digest) = self.by_time.pop_first().expect("it was there");
            self.holders.remove(&(queue, digest));
        }
        let free_at = key.lifetime.free_at(now);
        let before = self.holders.insert((queue.clone(), key.digest), Holder { id, free_at });
        if let Some(free_at) = before.and_then(|before| before.free_at) {
            self.by_time.remove(&(free_at, queue.clone(), key.digest));
        }
        if let Some(free_at) = free_at {
            self.by_time.insert((free_at, queue.clone(), key.digest));
        }
    }

    /// Frees a key if this job holds it.
    pub(crate) fn give_up(&mut self, queue: &Name, digest: Digest, id: JobId) {
        let key = (queue.clone(), digest);
        if self.holders.get(&key).is_some_and(|holder| holder.id == id)
            && let Some(free_at) = self.holders.remove(&key).and_then(|holder| holder.free_at)
        {
            self.by_time.remove(&(free_at, key.0, digest));
        }
    }

    /// Frees all keys of a queue that is removed.
    pub(crate) fn forget(&mut self, queue: &Name) {
        self.holders.retain(|(held_in, _), _| held_in != queue);
        self.by_time.retain(|(_, held_in, _)| held_in != queue);
    }
}
