//! Removes finished jobs that their queue no longer keeps.

use std::sync::Arc;

use windlass_core::Store;
use windlass_core::store::{Duty, StoreResult};

use super::{BATCH_MAX, CALLS_MAX, Sweep};
use crate::health::Part;

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
            let removed = self.store.prune(BATCH_MAX).await?;
            summary.jobs += u64::from(removed);
            if removed < BATCH_MAX {
                break;
            }
        }
        Ok(summary)
    }
}

impl Sweep for Pruner {
    const PART: Part = Part::Pruner;
    const DUTY: Duty = Duty::Prune;

    async fn sweep(&self) -> StoreResult<()> {
        self.run_once().await.map(drop)
    }
}
