//! What to ask the store for: free slots, and a bounded number of jobs ahead.
//!
//! A buffer holds about [`AHEAD`] worth of work at the speed at which it really goes. A queue of slow jobs is
//! therefore claimed one slot at a time, and other workers get the rest. So is a queue with limits that are near, whatever its
//! speed: what frees while a claim is in flight goes with the next one.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use windlass_core::store::{ClaimRequest, QueueShare};
use windlass_core::{Fence, LeaseId, Name};

use super::buffer::Buffer;
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
    /// How many of them have a slot, or come from queues that may give more.
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

/// What a queue could use.
#[derive(Debug, Clone, Copy, Default)]
struct Want {
    /// Free slots that no other queue may use.
    own: usize,
    /// Free slots that others may use as well.
    shared: usize,
    /// Jobs to wait for a slot.
    ahead: usize,
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
        let wants = self.wants(now);
        let (shares, at_once, ahead) = self.split(&wants);
        if shares.is_empty() {
            return None;
        }
        for asking in &shares {
            self.buffers[asking.queue].held_asked = self.buffers[asking.queue].held;
        }
        self.claiming = Some(lease);
        let bytes = BYTES_MAX.saturating_sub(self.waiting_bytes).max(BYTES_LEAST) >> self.shrinks;
        Some(Plan { lease, nonce: Fence::nonce(), shares, limit: at_once + ahead, at_once, bytes })
    }

    /// What each queue could use now.
    fn wants(&mut self, now: Instant) -> Vec<Want> {
        let wants = self.buffers.iter_mut().enumerate().map(|(queue, buffer)| {
            buffer.target = buffer.rate.ahead(buffer.finished, now).min(self.config.prefetch_max);
            if buffer.is_dry {
                return Want::default();
            }
            let most = if buffer.is_limited { 0 } else { buffer.ample.unwrap_or(usize::MAX) };
            let target = (buffer.target >> self.shrinks).min(most);
            let ahead = if buffer.len() <= target / 2 { target - buffer.len() } else { 0 };
            let free = self.shares.free(queue);
            let reserved = self.shares.reserved_free(queue).min(free);
            // Jobs that wait here have the first right to these slots. Those of a queue without limits are all started that
            // can start now, except suspects.
            let waiting = if buffer.is_limited { buffer.total() } else { buffer.suspects() };
            let own = (buffer.held + reserved).saturating_sub(waiting.saturating_sub(free - reserved));
            Want { own, shared: (free - reserved).saturating_sub(waiting), ahead }
        });
        wants.collect()
    }

    /// What is asked of each queue, in order; how many of all that have a slot, or are of a queue whose limits are far; how
    /// many do not. Shared slots and the room for jobs that wait go by weight. The store serves the queues in this order,
    /// each to its limit, and the last that has a part may use what others leave.
    fn split(&self, wants: &[Want]) -> (Vec<Asking>, usize, usize) {
        let sum = |of: fn(&Want) -> usize| wants.iter().map(of).sum::<usize>();
        let (own_all, shared) =
            (sum(|want| want.own), self.shares.shared_free().min(sum(|want| want.shared)));
        let parts = self.parts(shared, wants, |want| want.shared);
        let room = self.config.prefetch_max.saturating_sub(self.waiting());
        let ahead = self.parts(room, wants, |want| want.ahead);
        let mut order: Vec<usize> = (0..wants.len()).collect();
        // Queues whose reserved slots are free come first, so that whatever a noisy one takes, it does not use up their part
        // of the bytes.
        order.sort_by_key(|&queue| {
            let has_reserved = self.shares.reserved_free(queue) > 0;
            (!has_reserved, parts[queue] == 0, Reverse(self.rotation.standing(queue)))
        });
        let of_ample = |(buffer, ahead): (&Buffer, &usize)| if buffer.ample.is_some() { *ahead } else { 0 };
        let ample: usize = self.buffers.iter().zip(&ahead).map(of_ample).sum();
        let last = order.iter().rposition(|queue| parts[*queue] > 0).unwrap_or(0);
        let asking = order.iter().enumerate().map(|(place, &queue)| {
            let (want, buffer) = (&wants[queue], &self.buffers[queue]);
            // Jobs that must begin at once cannot use slots that are for another queue only, or room of one whose limits are far.
            let may_use_rest = place >= last && (!buffer.is_limited || own_all + ample == want.own);
            let part = if may_use_rest { want.shared } else { parts[queue] };
            Asking { queue, limit: want.own + part + ahead[queue], hints: buffer.hints }
        });
        let asking = asking.filter(|asking| asking.limit > 0).collect();
        (asking, own_all + shared + ample, ahead.iter().sum::<usize>() - ample)
    }

    fn parts(&self, total: usize, wants: &[Want], of: fn(&Want) -> usize) -> Vec<usize> {
        let wanted: Vec<usize> = wants.iter().map(of).collect();
        if wanted.iter().sum::<usize>() <= total { wanted } else { self.rotation.split(total, &wanted) }
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
        self.release_asked();
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
