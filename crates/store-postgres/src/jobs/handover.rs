//! Jobs that are handed over to a worker of this process in the transaction that stores them.
//!
//! A worker that waits could be told of a job once it is stored, and would then claim it: a second way to the server
//! and back, and a second wait for the disk. So an enqueue that a worker waits for rings before it is sent. The claim
//! that this brings goes along with it if it comes within a moment, and both are one transaction. The claim gets what
//! it would have got right after the enqueue.
//!
//! No call waits for long: neither the enqueue for a claim, nor another claim that was rung for and must not look
//! before the jobs are stored. Enqueues run on the store's thread, claims come from any.

mod waiting;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use windlass_core::job::NewJob;
use windlass_core::store::{ClaimAnswer, ClaimRequest, StoreResult};
use windlass_core::{Name, StoreError};

use waiting::{Ended, Waiting};

/// How long an enqueue waits for a claim to go along: ten times what a worker needs to wake up. One that does not come is
/// not waited for again soon.
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
    place: Option<oneshot::Sender<PendingClaim>>,
    /// A claim would not wait any longer and may have looked too early.
    is_outrun: bool,
}

/// A claim that goes along with an enqueue. If it is dropped, it is not known what became of it.
#[derive(Debug)]
pub(super) struct PendingClaim {
    pub(super) request: Arc<ClaimRequest>,
    answer: oneshot::Sender<Made>,
}

/// The answer to a claim, or nothing if it was not made.
type Made = Option<StoreResult<ClaimAnswer>>;

/// An enqueue that goes on its way. As long as this lives, claims that were rung for wait.
pub(super) struct OpenOffer<'h> {
    handover: &'h Handover,
    number: u64,
}

/// A claim on its way.
struct Claiming<'h> {
    handover: &'h Handover,
    request: &'h ClaimRequest,
    /// When the server got it, as far as is known.
    began: Instant,
    is_along: bool,
}

/// How a claim can be made.
enum Way {
    /// By itself, now.
    Alone,
    /// With an enqueue, which answers it.
    Along(oneshot::Receiver<Made>),
    /// By itself, when an enqueue has ended.
    After(Enqueuing),
}

/// An enqueue that a claim was rung for and cannot go along with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Enqueuing {
    number: u64,
}

impl Handover {
    /// Offers jobs that are about to be stored to workers that wait for them: rings, and comes back with the claim that
    /// follows. Nothing if no worker waits or none comes.
    pub(super) async fn offer(
        &self,
        jobs: &[NewJob],
        ring: impl FnOnce(),
    ) -> Option<(OpenOffer<'_>, PendingClaim)> {
        let (open_offer, mut coming) = self.make_offer(jobs)?;
        ring();
        if let Ok(Ok(pending)) = timeout(COMPANY_WAIT, &mut coming).await {
            return Some((open_offer, pending));
        }
        let mut state = self.state();
        // It may have come in the last instant, and none can come from now on.
        if let Ok(pending) = coming.try_recv() {
            return Some((open_offer, pending));
        }
        if let Some(offer) = state.offer.take_if(|offer| offer.number == open_offer.number) {
            state.waiting.penalize(&offer.queues);
        }
        None
    }

    fn make_offer(&self, jobs: &[NewJob]) -> Option<(OpenOffer<'_>, oneshot::Receiver<PendingClaim>)> {
        let mut state = self.state();
        // What is not plain goes the general way, and what came with it.
        let is_plain = jobs.iter().all(NewJob::is_plain);
        if state.offer.is_some() || !is_plain || !jobs.iter().any(|job| state.waiting.want(job)) {
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
        Some((OpenOffer { handover: self, number }, coming))
    }

    /// Makes a claim: with an enqueue, or by `alone`, after an enqueue if it is told of one.
    pub(super) async fn claim(
        &self,
        request: &Arc<ClaimRequest>,
        alone: impl AsyncFnOnce(Option<Enqueuing>) -> StoreResult<ClaimAnswer>,
    ) -> StoreResult<ClaimAnswer> {
        let (mut claiming, way) = self.begin(request);
        let answer = match way {
            Way::Alone => alone(None).await?,
            Way::After(enqueuing) => {
                let answer = alone(Some(enqueuing)).await?;
                claiming.began = Instant::now();
                answer
            }
            Way::Along(made) => match made.await {
                Ok(Some(answer)) => {
                    claiming.is_along = true;
                    answer?
                }
                Ok(None) => alone(None).await?,
                Err(_) => {
                    let what = "the answer to an enqueue and a claim with it was lost".to_owned();
                    return Err(StoreError::Unknown { what, source: None });
                }
            },
        };
        claiming.answered(&answer);
        Ok(answer)
    }

    /// Waits until an enqueue has ended, though not for long.
    pub(super) async fn wait_for(&self, enqueuing: Enqueuing) {
        let until = Instant::now() + COMMIT_WAIT;
        loop {
            let ended = self.ended.notified();
            if self.state().offer.as_ref().is_none_or(|offer| offer.number != enqueuing.number) {
                return;
            }
            if timeout_at(until, ended).await.is_err() {
                break;
            }
        }
        if let Some(offer) = &mut self.state().offer
            && offer.number == enqueuing.number
        {
            offer.is_outrun = true;
        }
    }

    fn begin<'h>(&'h self, request: &'h Arc<ClaimRequest>) -> (Claiming<'h>, Way) {
        let mut state = self.state();
        state.waiting.begin(request);
        let way = match &mut state.offer {
            // Once a claim has looked too early it rings again anyway.
            Some(offer) if offer.is_about(request) && !offer.is_outrun => match offer.place.take() {
                Some(place) => PendingClaim::put(request, place),
                None => Way::After(Enqueuing { number: offer.number }),
            },
            _ => Way::Alone,
        };
        (Claiming { handover: self, request, began: Instant::now(), is_along: false }, way)
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

impl PendingClaim {
    fn put(request: &Arc<ClaimRequest>, place: oneshot::Sender<Self>) -> Way {
        let (answer, answered) = oneshot::channel();
        match place.send(Self { request: Arc::clone(request), answer }) {
            Ok(()) => Way::Along(answered),
            // The enqueue was given up.
            Err(_) => Way::Alone,
        }
    }

    /// Whether a caller still waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    /// The claim was made.
    pub(super) fn answer(self, answer: StoreResult<ClaimAnswer>) {
        // A caller that has gone away is not missed: what was claimed hangs on its lease.
        let _ = self.answer.send(Some(answer));
    }

    /// The claim was not made, and may be by itself.
    pub(super) fn decline(self) {
        let _ = self.answer.send(None);
    }
}

impl OpenOffer<'_> {
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

impl Drop for OpenOffer<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Claiming<'_> {
    fn answered(self, answer: &ClaimAnswer) {
        self.end(Some(answer));
        std::mem::forget(self);
    }

    fn end(&self, answer: Option<&ClaimAnswer>) {
        let ended = Ended { answer, took: self.began.elapsed(), is_along: self.is_along };
        self.handover.state().waiting.end(self.request, ended);
    }
}

impl Drop for Claiming<'_> {
    fn drop(&mut self) {
        self.end(None);
    }
}

#[cfg(test)]
mod tests;
