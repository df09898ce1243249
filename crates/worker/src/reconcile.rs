//! Gives back what this worker holds in the store and does not run: jobs of a claim whose answer was lost, and jobs
//! that do not read.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use windlass_core::backoff::with_retries;
use windlass_core::job::{LostJob, Unreadable};
use windlass_core::store::{Right, Settled, Settlement, StoreResult};
use windlass_core::{JobId, LeaseId, Name, Outcome, Store, StoreError, judge};

use crate::attempts::Attempts;
use crate::client::Client;
use crate::health::UnreadableHealth;
use crate::lease::Lease;
use crate::observe::Observe;
use crate::retries::{endless, spread};
use crate::settling::{self, Answered};

/// The pauses before each look for the jobs of a claim whose answer was lost. The claim may still be in flight: the last
/// look is later than any store lets a call run by default. What comes even later is given back when the lease ends.
const PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1_600),
    Duration::from_millis(6_400),
    Duration::from_millis(25_600),
];
/// Jobs of one call.
const BATCH_MAX: u32 = 500;
/// How long a job is left alone that a newer program wrote.
const NEWER_PAUSE: Duration = Duration::from_secs(30);

/// A claim that was not answered in some of its queues.
pub(crate) struct UnansweredClaim {
    pub(crate) lease: LeaseId,
    pub(crate) nonce: u64,
    pub(crate) queues: Arc<[Name]>,
    /// The jobs that the answer brought all the same: these stay.
    pub(crate) known: Vec<JobId>,
}

/// Gives jobs back to the store in the background.
pub(crate) struct Reconciler {
    store: Arc<dyn Store>,
    lease: Arc<Lease>,
    attempts: Arc<Attempts>,
    observe: Observe,
    /// The newest job that could not be read and how many there were.
    unreadable: Mutex<UnreadableHealth>,
}

impl Reconciler {
    pub(crate) fn new(client: &Client, lease: Arc<Lease>, attempts: Arc<Attempts>) -> Self {
        let (store, observe) = (Arc::clone(client.store()), client.observe().clone());
        Self { store, lease, attempts, observe, unreadable: Mutex::default() }
    }

    /// Jobs that could not be read.
    pub(crate) fn unreadable(&self) -> UnreadableHealth {
        self.noted().clone()
    }

    fn noted(&self) -> MutexGuard<'_, UnreadableHealth> {
        self.unreadable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks for what an unanswered claim took, and gives it back as if it had never been claimed. Ends when the claim
    /// cannot take anything any more, or with the lease: then a reaper gives back what never began.
    pub(crate) fn reconcile(self: &Arc<Self>, claim: UnansweredClaim) {
        let this = Arc::clone(self);
        self.attempts.runtime.spawn(async move {
            for pause in PAUSES {
                tokio::time::sleep(pause).await;
                while this.lease.is_kept(claim.lease)
                    && let Ok(jobs) = this.while_kept(claim.lease, || this.give_back(&claim)).await
                    && jobs > 0
                {
                    tracing::warn!(jobs, "gave back jobs of a claim whose answer was lost");
                    this.attempts.wakers.fetcher.notify_one();
                }
            }
        });
    }

    /// Gives back the jobs of a claim that are not known here, and answers how many. Known ones count towards the limit
    /// of the call, so that they hide none.
    async fn give_back(&self, claim: &UnansweredClaim) -> StoreResult<usize> {
        let limit = BATCH_MAX.saturating_add(u32::try_from(claim.known.len()).unwrap_or(u32::MAX));
        let held = self.store.held(claim.lease, claim.nonce, Arc::clone(&claim.queues), limit).await?;
        let unknown: Vec<_> = held.iter().filter(|job| !claim.known.contains(&job.id)).collect();
        let back: Arc<[_]> = unknown.iter().map(|job| settlement(job, fate(job))).collect();
        if back.is_empty() {
            return Ok(0);
        }
        let answers = self.store.settle(Arc::clone(&back)).await?;
        for ((job, told), answer) in unknown.into_iter().zip(&*back).zip(&answers) {
            if let Settled::Applied(state) = answer {
                self.observe.given_back(job, &told.transition, *state);
            }
        }
        Ok(answers.iter().filter(|answer| matches!(answer, Settled::Applied(_))).count())
    }

    /// Settles jobs that a claim took and that do not read: as dead, or back to wait for a newer program.
    pub(crate) fn settle_unreadable(self: &Arc<Self>, lease: LeaseId, jobs: Vec<LostJob>) {
        if jobs.is_empty() {
            return;
        }
        for job in &jobs {
            let why = job.unreadable.as_ref().map(ToString::to_string).unwrap_or_default();
            tracing::error!(job.id = %job.id, job.queue = %job.queue, why, "a job cannot be read");
            let mut noted = self.noted();
            noted.jobs = noted.jobs.saturating_add(1);
            noted.last = Some(format!("job {}: {why}", job.id));
        }
        let this = Arc::clone(self);
        self.attempts.runtime.spawn(async move {
            let ends: Vec<_> = jobs.iter().map(|job| settlement(job, fate(job))).collect();
            let write = || async {
                let written = settling::write_lost(&*this.store, Right::Fence, &jobs, &ends).await;
                for ((job, told), answer) in jobs.iter().zip(&ends).zip(&written.answers) {
                    if let Some(Answered::Applied(state)) = answer {
                        this.observe.given_back(job, &told.transition, *state);
                    }
                }
                written.failed.map_or(Ok(()), Err)
            };
            let _ = this.while_kept(lease, write).await;
        });
    }

    /// Repeats a call until the store answers, as long as the lease that it is about is kept.
    async fn while_kept<T, Call>(&self, lease: LeaseId, call: impl FnMut() -> Call) -> StoreResult<T>
    where
        Call: Future<Output = StoreResult<T>>,
    {
        let pause = |error: &StoreError, pause: Duration| {
            tracing::debug!(%error, "cannot give back jobs that do not run here");
            async move {
                tokio::time::sleep(pause).await;
                self.lease.is_kept(lease)
            }
        };
        with_retries(&mut endless().refusals_max(u32::MAX), call, pause).await
    }
}

/// What becomes of a job that was claimed and cannot or will not begin here.
fn fate(job: &LostJob) -> Outcome {
    match job.unreadable {
        Some(Unreadable::Newer { .. }) => Outcome::Snooze { after: spread(NEWER_PAUSE) },
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
