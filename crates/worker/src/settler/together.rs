//! Mode TOGETHER of the drawing in [`super`]: the lane that all queues share, where the store lets them share calls.

use std::sync::Arc;

use super::batch::{Batch, Entry};
use super::recorder::Recorder;
use crate::health::Part;
use crate::lanes::QueueLanes;
use crate::retries::backoff;

impl Recorder {
    /// Writes a batch of several queues: whole, then in halves. What fails again is left to the lanes of its queues. What
    /// comes back is to be recorded instead of what was refused.
    pub(super) async fn write_together(
        self: &Arc<Self>,
        queues: &Arc<QueueLanes<Self>>,
        batch: Batch,
    ) -> Batch {
        let failed = match self.write_once(&batch).await {
            Ok(answers) => return self.answered(batch, answers).await,
            Err(failed) => failed,
        };
        let failures = self.board.failure(Part::Settler, &failed.text);
        let mut refused = Batch::default();
        let parts = if batch.len() == 1 {
            vec![batch]
        } else {
            if failed.is_transient {
                tokio::time::sleep(backoff(failures.min(2))).await;
            }
            let mut rest = Vec::new();
            for half in batch.sorted().halves() {
                match self.write_once(&half).await {
                    Ok(answers) => refused.append(self.answered(half, answers).await),
                    Err(_failed) => rest.push(half),
                }
            }
            rest
        };
        for (settlement, unsettled) in parts.into_iter().flatten() {
            let queue = settlement.queue.clone();
            if let Err(Entry::Settle { unsettled, .. }) =
                queues.take(&queue, Entry::Settle { settlement, unsettled })
            {
                self.give_up(&unsettled);
            }
        }
        refused
    }
}
