//! Batches of outcomes that are not recorded yet.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use windlass_core::follow_ups::FollowUps;
use windlass_core::judge::Transition;
use windlass_core::store::{AttemptWrite, Settlement};
use windlass_core::{Bytes, JobId, State};

use crate::ctx::Ctx;
use crate::observe::Ended;
use crate::settling::item;

/// What is put into a lane.
pub(super) enum Entry {
    Settle {
        settlement: Settlement,
        unsettled: Unsettled,
    },
    /// Everything handed in before it has been recorded when it is answered.
    Mark {
        _counted: Arc<()>,
    },
}

impl Entry {
    /// The bytes that a handler has a say in.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Settle { settlement, unsettled } => {
                let transition = &settlement.transition;
                transition.output.as_ref().map_or(0, Bytes::len)
                    + transition.error.as_ref().map_or(0, String::len)
                    + unsettled.then.as_ref().map_or(0, |then| then.weight())
            }
            Self::Mark { .. } => 0,
        }
    }
}

/// An attempt whose outcome is not recorded. It counts as such as long as this lives.
pub(super) struct Unsettled {
    ctx: Ctx,
    /// What is written with its outcome; nothing for nearly all.
    pub(super) then: Option<Arc<FollowUps>>,
    pub(super) ended: Ended,
    _counted: Arc<()>,
}

impl Unsettled {
    /// `count` counts its copies.
    pub(super) fn new(ctx: Ctx, then: Option<FollowUps>, ended: Ended, count: &Arc<()>) -> Self {
        Self { ctx, then: then.map(Arc::new), ended, _counted: Arc::clone(count) }
    }
}

impl Unsettled {
    /// Its end is recorded as it was told, but for the state.
    pub(super) fn count(&self, told: &Transition, state: State) {
        self.inner().observed.settled(self, told, state, self.ended);
    }
}

impl Deref for Unsettled {
    type Target = Ctx;

    fn deref(&self) -> &Ctx {
        &self.ctx
    }
}

/// Outcomes that go to the store together: with follow-ups all of them, or none.
#[derive(Default)]
pub(super) struct Batch {
    /// Shared with store calls, so that none copies them.
    settlements: Arc<[Settlement]>,
    attempts: Vec<Unsettled>,
}

impl Batch {
    pub(super) fn one(settlement: Settlement, attempt: Unsettled) -> Self {
        Self { settlements: [settlement].into(), attempts: vec![attempt] }
    }

    /// Copies both, unless one is empty: only what fails is put together again.
    pub(super) fn append(&mut self, other: Self) {
        if self.is_empty() {
            *self = other;
        } else if !other.is_empty() {
            *self = mem::take(self).into_iter().chain(other).collect();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.settlements.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.settlements.is_empty()
    }

    pub(super) fn settlements(&self) -> Arc<[Settlement]> {
        Arc::clone(&self.settlements)
    }

    /// Those without follow-ups and those with some, each if there are any. Mostly all are without.
    pub(super) fn by_follow_ups(self) -> Vec<Self> {
        if self.attempts.iter().all(|attempt| attempt.then.is_none()) {
            return if self.is_empty() { Vec::new() } else { vec![self] };
        }
        let (plain, followed): (Vec<_>, Vec<_>) =
            self.into_iter().partition(|(_, attempt)| attempt.then.is_none());
        let parts = [plain, followed].into_iter().filter(|part| !part.is_empty());
        parts.map(|part| part.into_iter().collect()).collect()
    }

    /// The same outcomes with their follow-ups; nothing where they have none.
    pub(super) fn followed(&self) -> Option<Arc<[AttemptWrite]>> {
        self.attempts.first()?.then.as_ref()?;
        let then = |attempt: &Unsettled| attempt.then.as_deref().cloned().unwrap_or_default();
        let pairs = self.settlements.iter().zip(&self.attempts);
        Some(pairs.map(|(end, attempt)| item(end, then(attempt))).collect())
    }

    /// The outcomes, each with what follows it.
    pub(super) fn pairs(&self) -> Vec<(Settlement, Option<FollowUps>)> {
        let pairs = self.settlements.iter().cloned().zip(&self.attempts);
        pairs.map(|(end, attempt)| (end, attempt.then.as_deref().cloned())).collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = JobId> {
        self.settlements.iter().map(|settlement| settlement.id)
    }

    /// Each outcome, and whose it is.
    pub(super) fn both(&self) -> impl Iterator<Item = (&Settlement, &Unsettled)> {
        self.settlements.iter().zip(&self.attempts)
    }

    pub(super) fn attempts(&self) -> &[Unsettled] {
        &self.attempts
    }

    /// The last one, taken out.
    pub(super) fn pop(&mut self) -> Option<Self> {
        let (attempt, (settlement, rest)) = (self.attempts.pop()?, self.settlements.split_last()?);
        let one = Self::one(settlement.clone(), attempt);
        self.settlements = rest.into();
        Some(one)
    }

    /// The first half and the second, which has one more of an odd number.
    pub(super) fn halves(mut self) -> [Self; 2] {
        let (first, second) = self.settlements.split_at(self.len() / 2);
        let attempts = self.attempts.split_off(first.len());
        let second = Self { settlements: second.into(), attempts };
        [Self { settlements: first.into(), attempts: self.attempts }, second]
    }

    /// The same outcomes, those of a queue side by side.
    pub(super) fn sorted(self) -> Self {
        let mut pairs: Vec<_> = self.into_iter().collect();
        pairs.sort_by(|(one, _), (other, _)| one.queue.cmp(&other.queue));
        pairs.into_iter().collect()
    }
}

impl FromIterator<(Settlement, Unsettled)> for Batch {
    fn from_iter<I: IntoIterator<Item = (Settlement, Unsettled)>>(pairs: I) -> Self {
        let (settlements, attempts): (Vec<_>, _) = pairs.into_iter().unzip();
        Self { settlements: settlements.into(), attempts }
    }
}

impl IntoIterator for Batch {
    type Item = (Settlement, Unsettled);
    type IntoIter = std::iter::Zip<std::vec::IntoIter<Settlement>, std::vec::IntoIter<Unsettled>>;

    fn into_iter(self) -> Self::IntoIter {
        let settlements = self.settlements.to_vec();
        settlements.into_iter().zip(self.attempts)
    }
}
