//! Promotes due jobs of queues that no worker claims from, so that counts and lists show them as they are.

use std::sync::Arc;

use windlass_core::Store;
use windlass_core::store::{Duty, Promotion, StoreResult};

use super::{BATCH_MAX, CALLS_MAX, Round, Sweep};
use crate::health::Part;

/// Items that one round tidies, of each kind. They are small: a counter's row, the id of a call.
const TIDY_MAX: u32 = 20_000;

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
    /// Items of the store's own that were put in order.
    pub tidied: u64,
}

impl Promoter {
    /// A promoter for this store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Promotes what is due now, and lets the store tidy itself.
    ///
    /// # Errors
    /// The store's; what was promoted until then stays so.
    pub async fn run_once(&self) -> StoreResult<PromoteSummary> {
        let promoted = self.promote().await;
        // Also where a queue could not be promoted: the others have to be kept in order.
        let tidied = self.store.tidy(TIDY_MAX).await;
        promoted.and_then(|summary| tidied.map(|tidied| PromoteSummary { tidied: tidied.into(), ..summary }))
    }

    async fn promote(&self) -> StoreResult<PromoteSummary> {
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

impl Sweep for Promoter {
    const PART: Part = Part::Promoter;
    const DUTY: Duty = Duty::Promote;

    async fn sweep(&self) -> StoreResult<Round> {
        self.run_once().await.map(|_| Round::Whole)
    }
}
