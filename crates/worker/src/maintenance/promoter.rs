//! Promotes due jobs of queues that nobody claims from, so that counts and people see them as they are.

use std::sync::Arc;

use windlass_core::Store;
use windlass_core::store::{Promotion, StoreResult};

use super::{BATCH_MAX, CALLS_MAX};

/// Moves due jobs to `ready` and expired ones to `dead`, in every queue. Claims do this for their own queues
/// and never wait for it.
#[derive(Clone)]
pub struct Promoter {
    store: Arc<dyn Store>,
}

/// What one round of a [`Promoter`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PromoteSummary {
    /// Jobs that became ready.
    pub promoted: u64,
    /// Jobs that expired.
    pub expired: u64,
}

impl Promoter {
    /// A promoter for this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Promotes what is due now.
    ///
    /// # Errors
    /// The store's; what was promoted until then stays so.
    pub async fn run_once(&self) -> StoreResult<PromoteSummary> {
        let mut summary = PromoteSummary::default();
        for _ in 0..CALLS_MAX {
            let Promotion { promoted, expired } = self.store.promote(BATCH_MAX).await?;
            summary.promoted += u64::from(promoted);
            summary.expired += u64::from(expired);
            if promoted < BATCH_MAX && expired < BATCH_MAX {
                break;
            }
        }
        Ok(summary)
    }
}
