//! A claim that a store asks for while it stores jobs, and runs in the same transaction. It is made by the same slots as any
//! other, for the room and the lease that the worker has at that moment, and is the one claim in flight until it is answered.
//! Only its way is shorter: no thread of the runtime has to wake up before the jobs are claimed.
//!
//! The thread is one of the store. It puts the jobs into the buffers; they start on the runtime, or go back if that is stuck
//! (see [`Watchdog`](crate::watchdog::Watchdog)).

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::bell::Claiming;
use windlass_core::store::{ClaimAnswer, ClaimRequest, StoreResult};
use windlass_core::{Name, StoreError};

use super::timing::Ask;
use super::{ClaimInFlight, Fetcher};
use crate::health::Part;
use crate::retries::PAUSE_MAX;
use crate::slots::Plan;

/// A runtime that was silent for this time is asked by the bell: if it does not come, the jobs are for others.
const SILENT: Duration = Duration::from_millis(50);

/// A claim that a store runs.
pub(crate) struct Called {
    fetcher: Arc<Fetcher>,
    request: ClaimRequest,
    made: Instant,
    /// None once it is answered.
    claim: Option<(Plan, ClaimInFlight)>,
}

impl Fetcher {
    /// The claim to make now for jobs of this queue. Nothing if claims have to wait, or the runtime seems to be stuck.
    pub(crate) fn claim_called(self: &Arc<Self>, queue: &Name) -> Option<Called> {
        let now = Instant::now();
        let may_ask = !matches!(self.timing.ask(now), Ask::NotBefore(_)) && self.recording(now).is_none();
        if !may_ask || self.lag.silence(now) > SILENT {
            return None;
        }
        let plan = {
            let mut slots = self.attempts.slots();
            slots.hint_in(queue);
            slots.plan(now)?
        };
        let in_flight = ClaimInFlight(Arc::clone(&self.attempts));
        self.board.expect_within(Part::Fetcher, Some(self.config.poll_interval.max(PAUSE_MAX)));
        let request = plan.request(&self.config.queues, &self.config.kinds);
        Some(Called { fetcher: Arc::clone(self), request, made: now, claim: Some((plan, in_flight)) })
    }
}

impl Called {
    fn finish(&mut self, answer: StoreResult<ClaimAnswer>) {
        let Some((plan, in_flight)) = self.claim.take() else { return };
        let fetcher = Arc::clone(&self.fetcher);
        let (_, rest) = fetcher.answered(&plan, self.made, answer);
        self.fetcher.attempts.runtime.spawn(async move {
            fetcher.start();
            fetcher.attempts.give_back(rest).await;
            drop(in_flight);
        });
    }
}

impl Claiming for Called {
    fn request(&self) -> &ClaimRequest {
        &self.request
    }

    fn answer(mut self: Box<Self>, answer: StoreResult<ClaimAnswer>) {
        self.finish(answer);
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        if self.claim.is_some() {
            let what = "a claim was dropped before it was answered".to_owned();
            self.finish(Err(StoreError::Unknown { what, source: None }));
        }
    }
}
