//! Which worker of a fleet keeps the store in order: the one that has the duty, as long as it takes it again in each round.
//! A part that hangs therefore loses its duty, also while the rest of its worker goes on.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::{Duty, Shift};
use windlass_core::{HolderId, Store};

/// For how many rounds a duty is taken: a late round does not lose it.
const ROUNDS: u32 = 3;
/// How long a worker that ends waits for the store to take a duty back. Otherwise it runs out.
const LEAVE_MAX: Duration = Duration::from_secs(1);

/// The duties of one worker.
#[derive(Clone)]
pub(crate) struct Duties {
    store: Arc<dyn Store>,
    holder: HolderId,
}

impl Duties {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, holder: HolderId::new() }
    }

    /// Takes a duty for the next rounds, or answers how long another worker has it. If the store cannot be asked, this
    /// worker does the round: where the duties are kept may be away while the jobs are not.
    pub(super) async fn of_other(&self, duty: Duty, interval: Duration) -> Option<Duration> {
        match self.store.take_duty(duty, self.holder, interval.saturating_mul(ROUNDS)).await {
            Ok(Shift::Own) => None,
            Ok(Shift::Other(left)) => Some(left),
            Err(error) => {
                tracing::debug!(%error, duty = duty.name(), "the store was not asked for the duty");
                None
            }
        }
    }

    /// Gives a duty back, so that another worker goes on at once.
    pub(super) async fn leave(&self, duty: Duty) {
        let left = tokio::time::timeout(LEAVE_MAX, self.store.leave_duty(duty, self.holder)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!(duty = duty.name(), "the duty was not given back, and runs out");
        }
    }
}
