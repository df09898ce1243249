//! Removes finished jobs that their queue no longer keeps.

use std::sync::Arc;

use windlass_core::Store;
use windlass_core::store::{Duty, StoreResult};

use super::{Round, Sweep};
use crate::health::Part;

/// Jobs of one store call; each store removes them in steps of its own, in which others have their turn.
const PRUNE_MAX: u32 = 5_000;
/// Store calls of one round. A round that makes all of them is followed by the next one at once.
const CALLS_MAX: u32 = 20;

/// Prunes finished jobs in bounded batches.
#[derive(Clone)]
pub struct Pruner {
    store: Arc<dyn Store>,
}

/// What one round of a [`Pruner`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PruneSummary {
    /// Jobs that were removed.
    pub jobs: u64,
    /// There are more: the round ended by its limit.
    pub has_more: bool,
}

impl Pruner {
    /// A pruner for this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Removes what need not be kept now.
    ///
    /// # Errors
    /// The store's; what was removed until then stays so.
    pub async fn run_once(&self) -> StoreResult<PruneSummary> {
        let mut summary = PruneSummary::default();
        for _ in 0..CALLS_MAX {
            let removed = self.store.prune(PRUNE_MAX).await?;
            summary.jobs += u64::from(removed);
            summary.has_more = removed >= PRUNE_MAX;
            if !summary.has_more {
                break;
            }
        }
        Ok(summary)
    }
}

impl Sweep for Pruner {
    const PART: Part = Part::Pruner;
    const DUTY: Duty = Duty::Prune;

    async fn sweep(&self) -> StoreResult<Round> {
        self.run_once().await.map(|summary| if summary.has_more { Round::Cut } else { Round::Whole })
    }
}
