//! The names of all keys, built in one place: for every script, and for nobody outside of this crate.
//!
//! All keys of a queue carry the tag `{namespace:queue}`, so a Cluster keeps them in one slot and a script may touch
//! them all. A namespace has no `:` and no name has a brace, so no tag can be forged and none reads two ways.

use bytes::Bytes;
use windlass_core::{LeaseId, Name};

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

    /// Names of all queues that were ever written to (zset, all scores 0).
    pub(crate) fn queues(&self) -> Bytes {
        self.shared("queues")
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

    /// The channel through which processes wake each other.
    pub(crate) fn bell(&self) -> Bytes {
        self.shared("bell")
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
    outbox = "outbox", "Letters to other queues (stream).";
    inbox = "inbox", "Queue to the number of the last letter from it (hash).";
    none = "none", "Never there. While a slot is being moved a node takes a script only if it has all keys that the script
        names, and knows nothing of those that it makes up: without this one a script could stop half-way, or make a key
        that is still to come. With it all of them wait until the slot has arrived.";
}

impl QueueKeys {
    /// What all keys of the queue begin with. Scripts that learn of a kind, a lease or a block only while they run
    /// make its key from this.
    pub(crate) fn prefix(&self) -> Bytes {
        self.prefix.clone()
    }

    /// Ready jobs of a kind, in the order of their turns (zset).
    pub(crate) fn ready(&self, kind: &Name) -> Bytes {
        self.join(format!("ready:{kind}").as_bytes())
    }

    /// Ids in the order of acceptance (string).
    pub(crate) fn block(&self, number: u64) -> Bytes {
        self.join(format!("block:{number}").as_bytes())
    }

    /// Jobs that hang on a lease (set).
    pub(crate) fn running(&self, lease: LeaseId) -> Bytes {
        self.join(format!("running:{}", hex(lease)).as_bytes())
    }

    /// Those of them that are asked to stop (set).
    pub(crate) fn stopping(&self, lease: LeaseId) -> Bytes {
        self.join(format!("stopping:{}", hex(lease)).as_bytes())
    }

    fn join(&self, name: &[u8]) -> Bytes {
        [&self.prefix[..], name].concat().into()
    }
}

/// A lease in the name of a key: 32 lower-case hexadecimal digits, as Lua makes them with `%02x`.
pub(crate) fn hex(lease: LeaseId) -> String {
    uuid::Uuid::from_bytes(*lease.as_bytes()).simple().to_string()
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
        assert_eq!(queue.prefix(), "wl:{windlass:mail:high}:");
        assert_eq!(queue.meta(), "wl:{windlass:mail:high}:meta");
        assert_eq!(queue.ready(&Name::new("k").unwrap()), "wl:{windlass:mail:high}:ready:k");
        assert_eq!(queue.block(7), "wl:{windlass:mail:high}:block:7");
        assert_eq!(keys().queues(), "wl:{windlass}:queues");
    }

    #[test]
    fn a_lease_in_a_key_is_plain_hexadecimal() {
        let lease = LeaseId::new();
        let text = hex(lease);
        assert!(text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
        let key = keys().queue(&Name::new("q").unwrap()).running(lease);
        assert_eq!(key, format!("wl:{{windlass:q}}:running:{text}"));
    }
}
