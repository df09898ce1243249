//! Who waits for jobs, as their last claims have shown.

use std::time::Duration;

use windlass_core::job::NewJob;
use windlass_core::store::{ClaimAnswer, ClaimRequest};
use windlass_core::{LeaseId, Name};

/// The most leases that are remembered.
const LEASES_MAX: usize = 64;

/// A worker whose claims take longer would hold up an enqueue that it goes along with.
const CLAIM_SLOW: Duration = Duration::from_millis(50);

/// The most claims that a worker which does not come when it is rung for has to make before it counts again.
const SKIPS_MAX: u32 = 64;

/// The workers of this process that found less than they had room for.
#[derive(Debug, Default)]
pub(super) struct Waiting(Vec<Waiter>);

#[derive(Debug)]
struct Waiter {
    lease: LeaseId,
    /// Where it found all there was.
    queues: Vec<Name>,
    kinds: Vec<Name>,
    /// Claims on their way.
    claims: usize,
    /// Claims that do not count, since it did not come; and how many there will be when that happens again.
    skip: u32,
    skip_next: u32,
}

/// What became of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ended<'a> {
    /// Nothing, if it was not answered.
    pub(super) answer: Option<&'a ClaimAnswer>,
    /// How long the server took, as far as is known.
    pub(super) took: Duration,
    /// Whether it went along with an enqueue.
    pub(super) is_along: bool,
}

impl Waiting {
    /// Whether a worker waits for this job.
    pub(super) fn want(&self, job: &NewJob) -> bool {
        let is_wanted = |waiter: &Waiter| {
            waiter.claims == 0 && waiter.queues.contains(&job.queue) && waiter.kinds.contains(&job.kind)
        };
        self.0.iter().any(is_wanted)
    }

    /// No claim came for jobs of these queues. A worker that seemed to wait there does not, or wakes too slowly.
    pub(super) fn penalize(&mut self, queues: &[Name]) {
        for waiter in &mut self.0 {
            let before = waiter.queues.len();
            waiter.queues.retain(|name| !queues.contains(name));
            if waiter.queues.len() < before {
                waiter.skip = waiter.skip_next;
                waiter.skip_next = (waiter.skip_next * 2).clamp(1, SKIPS_MAX);
            }
        }
    }

    /// A claim begins: who asks does not wait.
    pub(super) fn begin(&mut self, request: &ClaimRequest) {
        let waiter = self.waiter(request.lease);
        waiter.claims += 1;
        waiter.queues.retain(|name| request.queues.iter().all(|share| share.queue != *name));
        if waiter.kinds != request.kinds {
            waiter.kinds.clone_from(&request.kinds);
        }
    }

    /// A claim has ended. Where it got less than it asked for, its worker waits for more.
    pub(super) fn end(&mut self, request: &ClaimRequest, ended: Ended<'_>) {
        let waiter = self.waiter(request.lease);
        waiter.claims = waiter.claims.saturating_sub(1);
        let Some(ClaimAnswer::Jobs { jobs, .. }) = ended.answer else { return };
        if ended.is_along {
            (waiter.skip, waiter.skip_next) = (0, 0);
        } else if waiter.skip > 0 {
            waiter.skip -= 1;
            return;
        }
        if jobs.len() >= request.limit as usize || ended.took > CLAIM_SLOW {
            return;
        }
        for share in &request.queues {
            let got = jobs.iter().filter(|job| job.queue == share.queue).count();
            if got < share.limit as usize && !waiter.queues.contains(&share.queue) {
                waiter.queues.push(share.queue.clone());
            }
        }
    }

    fn waiter(&mut self, lease: LeaseId) -> &mut Waiter {
        if let Some(place) = self.0.iter().position(|waiter| waiter.lease == lease) {
            return &mut self.0[place];
        }
        if self.0.len() >= LEASES_MAX {
            // The store does not hear when a lease has gone. The oldest are the likeliest; one that lives is soon here again.
            self.0.remove(0);
        }
        let (queues, kinds) = (Vec::new(), Vec::new());
        self.0.push(Waiter { lease, queues, kinds, claims: 0, skip: 0, skip_next: 0 });
        self.0.last_mut().expect("it was just put there")
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
