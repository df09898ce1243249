//! What a worker asks for when it claims jobs, and what it gets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::StoreErrorKind;
use crate::id::LeaseId;
use crate::job::{ClaimedJob, LostJob};
use crate::name::Name;
use crate::queue::check_rules;

/// What a worker asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClaimRequest {
    /// The lease to put them under.
    pub lease: LeaseId,
    /// The nonce of the fences that this claim hands out, made by the caller with [`Fence::nonce`](crate::id::Fence::nonce).
    pub nonce: u64,
    /// The queues, served in this order. A queue appears once, and is one that the lease was opened for.
    pub queues: Vec<QueueShare>,
    /// The kinds this worker knows. Others are never claimed.
    pub kinds: Vec<Name>,
    /// How many jobs at most.
    pub limit: u32,
    /// How many of them can begin as soon as they are there. The others wait for a slot, and a queue with limits gives none to
    /// wait: they would take the place of jobs that could run elsewhere. Where limits are [far](ClaimAnswer::Jobs::ample), a worker
    /// counts here also what it has room for to wait.
    pub at_once: u32,
    /// How many bytes of payload at most; the first job is handed out whatever its size.
    pub bytes: usize,
}

impl ClaimRequest {
    /// Whether a queue with the rule of keys gives jobs without a key first, and then those that have one.
    pub const fn keyless_first(&self) -> bool {
        self.nonce.is_multiple_of(2)
    }
}

/// How many jobs one queue may give to a claim.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueShare {
    /// The queue.
    pub queue: Name,
    /// How many at most.
    pub limit: u32,
}

/// What a claim may still take.
#[derive(Debug, Clone)]
pub struct Room {
    jobs: u32,
    bytes: usize,
    taken: usize,
    is_untouched: bool,
}

impl Room {
    /// So many jobs, and so many bytes of payload.
    pub fn new(jobs: u32, bytes: usize) -> Self {
        Self { jobs, bytes, taken: 0, is_untouched: true }
    }

    /// How many jobs a queue with rules may give of those that can begin at once, of a request for `limit` jobs.
    pub fn at_once(&self, request: &ClaimRequest) -> u32 {
        request.at_once.saturating_sub(request.limit.saturating_sub(self.jobs))
    }

    /// How many jobs a queue may give.
    pub fn of(&self, share: &QueueShare) -> u32 {
        self.jobs.min(share.limit)
    }

    /// How many bytes of payload may still be taken.
    pub fn bytes(&self) -> usize {
        self.bytes.saturating_sub(self.taken)
    }

    /// Takes the job whose turn it is, if its payload still fits; the first one always does. One that does not
    /// fit ends the claim: nothing after it is taken, or it would lose its turn to smaller ones.
    #[must_use]
    pub fn take(&mut self, payload: usize) -> bool {
        let taken = self.taken.saturating_add(payload);
        let fits = self.jobs > 0 && (self.is_untouched || taken <= self.bytes);
        self.jobs = if fits { self.jobs - 1 } else { 0 };
        self.is_untouched = false;
        self.taken = taken;
        fits
    }
}

/// How many times as many jobs as a claim asks for the limits of a queue must leave, for jobs to wait for a slot: what one worker
/// has in its buffer is then a small part of what others may start.
pub const AMPLE: u64 = 10;

/// Whether limits with so much room (nothing: any) are near for a claim that asks for so many jobs.
pub fn is_near(room: Option<u64>, wanted: u32) -> bool {
    room.is_some_and(|room| room < AMPLE * u64::from(wanted))
}

/// What a worker gets.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClaimAnswer {
    /// Jobs, possibly none.
    Jobs {
        /// The jobs, in the order in which they should start.
        jobs: Vec<ClaimedJob>,
        /// How long until the next scheduled job of these queues, of any kind, is due, a pause of one of them ends, or a
        /// rate that kept jobs back has a permit, if there is such a time. Zero
        /// when more jobs were due or expired than one call moves. A short while when other calls had locked
        /// jobs that this one could have taken: they may be free again by then.
        next_due: Option<Duration>,
        /// Jobs that were taken and that this program cannot read.
        unreadable: Vec<LostJob>,
        /// Queues that could not be asked; the others were.
        sick: Vec<SickQueue>,
        /// Queues that have limits, and gave no more than could begin at once.
        limited: Vec<Name>,
        /// Of these, queues whose limits left at least [`AMPLE`] times as many jobs as the request asks for: a worker may count
        /// jobs of theirs that wait for a slot as such that can begin at once. A store that does not know names none.
        ample: Vec<Name>,
    },
    /// The lease is unknown or has run out; nothing was handed out.
    LeaseLost,
}

impl ClaimAnswer {
    /// Jobs and when the next one is due, where nothing is wrong.
    pub fn jobs(jobs: Vec<ClaimedJob>, next_due: Option<Duration>) -> Self {
        let (unreadable, sick, limited, ample) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self::Jobs { jobs, next_due, unreadable, sick, limited, ample }
    }
}

/// A queue that a claim could not ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SickQueue {
    /// The queue.
    pub queue: Name,
    /// What is wrong with it.
    pub what: String,
    /// What can be done about it; with [`StoreErrorKind::Unknown`] the claim may have taken jobs there.
    pub kind: StoreErrorKind,
}

impl SickQueue {
    /// That a queue uses a rule which this program does not know, if so. Nothing is taken there.
    pub fn of_rules(queue: &Name, rules: u32) -> Option<Self> {
        let error = check_rules(queue, rules).err()?;
        Some(Self { queue: queue.clone(), what: error.to_string(), kind: StoreErrorKind::Unavailable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(limit: u32) -> QueueShare {
        QueueShare { queue: Name::new("q").unwrap(), limit }
    }

    #[test]
    fn a_claim_takes_what_fits_and_ends_with_what_does_not() {
        let mut room = Room::new(9, 10);
        assert!(room.take(4) && room.take(6), "up to the very byte");
        assert!(room.take(0), "an empty one always fits");
        assert_eq!((room.of(&share(2)), room.of(&share(9))), (2, 6));
        assert!(!room.take(1));
        assert!(!room.take(0), "it would lose its turn");
        assert_eq!(room.of(&share(9)), 0);
    }

    #[test]
    fn the_first_is_taken_whatever_its_size() {
        let mut room = Room::new(9, 10);
        assert!(room.take(11) && !room.take(0), "above the limit not even an empty one fits");
        let mut room = Room::new(2, 0);
        assert!(room.take(0) && room.take(0) && !room.take(0), "two jobs were asked for");
        assert!(!Room::new(0, 9).take(0));
        let mut endless = Room::new(u32::MAX, usize::MAX);
        assert!(endless.take(usize::MAX) && endless.take(1), "no limit is none");
    }
}
