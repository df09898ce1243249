//! Gives back what this worker holds in the store and does not run: jobs of a claim whose answer was lost, and jobs
//! that do not read.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::job::{LostJob, Unreadable};
use windlass_core::store::{Settled, Settlement, StoreResult};
use windlass_core::{JobId, LeaseId, Name, Outcome, judge};

use crate::engine::Engine;
use crate::supervise::backoff;

/// When it is looked after a claim whose answer was lost, each time after the one before. The claim may still be on its
/// way: the last look is later than any store lets a call run by default. What comes even later is given back when
/// the lease ends.
const LOOKS: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_600),
    Duration::from_millis(6_400),
    Duration::from_millis(25_600),
];
/// Jobs of one look.
const BATCH_MAX: u32 = 500;
/// How long a job is left alone that a newer program wrote.
const NEWER_PAUSE: Duration = Duration::from_secs(30);

/// A claim that was not answered in some of its queues.
pub(crate) struct Unheard {
    pub(crate) lease: LeaseId,
    pub(crate) nonce: u64,
    pub(crate) queues: Vec<Name>,
    /// What the answer brought all the same: these are ours and stay.
    pub(crate) known: Vec<JobId>,
}

impl Engine {
    /// Looks for what an unheard claim took, and gives it back as if it had never been claimed. Ends when the claim
    /// cannot take anything any more, or with the lease: then a reaper gives back what never began.
    pub(crate) fn reconcile(self: &Arc<Self>, claim: Unheard) {
        let engine = Arc::clone(self);
        self.runtime.spawn(async move {
            for pause in LOOKS {
                tokio::time::sleep(pause).await;
                let mut failures = 0;
                while engine.lease.is_kept(claim.lease) {
                    match engine.give_back_unheard(&claim).await {
                        Ok(0) => break,
                        Ok(jobs) => {
                            failures = 0;
                            tracing::warn!(jobs, "gave back jobs of a claim whose answer was lost");
                            engine.hungry.notify_one();
                        }
                        Err(error) => {
                            failures += 1;
                            tracing::debug!(%error, "cannot look after a claim whose answer was lost");
                            tokio::time::sleep(backoff(failures)).await;
                        }
                    }
                }
            }
        });
    }

    /// Gives back what is held by a claim and not known of, and answers how much. What is known counts towards the
    /// limit of a look, so that it hides nothing.
    async fn give_back_unheard(&self, claim: &Unheard) -> StoreResult<usize> {
        let limit = BATCH_MAX.saturating_add(u32::try_from(claim.known.len()).unwrap_or(u32::MAX));
        let held = self.store().held(claim.lease, claim.nonce, &claim.queues, limit).await?;
        let unknown = held.iter().filter(|job| !claim.known.contains(&job.id));
        let back: Vec<_> = unknown.map(|job| settlement(job, fate(job))).collect();
        if back.is_empty() {
            return Ok(0);
        }
        let answers = self.store().settle(&back).await?;
        Ok(answers.iter().filter(|answer| matches!(answer, Settled::Applied(_))).count())
    }

    /// Sets jobs aside that a claim took and that do not read: as dead, or back to wait for a newer program.
    pub(crate) fn set_aside(self: &Arc<Self>, lease: LeaseId, jobs: Vec<LostJob>) {
        if jobs.is_empty() {
            return;
        }
        for job in &jobs {
            let why = job.unreadable.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::error!(job.id = %job.id, job.queue = %job.queue, why, "a job cannot be read");
            self.note_unreadable(job.id, &why);
        }
        let settlements: Vec<_> = jobs.iter().map(|job| settlement(job, fate(job))).collect();
        let engine = Arc::clone(self);
        self.runtime.spawn(async move {
            let mut failures = 0;
            while let Err(error) = engine.store().settle(&settlements).await {
                failures += 1;
                tracing::debug!(%error, "cannot set aside jobs that do not read");
                if !engine.lease.is_kept(lease) {
                    return;
                }
                tokio::time::sleep(backoff(failures)).await;
            }
        });
    }
}

/// What becomes of a job that was claimed and cannot or will not begin here.
fn fate(job: &LostJob) -> Outcome {
    match job.unreadable {
        Some(Unreadable::Newer { .. }) => {
            Outcome::Snooze { after: NEWER_PAUSE.mul_f64(0.75 + fastrand::f64() / 2.0) }
        }
        Some(Unreadable::Broken(_)) => job.outcome(),
        None => Outcome::Returned,
    }
}

fn settlement(job: &LostJob, outcome: Outcome) -> Settlement {
    Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, outcome, fastrand::f64()),
    }
}
