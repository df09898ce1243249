//! The names of all keys, built in one place: for every script, and for nobody outside of this crate.
//!
//! All keys of a queue carry the tag `{namespace:queue}`, so a Cluster keeps them in one slot and a script may touch
//! them all. A namespace has no `:` and no name has a brace, so no tag can be forged and none reads two ways.
//!
//! Keys of kinds, leases, blocks and calls, and those of unique keys and of records, are made by the scripts out of the others.
//! While a Cluster moves a slot key by key,
//! a node takes a script only if it has all keys that were named, and knows nothing of those that the script makes up:
//! it would stop half-way at the first of them that has gone. So each script also names a key that is never there:
//! then no node takes it before the slot has moved as a whole, and the call tries again until then.

use bytes::Bytes;
use windlass_core::Name;
use windlass_core::store::Duty;

/// The names of one namespace.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    namespace: Name,
}

impl Keys {
    /// The namespace is one that the options have accepted.
    pub(crate) fn new(namespace: &Name) -> Self {
        Self { namespace: namespace.clone() }
    }

    /// The keys of a queue.
    pub(crate) fn queue(&self, queue: &Name) -> QueueKeys {
        QueueKeys { prefix: Bytes::from(format!("wl:{{{}:{queue}}}:", self.namespace)) }
    }

    /// Names of all queues that were written to and not removed since (zset, all scores 0).
    pub(crate) fn queues(&self) -> Bytes {
        self.shared("queues")
    }

    /// Names of queues that are being removed (hash).
    pub(crate) fn leaving(&self) -> Bytes {
        self.shared("leaving")
    }

    /// The layout of everything here (string), see [`LAYOUT`](crate::registry::LAYOUT).
    pub(crate) fn layout(&self) -> Bytes {
        self.shared("layout")
    }

    /// Lease id to its record (hash).
    pub(crate) fn leases(&self) -> Bytes {
        self.shared("leases")
    }

    /// Lease id by expiry (zset).
    pub(crate) fn lease_expiry(&self) -> Bytes {
        self.shared("lease-expiry")
    }

    /// Lease id by its place in the order of opening (zset).
    pub(crate) fn lease_order(&self) -> Bytes {
        self.shared("lease-order")
    }

    /// Which worker has which duty, and until when (hash).
    pub(crate) fn duties(&self) -> Bytes {
        self.shared("duties")
    }

    /// Queues that every round of a duty visits, by the instant until which a program asks for it (zset).
    pub(crate) fn noted(&self, duty: Duty) -> Bytes {
        self.shared(&format!("noted:{}", duty.name()))
    }

    /// Queues by the instant of the next visit by a duty (zset).
    pub(crate) fn agenda(&self, duty: Duty) -> Bytes {
        self.shared(&format!("agenda:{}", duty.name()))
    }

    /// The channel through which processes wake each other.
    pub(crate) fn bell(&self) -> Bytes {
        self.shared("bell")
    }

    /// The channel of one process.
    pub(crate) fn process(&self, number: u64) -> Bytes {
        self.shared(&format!("bell:{number:016x}"))
    }

    fn shared(&self, name: &str) -> Bytes {
        Bytes::from(format!("wl:{{{}}}:{name}", self.namespace))
    }
}

/// The names of one queue's keys. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueKeys {
    prefix: Bytes,
}

/// One function per key that is known beforehand.
macro_rules! names {
    ($($function:ident = $name:literal, $doc:literal;)*) => {
        impl QueueKeys {
            $(#[doc = $doc] pub(crate) fn $function(&self) -> Bytes { self.join($name.as_bytes()) })*

            /// Where scripts find a key that they call `KEY.<name>`.
            pub(crate) fn place(group: &str, name: &str) -> Option<usize> {
                let names = [$(stringify!($function)),*];
                let place = names.iter().position(|known| *known == name).filter(|_| group == "KEY");
                place.map(|place| place + 1)
            }

            /// All of these in this order, as every script about one queue gets them.
            pub(crate) fn all(&self) -> Vec<Bytes> {
                vec![$(self.$function()),*]
            }
        }
    };
}

names! {
    meta = "meta", "Sequence number, definition and counters (hash).";
    jobs = "jobs", "Job id to its record (hash).";
    bodies = "bodies", "Job id to a payload too long for the record (hash).";
    outputs = "outputs", "Job id to its output (hash).";
    progress = "progress", "Job id to its progress (hash).";
    attempts = "attempts", "Job id and fence number to the record of an attempt (hash).";
    blocks = "blocks", "Block number by the sequence number of its first job (zset).";
    live = "live", "Block number to how many of its jobs are still there (hash).";
    scheduled = "scheduled", "Scheduled jobs by due instant (zset).";
    expiring = "expiring", "Waiting jobs that expire, by expiry (zset).";
    completed = "completed", "Completed jobs by their end (zset).";
    dead = "dead", "Dead jobs by their end (zset).";
    cancelled = "cancelled", "Cancelled jobs by their end (zset).";
    leases = "leases", "This queue's copy of leases, by expiry (zset).";
    transfers = "transfers", "Transfers to other queues (stream).";
    received = "received", "Queue to the number of the last transfer from it (hash).";
    none = "none", "Never there, see above.";
}

impl QueueKeys {
    /// What transfers say, where that is long, by a name of its own (hash). It is in few calls, so scripts are not given it.
    pub(crate) fn contents(&self) -> Bytes {
        self.join(b"contents")
    }

    /// What was spent of the queue's rate (zset).
    pub(crate) fn spent(&self) -> Bytes {
        self.join(b"spent")
    }

    /// What the queue remembers: record key to its record (hash). Scripts make the names of this and of what belongs to it.
    pub(crate) fn records(&self) -> Bytes {
        self.join(b"records")
    }

    /// What was answered of a transfer from a queue whose jobs have unique keys (string): its sender may not have heard it.
    pub(crate) fn said(&self, source: &Name, transfer: u64) -> Bytes {
        self.join(format!("said:{source}:{transfer}").as_bytes())
    }

    fn join(&self, name: &[u8]) -> Bytes {
        [&self.prefix[..], name].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(&Name::new("windlass").unwrap())
    }

    #[test]
    fn all_keys_of_a_queue_carry_its_tag() {
        let queue = keys().queue(&Name::new("mail:high").unwrap());
        assert_eq!(queue.meta(), "wl:{windlass:mail:high}:meta");
        assert!(queue.all().iter().all(|key| key.starts_with(b"wl:{windlass:mail:high}:")));
        assert_eq!(queue.all().last(), Some(&queue.none()));
        assert_eq!(keys().queues(), "wl:{windlass}:queues");
    }
}
