//! Batches of outcomes that are not recorded yet.

use std::mem;
use std::ops::Deref;
use std::sync::Arc;

use windlass_core::Bytes;
use windlass_core::store::Settlement;

use crate::ctx::Ctx;

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
            Self::Settle { settlement, .. } => {
                let transition = &settlement.transition;
                transition.output.as_ref().map_or(0, Bytes::len)
                    + transition.error.as_ref().map_or(0, String::len)
            }
            Self::Mark { .. } => 0,
        }
    }
}

/// An attempt whose outcome is not recorded. It counts as such as long as this lives.
pub(super) struct Unsettled {
    ctx: Ctx,
    _counted: Arc<()>,
}

impl Unsettled {
    /// `count` counts its copies.
    pub(super) fn new(ctx: Ctx, count: &Arc<()>) -> Self {
        Self { ctx, _counted: Arc::clone(count) }
    }
}

impl Deref for Unsettled {
    type Target = Ctx;

    fn deref(&self) -> &Ctx {
        &self.ctx
    }
}

/// Outcomes that go to the store together.
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
