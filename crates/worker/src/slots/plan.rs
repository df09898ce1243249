//! What to ask the store for: free slots, and a bounded number of jobs ahead.
//!
//! A buffer holds about [`AHEAD`] worth of work at the speed at which it really goes. A queue of slow jobs is
//! therefore claimed one slot at a time, and other workers get the rest. So is a queue with limits, whatever its speed: what
//! frees while a claim is in flight goes with the next one.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use windlass_core::store::{ClaimRequest, QueueShare};
use windlass_core::{Fence, LeaseId, Name};

use super::{Intake, Slots};

/// How much work may wait in a buffer.
const AHEAD: Duration = Duration::from_millis(40);
/// The time over which speed is averaged.
const AVERAGED: Duration = Duration::from_millis(100);
/// Payload that may wait, in bytes.
const BYTES_MAX: usize = 16 << 20;
/// Payload that a claim for free slots may always bring.
const BYTES_LEAST: usize = 1 << 20;
/// How often bytes and prefetch are halved at most while claims are not answered.
const SHRINKS_MAX: u32 = 10;

/// What to ask for, and what is concluded from the answer.
pub(crate) struct Plan {
    pub(crate) lease: LeaseId,
    /// The nonce of this claim, by which what it took is found if its answer is lost.
    pub(crate) nonce: u64,
    /// In the order in which the store serves them.
    pub(super) shares: Vec<Asking>,
    pub(super) limit: usize,
    /// How many of them have a slot.
    pub(super) at_once: usize,
    pub(super) bytes: usize,
}

/// What is asked of one queue.
#[derive(Clone, Copy)]
pub(super) struct Asking {
    /// Its buffer.
    pub(super) queue: usize,
    /// How many jobs.
    pub(super) limit: usize,
    /// The hints that are heeded.
    pub(super) hints: u64,
}

impl Plan {
    /// The queues that are asked.
    pub(crate) fn queues(&self, queues: &[Name]) -> Vec<Name> {
        self.shares.iter().map(|asking| queues[asking.queue].clone()).collect()
    }

    /// The request to the store.
    pub(crate) fn request(&self, queues: &[Name], kinds: &[Name]) -> ClaimRequest {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let share =
            |asking: &Asking| QueueShare { queue: queues[asking.queue].clone(), limit: count(asking.limit) };
        ClaimRequest {
            lease: self.lease,
            nonce: self.nonce,
            queues: self.shares.iter().map(share).collect(),
            kinds: kinds.to_vec(),
            limit: count(self.limit),
            at_once: count(self.at_once),
            bytes: self.bytes,
        }
    }
}

impl Slots {
    /// What to ask for now, if anything. Until [`Slots::claim_ended`] there is no second plan.
    pub(crate) fn plan(&mut self, now: Instant) -> Option<Plan> {
        let lease = self.lease?;
        if self.claiming.is_some() || self.intake != Intake::Open {
            return None;
        }
        let mut room = self.config.prefetch_max.saturating_sub(self.waiting());
        let mut ahead_total = 0;
        let mut shares = Vec::new();
        for step in 0..self.buffers.len() {
            let index = (self.turn + step) % self.buffers.len();
            let buffer = &mut self.buffers[index];
            buffer.target = buffer.rate.ahead(buffer.finished, now).min(self.config.prefetch_max);
            if buffer.is_dry {
                continue;
            }
            let (free, waiting) = (self.shares.free(index).saturating_sub(buffer.suspects()), buffer.len());
            let target = if buffer.is_limited { 0 } else { buffer.target >> self.shrinks };
            let ahead = if waiting <= target / 2 { (target - waiting).min(room) } else { 0 };
            let free = if buffer.is_limited { free.saturating_sub(waiting) } else { free };
            if free + ahead > 0 {
                room -= ahead;
                ahead_total += ahead;
                shares.push(Asking { queue: index, limit: free + ahead, hints: buffer.hints });
            }
        }
        if shares.is_empty() {
            return None;
        }
        // The next claim begins with another queue; those whose reserved slots are free always come first,
        // so that whatever a noisy one takes, it does not use up their part of the limits.
        self.turn = (self.turn + 1) % self.buffers.len();
        shares.sort_by_key(|asking| Reverse(self.shares.reserved_free(asking.queue).min(1)));
        self.claiming = Some(lease);
        let bytes = BYTES_MAX.saturating_sub(self.waiting_bytes).max(BYTES_LEAST) >> self.shrinks;
        let at_once = self.shares.free_total();
        let limit = at_once + ahead_total;
        Some(Plan { lease, nonce: Fence::nonce(), shares, limit, at_once, bytes })
    }

    /// The store did not answer a claim: the next one asks for half as many bytes and half as much ahead. An answer
    /// that is too large for the connection would never come; and what is claimed while the store comes and goes
    /// may have to be given back.
    pub(crate) fn claim_failed(&mut self) {
        self.shrinks = (self.shrinks + 1).min(SHRINKS_MAX);
    }

    /// The claim has ended; the next may follow.
    pub(crate) fn claim_ended(&mut self) {
        self.claiming = None;
        self.asked.forget();
    }
}

/// How fast jobs of a buffer are finished.
pub(super) struct Rate {
    per_second: f64,
    counted: u64,
    since: Instant,
}

impl Rate {
    pub(super) fn new(now: Instant) -> Self {
        Self { per_second: 0.0, counted: 0, since: now }
    }

    /// A speed, for tests.
    #[cfg(test)]
    pub(super) fn of(per_second: f64, now: Instant) -> Self {
        Self { per_second, ..Self::new(now) }
    }

    /// How many jobs are worth having ahead, given how many were finished so far.
    pub(super) fn ahead(&mut self, finished: u64, now: Instant) -> usize {
        let elapsed = now.saturating_duration_since(self.since).as_secs_f64();
        // Too short to tell anything.
        if elapsed >= 0.000_1 {
            let seen = (finished - self.counted) as f64 / elapsed;
            let weight = 1.0 - (-elapsed / AVERAGED.as_secs_f64()).exp();
            self.per_second += (seen - self.per_second) * weight;
            (self.counted, self.since) = (finished, now);
        }
        (self.per_second * AHEAD.as_secs_f64()) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_followed_up_and_down() {
        let start = Instant::now();
        let mut rate = Rate::new(start);
        assert_eq!(rate.ahead(0, start), 0);
        let mut now = start;
        for step in 1..=100u64 {
            now = start + Duration::from_millis(step * 10);
            rate.ahead(step * 100, now);
        }
        let ahead = rate.ahead(10_000, now);
        assert!((390..=400).contains(&ahead), "10,000 per second are 400 in 40 ms, not {ahead}");
        assert_eq!(rate.ahead(10_000, now + Duration::from_secs(5)), 0, "nothing moves any more");
    }
}
