//! Jobs that are handed over to a worker of this process in the transaction that stores them.
//!
//! A worker that waits could be told of a job once it is stored, and would then claim it: a second way to the server
//! and back, and a second wait for the disk. So an enqueue that somebody waits for rings before it is sent. The claim
//! that this brings goes along with it if it comes within a moment, and both are one transaction. The claim gets what
//! it would have got right after the enqueue.
//!
//! Nobody waits for long: neither the enqueue for a claim, nor another claim that was rung for and must not look
//! before the jobs are stored.

mod waiting;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use windlass_core::job::NewJob;
use windlass_core::store::{ClaimAnswer, ClaimRequest, StoreResult};
use windlass_core::{Name, StoreError};

use waiting::Waiting;

/// How long an enqueue waits for a claim to go along. A worker that is awake comes within a tenth of it; after one that
/// does not come, nobody is waited for until it has claimed again.
const COMPANY_WAIT: Duration = Duration::from_millis(1);

/// How long a claim waits for an enqueue that it cannot go along with: longer than most commits take.
const COMMIT_WAIT: Duration = Duration::from_millis(20);

/// Where the enqueues and the claims of a store meet.
#[derive(Debug, Default)]
pub(crate) struct Handover {
    state: Mutex<State>,
    /// An offer has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: Waiting,
    /// One at a time.
    offer: Option<Offer>,
    offers: u64,
}

/// An enqueue that has rung and is not stored yet.
#[derive(Debug)]
struct Offer {
    number: u64,
    queues: Vec<Name>,
    /// Where a claim that goes along is put, until one is.
    place: Option<oneshot::Sender<Companion>>,
    /// A claim would not wait any longer and may have looked too early.
    is_outrun: bool,
}

/// A claim that goes along with an enqueue. If it is dropped, nobody knows what became of it.
#[derive(Debug)]
pub(super) struct Companion {
    pub(super) request: ClaimRequest,
    answer: oneshot::Sender<Made>,
}

/// The answer to a claim, or nothing if it was not made.
type Made = Option<StoreResult<ClaimAnswer>>;

/// An enqueue that goes on its way. As long as this lives, claims that were rung for wait.
pub(super) struct Offering<'h> {
    handover: &'h Handover,
    number: u64,
}

/// A claim on its way.
struct Claiming<'h> {
    handover: &'h Handover,
    request: &'h ClaimRequest,
}

/// How a claim can be made.
enum Way {
    /// By itself, now.
    Alone,
    /// With an enqueue, which answers it.
    Along(oneshot::Receiver<Made>),
    /// By itself, when an enqueue has ended.
    After,
}

impl Handover {
    /// Offers jobs that are about to be stored to whoever waits for them: rings, and comes back with the claim that
    /// follows. Nothing if nobody waits or nobody comes.
    pub(super) async fn offer(
        &self,
        jobs: &[NewJob],
        ring: impl FnOnce(),
    ) -> Option<(Offering<'_>, Companion)> {
        let (offering, mut coming) = self.make_offer(jobs)?;
        ring();
        if let Ok(Ok(companion)) = timeout(COMPANY_WAIT, &mut coming).await {
            return Some((offering, companion));
        }
        let mut state = self.state();
        // It may have come in the last instant, and nobody can come from now on.
        if let Ok(companion) = coming.try_recv() {
            return Some((offering, companion));
        }
        if let Some(offer) = state.offer.take_if(|offer| offer.number == offering.number) {
            offer.queues.iter().for_each(|queue| state.waiting.despair(queue));
        }
        None
    }

    fn make_offer(&self, jobs: &[NewJob]) -> Option<(Offering<'_>, oneshot::Receiver<Companion>)> {
        let mut state = self.state();
        if state.offer.is_some() || !jobs.iter().any(|job| state.waiting.want(job)) {
            return None;
        }
        let mut queues: Vec<Name> = Vec::new();
        for job in jobs {
            if !queues.contains(&job.queue) {
                queues.push(job.queue.clone());
            }
        }
        let (place, coming) = oneshot::channel();
        state.offers += 1;
        let number = state.offers;
        state.offer = Some(Offer { number, queues, place: Some(place), is_outrun: false });
        Some((Offering { handover: self, number }, coming))
    }

    /// Makes a claim: with an enqueue, after one, or at once by `alone`.
    pub(super) async fn claim(
        &self,
        request: &ClaimRequest,
        alone: impl AsyncFnOnce() -> StoreResult<ClaimAnswer>,
    ) -> StoreResult<ClaimAnswer> {
        let ended = self.ended.notified();
        let (claiming, way) = self.begin(request);
        let made = match way {
            Way::Alone => None,
            Way::Along(answer) => answer.await.unwrap_or_else(|_| {
                let what = "the answer to an enqueue and a claim with it was lost".to_owned();
                Some(Err(StoreError::Unknown { what, source: None }))
            }),
            Way::After => {
                if timeout(COMMIT_WAIT, ended).await.is_err()
                    && let Some(offer) = &mut self.state().offer
                {
                    offer.is_outrun = true;
                }
                None
            }
        };
        let answer = match made {
            Some(answer) => answer?,
            None => alone().await?,
        };
        claiming.answered(&answer);
        Ok(answer)
    }

    fn begin<'h>(&'h self, request: &'h ClaimRequest) -> (Claiming<'h>, Way) {
        let mut state = self.state();
        state.waiting.begin(request);
        let way = match &mut state.offer {
            Some(offer) if offer.is_about(request) => match offer.place.take() {
                Some(place) => Companion::put(request, place),
                None => Way::After,
            },
            _ => Way::Alone,
        };
        (Claiming { handover: self, request }, way)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Offer {
    fn is_about(&self, request: &ClaimRequest) -> bool {
        request.queues.iter().any(|share| self.queues.contains(&share.queue))
    }
}

impl Companion {
    fn put(request: &ClaimRequest, place: oneshot::Sender<Self>) -> Way {
        let (answer, answered) = oneshot::channel();
        match place.send(Self { request: request.clone(), answer }) {
            Ok(()) => Way::Along(answered),
            // The enqueue was given up.
            Err(_) => Way::Alone,
        }
    }

    /// The claim was made.
    pub(super) fn answer(self, answer: StoreResult<ClaimAnswer>) {
        // Whoever has gone away is not missed: what was claimed hangs on its lease.
        let _ = self.answer.send(Some(answer));
    }

    /// The claim was not made, and may be by itself.
    pub(super) fn decline(self) {
        let _ = self.answer.send(None);
    }
}

impl Offering<'_> {
    /// The jobs are stored. Whether everyone who was rung for looks only now.
    pub(super) fn arrive(self) -> bool {
        self.end().is_some_and(|offer| !offer.is_outrun)
    }

    fn end(&self) -> Option<Offer> {
        let ended = self.handover.state().offer.take_if(|offer| offer.number == self.number);
        self.handover.ended.notify_waiters();
        ended
    }
}

impl Drop for Offering<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Claiming<'_> {
    fn answered(self, answer: &ClaimAnswer) {
        self.handover.state().waiting.end(self.request, Some(answer));
        std::mem::forget(self);
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        self.handover.state().waiting.end(self.request, None);
    }
}

#[cfg(test)]
mod tests;
