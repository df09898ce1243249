//! The claim: what is due becomes ready, and whose turn it is becomes running, in one step.

mod keyed;

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::job::ClaimedJob;
use windlass_core::queue::{Aged, RULE_OF_KEYS, within};
use windlass_core::store::{
    Cause, ClaimAnswer, ClaimRequest, PROMOTE_MAX, QueueShare, Room, SickQueue, is_near,
};
use windlass_core::{Fence, Name, State};

use crate::aged;
use crate::bug::Bug;
use crate::job::{Claim, Seq};
use crate::table::Table;

/// A claim that is being filled.
struct Filling<'a> {
    request: &'a ClaimRequest,
    claim: Claim,
    nonce: u64,
    room: Room,
    jobs: Vec<ClaimedJob>,
    /// Whether limits of the queue that is asked are near, or of one of its keys.
    is_near: bool,
}

impl Table {
    pub(crate) fn claim(&mut self, request: &ClaimRequest, now: Timestamp) -> ClaimAnswer {
        let lost_too = self.leases.get(request.lease).filter(|_| self.has(Bug::ClaimUnderLostLease));
        let Some(lease) = self.leases.alive(request.lease, now).or(lost_too) else {
            return ClaimAnswer::LeaseLost;
        };
        let claim = Claim { lease: request.lease, worker: lease.worker.clone(), at: now };
        let limit = if self.has(Bug::IgnoreClaimLimit) { u32::MAX } else { request.limit };
        let bytes = if self.has(Bug::IgnoreClaimBytes) { usize::MAX } else { request.bytes };
        let room = Room::new(limit, bytes);
        let nonce = if self.has(Bug::OwnNonce) { Fence::nonce() } else { request.nonce };
        let mut filling = Filling { request, claim, nonce, room, jobs: Vec::new(), is_near: false };
        let (mut next_due, mut sick): (Option<Duration>, _) = (None, Vec::new());
        let (mut limited, mut ample) = (Vec::new(), Vec::new());
        for share in &request.queues {
            if let Some(unknown) = SickQueue::of_rules(&share.queue, self.rules(&share.queue)) {
                sick.push(unknown);
                continue;
            }
            let expired = if self.has(Bug::ClaimExpired) { 0 } else { PROMOTE_MAX };
            self.promote(&share.queue, now, expired, PROMOTE_MAX);
            if self.has_expired(&share.queue, now) && !self.has(Bug::ClaimExpired) {
                // More than one call moves: they could be next in turn, and must not be handed out.
                next_due = Some(Duration::ZERO);
                continue;
            }
            self.fill(&mut filling, share, now);
            if self.queues.get(&share.queue).is_some_and(|queue| queue.config.limits()) {
                limited.push(share.queue.clone());
                ample.extend((!filling.is_near).then(|| share.queue.clone()));
            }
            next_due = [next_due, self.next_due(&share.queue, now)].into_iter().flatten().min();
        }
        ClaimAnswer::Jobs { jobs: filling.jobs, next_due, unreadable: Vec::new(), sick, limited, ample }
    }

    /// Takes jobs of one queue, in their turn and as far as its rules leave any.
    fn fill(&mut self, filling: &mut Filling<'_>, share: &QueueShare, now: Timestamp) {
        let wanted = if self.has(Bug::IgnoreClaimLimit) { u32::MAX } else { filling.room.of(share) };
        let (mut wanted, kinds) = self.left(filling, &share.queue, wanted, now);
        let has_keys = self.rules(&share.queue) >= RULE_OF_KEYS;
        let before = filling.jobs.len();
        if !has_keys || filling.request.keyless_first() || self.has(Bug::KeylessAlwaysFirst) {
            wanted -= self.fill_keyless(filling, &share.queue, &kinds, wanted, now);
            if has_keys {
                self.fill_keyed(filling, &share.queue, &kinds, wanted, now);
            }
        } else {
            wanted -= self.fill_keyed(filling, &share.queue, &kinds, wanted, now);
            self.fill_keyless(filling, &share.queue, &kinds, wanted, now);
        }
        if let Some(queue) = self.queues.get_mut(&share.queue) {
            queue.spend((filling.jobs.len() - before) as u64, now);
        }
    }

    /// Takes jobs without a key. Answers how many.
    fn fill_keyless(
        &mut self,
        filling: &mut Filling<'_>,
        queue: &Name,
        kinds: &[Name],
        wanted: u32,
        now: Timestamp,
    ) -> u32 {
        let mut aged = self.aged(queue, filling.nonce).map(|aged| {
            let found =
                self.queues.get(queue).map(|queue| aged::first(queue.lines(kinds), aged, wanted as usize));
            found.unwrap_or_default().into_iter()
        });
        for taken in 0..wanted {
            let next = match &mut aged {
                Some(aged) => aged.next().map(|(_, _, seq)| seq),
                None => self.first_ready(queue, kinds),
            };
            let Some(seq) = next else { return taken };
            if !self.take(filling, seq, now) {
                return taken;
            }
        }
        wanted
    }

    /// Hands out a job, if it fits.
    fn take(&mut self, filling: &mut Filling<'_>, seq: Seq, now: Timestamp) -> bool {
        if !filling.room.take(self.jobs[&seq].new.payload.len()) {
            return false;
        }
        let counts_late = self.has(Bug::CountAttemptLate);
        self.change(seq, (Cause::Claimed, None), |job| {
            job.start(filling.claim.clone(), filling.nonce);
            job.counters.attempt -= u32::from(counts_late);
        });
        let job = &self.jobs[&seq];
        filling.jobs.push(job.claimed(self.config(&job.new.queue).caps, now));
        true
    }

    /// What the rules of a queue leave of what a claim wants: how many jobs, and of which kinds.
    fn left(&self, filling: &mut Filling<'_>, queue: &Name, wanted: u32, now: Timestamp) -> (u32, Vec<Name>) {
        let (all, mut kinds) = (&filling.request.kinds, Vec::new());
        let Some(found) = self.queues.get(queue).filter(|queue| queue.rules > 0) else {
            return (wanted, all.clone());
        };
        kinds.extend(
            all.iter()
                .filter(|kind| self.has(Bug::IgnorePause) || found.config.pauses.permit(kind, now))
                .cloned(),
        );
        let is_ahead = self.has(Bug::ClaimLimitedAhead) || !found.config.limits();
        let at_once = if is_ahead { u32::MAX } else { filling.room.at_once(filling.request) };
        let running = if self.has(Bug::IgnoreConcurrency) { 0 } else { found.counts.of(State::Running) };
        let permits = found.permits(now).filter(|_| !self.has(Bug::IgnoreRate));
        let room = found.config.room(running, permits);
        filling.is_near = is_near(room, wanted);
        (within(wanted.min(at_once), room), kinds)
    }

    /// The order of a queue in which priority is aged.
    fn aged(&self, queue: &Name, nonce: u64) -> Option<Aged> {
        if self.has(Bug::StrictPriority) {
            return None;
        }
        let nonce = if self.has(Bug::SameLevels) { 0 } else { nonce };
        self.queues.get(queue)?.config.aged(nonce)
    }

    fn first_ready(&self, queue: &Name, kinds: &[Name]) -> Option<Seq> {
        let queue = self.queues.get(queue)?;
        if self.has(Bug::LastInFirstOut) { queue.newest_ready(kinds) } else { queue.first_ready(kinds) }
    }

    fn has_expired(&self, queue: &Name, now: Timestamp) -> bool {
        let first = self.queues.get(queue).and_then(|queue| queue.expiring.first());
        first.is_some_and(|&(expiry, _)| expiry <= now)
    }

    /// How long until the next scheduled job of a queue is due, or its rules may leave more.
    fn next_due(&self, queue: &Name, now: Timestamp) -> Option<Duration> {
        let queue = self.queues.get(queue)?;
        let due_at = queue.scheduled.first().map(|&(due_at, _)| due_at);
        let permit_at =
            queue.permits(now).filter(|permits| permits.jobs == 0).and_then(|permits| permits.more_at);
        let ends = [permit_at, queue.config.pauses.next_end(now), queue.gates.next_open()];
        let next = ends.into_iter().chain([due_at]).flatten().min();
        Some(next?.since(now))
    }
}
