//! Ids of jobs and leases, and the fence that proves the right to write.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use crate::name::Name;
use crate::unique::Digest;

/// The id of a job, a UUIDv7 by default. The caller makes it, so an enqueue whose answer was lost can be
/// repeated with the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JobId(Uuid);

/// One incarnation of a worker process. A worker's name is only a label; this is what leases hang on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LeaseId(Uuid);

/// One call that hands jobs in. The caller makes it and repeats it with the call, so that a store which has
/// accepted the call already knows it again, whatever became of its jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CallId(Uuid);

/// A worker as a holder of duties. It stays the same while the worker runs, whatever becomes of its leases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HolderId(Uuid);

macro_rules! uuid_newtype {
    ($type:ident, $fresh:expr, $what:literal) => {
        impl $type {
            /// A new id that no other process makes.
            #[allow(clippy::new_without_default)]
            pub fn new() -> Self {
                Self($fresh)
            }

            /// Takes 16 bytes as they were stored.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The 16 bytes to store.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.0.hyphenated().encode_lower(&mut Uuid::encode_buffer()))
            }
        }

        impl FromStr for $type {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Uuid::try_parse(text)
                    .map(Self)
                    .map_err(|_| IdError { what: $what, text: text.chars().take(64).collect() })
            }
        }

        impl From<Uuid> for $type {
            fn from(uuid: Uuid) -> Self {
                Self(uuid)
            }
        }
    };
}

uuid_newtype!(JobId, Uuid::now_v7(), "job");
uuid_newtype!(LeaseId, Uuid::new_v4(), "lease");
uuid_newtype!(CallId, Uuid::new_v4(), "call");
uuid_newtype!(HolderId, Uuid::new_v4(), "holder");

impl JobId {
    /// The id of a job that stands for something of the caller's own, as a payment: the same one for the same scope and key,
    /// so that it is enqueued once however often that is tried, as long as the store has the job.
    ///
    /// ```
    /// use windlass_core::JobId;
    ///
    /// assert_eq!(JobId::from_key("payment", "pi_42"), JobId::from_key("payment", "pi_42"));
    /// assert_ne!(JobId::from_key("payment", "pi_42"), JobId::from_key("refund", "pi_42"));
    /// ```
    pub fn from_key(scope: &str, key: &str) -> Self {
        Self(uuid::Builder::from_custom_bytes(Digest::of(&[scope, key]).0).into_uuid())
    }

    /// The id that this job gets when it is moved to another queue: always the same one, so that a move that was cut
    /// short can be repeated, and as random as this one.
    #[must_use]
    pub fn moved_to(&self, queue: &Name) -> Self {
        // FNV-1a, short and the same in every program.
        let hash = queue.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        // The last bytes are random in every version; the first hold the time, and bits that say the version.
        let mut bytes = *self.as_bytes();
        for (byte, mixed) in bytes[9..].iter_mut().zip(hash.to_be_bytes()) {
            *byte ^= mixed;
        }
        Self::from_bytes(bytes)
    }
}

/// A text that is not an id.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a {what} id: expected a UUID such as 01890a5d-ac96-774b-bcce-b302099a8057")]
pub struct IdError {
    what: &'static str,
    text: String,
}

/// The right to write about one attempt.
///
/// `number` counts the claims of a job and only ever grows, through retries, dead letters and replays;
/// `nonce` is random, so that a store that was rewound cannot hand out the same fence twice. Every write of
/// an attempt is compare-and-set on both. Handlers may pass `number` downstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fence {
    /// How often the job has been claimed, this time included.
    pub number: u64,
    /// Random bits of this claim.
    pub nonce: u64,
}

impl Fence {
    /// Random bits for the fences of one claim, in the range that every store can hold as a signed integer. The
    /// caller of a claim makes them, so that it can ask for what a claim took whose answer was lost.
    pub fn nonce() -> u64 {
        fastrand::u64(..) >> 1
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:016x}", self.number, self.nonce)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_job_has_one_id_per_queue() {
        let (id, mail, post) = (JobId::new(), Name::new("mail").unwrap(), Name::new("post").unwrap());
        assert_eq!(id.moved_to(&mail), id.moved_to(&mail));
        assert_ne!(id.moved_to(&mail), id);
        assert_ne!(id.moved_to(&mail), id.moved_to(&post));
        assert_eq!(Uuid::from_bytes(*id.moved_to(&mail).as_bytes()).get_version_num(), 7);
    }

    #[test]
    fn ids_round_trip_as_text_and_bytes() {
        let id = JobId::new();
        assert_eq!(id.to_string().parse::<JobId>().unwrap(), id);
        assert_eq!(JobId::from_bytes(*id.as_bytes()), id);
        assert!(JobId::new() > id, "version 7 ids of one process grow");
    }

    #[test]
    fn a_bad_id_says_what_would_be_right() {
        let error = "12".parse::<JobId>().unwrap_err().to_string();
        assert!(error.starts_with("\"12\" is not a job id: expected a UUID"), "{error}");
    }
}
