//! Takes the jobs of lost leases back, each through the judge.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::job::LostJob;
use windlass_core::store::{Duty, Right, Settlement, StoreResult};
use windlass_core::{Store, judge};

use super::{BATCH_MAX, CALLS_MAX, Round, Sweep};
use crate::attempts::Attempts;
use crate::client::Client;
use crate::health::Part;
use crate::lease::Lease;
use crate::observe::{Call, Observe};
use crate::settling::{self, Answered};

/// Takes lost jobs back and forgets leases without jobs.
#[derive(Clone)]
pub struct Reaper {
    store: Arc<dyn Store>,
    observe: Observe,
}

/// What one round of a [`Reaper`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReapSummary {
    /// Jobs that were taken back, put back or given up.
    pub jobs: u64,
    /// Leases that were forgotten.
    pub leases: u64,
}

impl Reaper {
    /// A reaper for this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store, observe: Observe::default() }
    }

    /// One that counts where this client does.
    pub(crate) fn of(client: &Client) -> Self {
        Self { store: Arc::clone(client.store()), observe: client.observe().clone() }
    }

    /// Takes back what is lost now.
    ///
    /// # Errors
    /// The store's; what was taken back until then stays so.
    pub async fn run_once(&self) -> StoreResult<ReapSummary> {
        let mut summary = ReapSummary::default();
        for _ in 0..CALLS_MAX {
            let taken = self.take_back().await?;
            summary.jobs += u64::from(taken);
            // Nothing taken although something was lost: others were faster, or the next round sees it.
            if taken == 0 {
                break;
            }
        }
        summary.leases = self.store.sweep(BATCH_MAX).await?.leases.into();
        Ok(summary)
    }

    async fn take_back(&self) -> StoreResult<u32> {
        let lost = self.observe.call(Call::Reap, self.store.lost(BATCH_MAX)).await?;
        if lost.is_empty() {
            return Ok(0);
        }
        let end = |job: &LostJob| {
            let transition = judge(&job.facts, job.outcome(), fastrand::f64());
            Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
        };
        // What is told of a job has to do with chance, so it is told once.
        let ends: Vec<Settlement> = lost.iter().map(end).collect();
        let written = settling::write_lost(&*self.store, Right::LostLease, &lost, &ends).await;
        let mut taken = 0;
        for ((job, told), answer) in lost.iter().zip(&ends).zip(written.answers) {
            if let Some(Answered::Applied(state)) = answer {
                taken += 1;
                self.observe.reaped(job, told, state);
                tracing::warn!(
                    job.id = %job.id, job.kind = %job.kind, job.queue = %job.queue, worker = %job.worker, %state,
                    has_begun = job.has_begun,
                    "took back a job whose worker lost its lease"
                );
            }
        }
        // Those that are left come again. As long as others are taken back, they may stand before still others.
        match written.failed {
            Some(error) if taken == 0 => Err(error),
            _ => Ok(taken),
        }
    }
}

/// Without a worker there is nothing to record before.
impl Sweep for Reaper {
    const PART: Part = Part::Reaper;
    const DUTY: Duty = Duty::Reap;

    async fn sweep(&self) -> StoreResult<Round> {
        self.run_once().await.map(|_| Round::Whole)
    }
}

/// How long a round waits for this worker's own outcomes to be recorded.
const RECORD_MAX: Duration = Duration::from_secs(1);

/// The reaper of a worker: records what the worker did before lost jobs are taken back, or it would be done again.
pub(crate) struct WorkerReaper {
    pub(crate) reaper: Reaper,
    pub(crate) lease: Arc<Lease>,
    pub(crate) attempts: Arc<Attempts>,
}

impl Sweep for WorkerReaper {
    const PART: Part = Part::Reaper;
    const DUTY: Duty = Duty::Reap;

    async fn sweep(&self) -> StoreResult<Round> {
        if let Some(until) = self.lease.recovers_until() {
            tokio::time::sleep_until(until).await;
        }
        let settler = &self.attempts.settler;
        if settler.unsettled() > 0 {
            let _ = tokio::time::timeout(RECORD_MAX, settler.run_once()).await;
        }
        self.reaper.run_once().await.map(|_| Round::Whole)
    }

    async fn woken(&self) {
        self.attempts.wakers.reaper.notified().await;
    }
}
