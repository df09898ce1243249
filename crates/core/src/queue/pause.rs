//! Pauses: of a queue as a whole, or of some of its kinds or keys. They are part of the definition. What runs goes on, what is
//! scheduled becomes ready; nothing is handed out.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;
use crate::name::Name;

/// Why nothing is handed out, who asked for that, and until when.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pause {
    /// Who asked for it, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub by: String,
    /// Why, for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// When it ends by itself, by the store's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

impl Pause {
    /// Whether it holds at an instant.
    pub fn holds(&self, now: Timestamp) -> bool {
        self.until.is_none_or(|until| until > now)
    }
}

/// The pauses of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pauses {
    /// Of all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Pause>,
    /// Of some kinds.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kinds: BTreeMap<Name, Pause>,
    /// Of some keys.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub keys: BTreeMap<Name, Pause>,
}

impl Pauses {
    /// Whether there is none, not even one that is over.
    pub fn is_empty(&self) -> bool {
        self.queue.is_none() && self.kinds.is_empty() && self.keys.is_empty()
    }

    /// Whether jobs of a kind are handed out at an instant.
    pub fn permit(&self, kind: &Name, now: Timestamp) -> bool {
        ![self.queue.as_ref(), self.kinds.get(kind)].into_iter().flatten().any(|pause| pause.holds(now))
    }

    /// Whether jobs of a key are handed out at an instant, if those of the queue are.
    pub fn permit_key(&self, key: &Name, now: Timestamp) -> bool {
        !self.keys.get(key).is_some_and(|pause| pause.holds(now))
    }

    /// When the next of them ends by itself.
    pub fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let parts = self.kinds.values().chain(self.keys.values());
        let ends = self.queue.iter().chain(parts).filter_map(|pause| pause.until);
        ends.filter(|until| *until > now).min()
    }
}
