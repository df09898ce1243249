//! Who waits for jobs, as their last claims have shown.

use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::store::{ClaimAnswer, ClaimRequest};
use windlass_core::{LeaseId, Name};

/// The most leases that are remembered; one that has gone is remembered until somebody waits for it in vain.
const LEASES_MAX: usize = 64;

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
}

impl Waiting {
    /// Whether somebody waits for this job.
    pub(super) fn want(&self, job: &NewJob) -> bool {
        let is_wanted = |waiter: &Waiter| {
            waiter.claims == 0 && waiter.queues.contains(&job.queue) && waiter.kinds.contains(&job.kind)
        };
        job.due == Due::Now && self.0.iter().any(is_wanted)
    }

    /// Nobody came for jobs of this queue, so nobody waits.
    pub(super) fn despair(&mut self, queue: &Name) {
        self.0.iter_mut().for_each(|waiter| waiter.queues.retain(|name| name != queue));
        self.0.retain(|waiter| waiter.claims > 0 || !waiter.queues.is_empty());
    }

    /// A claim begins: who asks does not wait.
    pub(super) fn begin(&mut self, request: &ClaimRequest) {
        let waiter = match self.0.iter().position(|waiter| waiter.lease == request.lease) {
            Some(place) => &mut self.0[place],
            None => {
                if self.0.len() >= LEASES_MAX {
                    self.0.retain(|waiter| waiter.claims > 0);
                }
                let (queues, kinds) = (Vec::new(), request.kinds.clone());
                self.0.push(Waiter { lease: request.lease, queues, kinds, claims: 0 });
                self.0.last_mut().expect("it was just put there")
            }
        };
        waiter.claims += 1;
        waiter.queues.retain(|name| request.queues.iter().all(|share| share.queue != *name));
        if waiter.kinds != request.kinds {
            waiter.kinds.clone_from(&request.kinds);
        }
    }

    /// A claim has ended, with an answer or without. Where it got less than it asked for, it waits for more.
    pub(super) fn end(&mut self, request: &ClaimRequest, answer: Option<&ClaimAnswer>) {
        let Some(waiter) = self.0.iter_mut().find(|waiter| waiter.lease == request.lease) else { return };
        waiter.claims = waiter.claims.saturating_sub(1);
        let Some(ClaimAnswer::Jobs { jobs, .. }) = answer else { return };
        if jobs.len() >= request.limit as usize {
            return;
        }
        for share in &request.queues {
            let got = jobs.iter().filter(|job| job.queue == share.queue).count();
            if got < share.limit as usize && !waiter.queues.contains(&share.queue) {
                waiter.queues.push(share.queue.clone());
            }
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
