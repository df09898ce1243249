//! Records: small values that a queue keeps beside its jobs, under keys. What a handler remembers, a schedule, a rule, a
//! result that is kept once: everything above the stores that needs a memory has it here.
//!
//! A record has a *version*, which its writer makes. Every write brings another one, so a writer that names the version it
//! has read changes nothing that was written since, and a write whose answer was lost is known again by its version.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::clock::Timestamp;
use crate::stored;

/// The key of a record within its queue: 1 to 256 bytes of text without NUL. Keys are ordered by their bytes. Cheap to clone.
///
/// ```
/// use windlass_core::record::RecordKey;
/// assert!(RecordKey::new("once/payment/42").is_ok());
/// assert!(RecordKey::new("").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordKey(Arc<str>);

/// The longest key, in bytes.
pub const KEY_MAX: usize = 256;
/// The largest value, in bytes. Larger content belongs elsewhere, and a reference to it here.
pub const VALUE_MAX: usize = 256 << 10;

impl RecordKey {
    /// Checks a key.
    ///
    /// # Errors
    /// When it is empty, too long, or has a NUL, which not every store can hold.
    pub fn new(text: impl AsRef<str>) -> Result<Self, RecordKeyError> {
        let text = text.as_ref();
        let start = || text.chars().take(32).collect();
        match text.len() {
            0 => Err(RecordKeyError::Empty),
            length if length > KEY_MAX => Err(RecordKeyError::TooLong { length, start: start() }),
            _ if text.contains('\0') => Err(RecordKeyError::Nul { start: start() }),
            _ => Ok(Self(text.into())),
        }
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is not a key of a record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecordKeyError {
    /// Nothing was given.
    #[error("the key of a record is empty: use 1 to {KEY_MAX} bytes of text")]
    Empty,
    /// More than [`KEY_MAX`] bytes.
    #[error("the key {start:?}… of a record has {length} bytes: use at most {KEY_MAX}")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// How it begins.
        start: String,
    },
    /// A NUL in it.
    #[error("the key {start:?}… of a record has a NUL: use text without any")]
    Nul {
        /// How it begins.
        start: String,
    },
}

impl TryFrom<String> for RecordKey {
    type Error = RecordKeyError;
    fn try_from(text: String) -> Result<Self, RecordKeyError> {
        Self::new(text)
    }
}

impl From<RecordKey> for String {
    fn from(key: RecordKey) -> Self {
        key.as_str().to_owned()
    }
}

impl AsRef<str> for RecordKey {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// What one write left. Its writer makes it at random, so no two writes have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// A version that no other write has.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
        Self(high ^ low)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A record as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its key.
    pub key: RecordKey,
    /// What its newest write left.
    pub version: Version,
    /// Its value.
    #[serde(with = "stored::bytes")]
    pub value: Bytes,
    /// When it was last written.
    pub written_at: Timestamp,
    /// When it is gone; nothing for one that stays.
    pub expires_at: Option<Timestamp>,
}

/// One change of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordWrite {
    /// Which record.
    pub key: RecordKey,
    /// What must be there for the change to be made.
    pub expect: Expect,
    /// The change.
    pub change: Change,
}

/// What must be there for a change to be made. A record whose time is over is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Expect {
    /// Anything, or nothing.
    Any,
    /// Nothing.
    Absent,
    /// The record as this write left it.
    Version(Version),
}

/// What becomes of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It has this value from now on.
    Put {
        /// What this write leaves: made for it, and kept when it is repeated.
        version: Version,
        /// The value.
        #[serde(with = "stored::bytes")]
        value: Bytes,
        /// How long it stays, from the write on; for ever if nothing.
        ttl: Option<Duration>,
    },
    /// It is gone.
    Remove,
}

impl RecordWrite {
    /// Puts a value under a key, whatever is there.
    pub fn put(key: RecordKey, value: impl Into<Bytes>) -> Self {
        let change = Change::Put { version: Version::new(), value: value.into(), ttl: None };
        Self { key, expect: Expect::Any, change }
    }

    /// Removes a record, whatever it is.
    pub fn remove(key: RecordKey) -> Self {
        Self { key, expect: Expect::Any, change: Change::Remove }
    }

    /// The same change, only if this is there.
    #[must_use]
    pub fn expect(mut self, expect: Expect) -> Self {
        self.expect = expect;
        self
    }

    /// The same change; what it puts is gone after so long. Nothing for a removal.
    #[must_use]
    pub fn ttl(mut self, span: Duration) -> Self {
        if let Change::Put { ttl, .. } = &mut self.change {
            *ttl = Some(span);
        }
        self
    }

    /// The version that it leaves; nothing for a removal.
    pub fn version(&self) -> Option<Version> {
        match self.change {
            Change::Put { version, .. } => Some(version),
            Change::Remove => None,
        }
    }

    /// Whether it may be made where this version is found, and nothing for no record. A put that finds its own version was
    /// made before.
    pub fn is_met_by(&self, found: Option<Version>) -> bool {
        match self.expect {
            Expect::Any => true,
            Expect::Absent => found.is_none() || found == self.version(),
            Expect::Version(expected) => {
                found == Some(expected) || (found.is_some() && found == self.version())
            }
        }
    }

    /// When what it puts is gone, if it is made now.
    pub fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        match self.change {
            Change::Put { ttl, .. } => ttl.map(|ttl| now.plus(ttl)),
            Change::Remove => None,
        }
    }

    /// What it adds to the weight of a call.
    pub fn weight(&self) -> usize {
        let value = match &self.change {
            Change::Put { value, .. } => value.len(),
            Change::Remove => 0,
        };
        self.key.as_str().len() + value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_any_text_within_bounds() {
        for good in ["a", "once/a b", "ключ\n", &"x".repeat(KEY_MAX)] {
            assert_eq!(RecordKey::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a\0b", &"x".repeat(KEY_MAX + 1)] {
            assert!(RecordKey::new(bad).unwrap_err().to_string().len() < 200);
        }
    }

    #[test]
    fn a_repeat_of_a_put_is_known_by_its_version() {
        let key = RecordKey::new("k").unwrap();
        let put = RecordWrite::put(key.clone(), "v");
        let (own, other) = (put.version(), Version::new());
        let absent = put.clone().expect(Expect::Absent);
        assert!(absent.is_met_by(None) && absent.is_met_by(own) && !absent.is_met_by(Some(other)));
        let after = put.expect(Expect::Version(other));
        assert!(after.is_met_by(Some(other)) && after.is_met_by(own));
        assert!(!after.is_met_by(None) && !after.is_met_by(Some(Version::new())));
        let remove = RecordWrite::remove(key).expect(Expect::Version(other));
        assert!(remove.is_met_by(Some(other)) && !remove.is_met_by(None));
    }

    #[test]
    fn only_what_is_put_expires() {
        let (key, now) = (RecordKey::new("k").unwrap(), Timestamp::from_micros(5));
        let put = RecordWrite::put(key.clone(), "value").ttl(Duration::from_micros(3));
        assert_eq!(put.expires_at(now), Some(Timestamp::from_micros(8)));
        assert_eq!(RecordWrite::remove(key).ttl(Duration::ZERO).expires_at(now), None);
        assert_eq!(put.weight(), 6);
    }
}
