//! Unique keys and who holds them. Keys are taken by `accept` and by a retry by hand, and given up by `moves`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use windlass_core::clock::Timestamp;
use windlass_core::unique::{Digest, UniqueKey};
use windlass_core::{JobId, Name};

#[derive(Debug, Default)]
pub(crate) struct Keys {
    /// By queue.
    holders: BTreeMap<Name, Holders>,
    /// Keys that are free at an instant, whatever becomes of their holder.
    by_time: BTreeSet<(Timestamp, Name, Digest)>,
}

type Holders = HashMap<Digest, Holder, BuildHasherDefault<FirstBytes>>;

/// Takes the first bytes of a digest for its hash: they are one already.
#[derive(Debug, Default)]
struct FirstBytes(u64);

impl Hasher for FirstBytes {
    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk() {
            self.0 = u64::from_le_bytes(*first);
        }
    }

    /// The length, which all of them share.
    fn write_usize(&mut self, _length: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
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
        let holder = self.holders.get(queue)?.get(&digest)?;
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
            self.free(&queue, digest);
        }
        let free_at = key.lifetime.free_at(now);
        if !self.holders.contains_key(queue) {
            self.holders.insert(queue.clone(), Holders::default());
        }
        let holders = self.holders.get_mut(queue).expect("it was made above");
        let before = holders.insert(key.digest, Holder { id, free_at });
        if let Some(free_at) = before.and_then(|before| before.free_at) {
            self.by_time.remove(&(free_at, queue.clone(), key.digest));
        }
        if let Some(free_at) = free_at {
            self.by_time.insert((free_at, queue.clone(), key.digest));
        }
    }

    /// Frees a key if this job holds it.
    pub(crate) fn give_up(&mut self, queue: &Name, digest: Digest, id: JobId) {
        let holder = self.holders.get(queue).and_then(|holders| holders.get(&digest));
        if holder.is_some_and(|holder| holder.id == id)
            && let Some(free_at) = self.free(queue, digest)
        {
            self.by_time.remove(&(free_at, queue.clone(), digest));
        }
    }

    /// Frees all keys of a queue that is removed.
    pub(crate) fn forget(&mut self, queue: &Name) {
        self.holders.remove(queue);
        self.by_time.retain(|(_, held_in, _)| held_in != queue);
    }

    /// Frees a key. Answers when it would have been free.
    fn free(&mut self, queue: &Name, digest: Digest) -> Option<Timestamp> {
        let holders = self.holders.get_mut(queue)?;
        let holder = holders.remove(&digest);
        if holders.is_empty() {
            self.holders.remove(queue);
        }
        holder?.free_at
    }
}
