//! Mode BY QUEUE of the drawing in [`super`]: the lane of one queue. A batch that fails goes through BISECT, and as long as
//! nothing goes through, through PROBE.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::batch::Batch;
use super::recorder::Recorder;
use crate::retries::backoff;

/// Failures in a row after which bisecting ends: when nothing is known of the queue, and when it has answered. The second
/// lets it get down to a few single outcomes side by side that fail.
const FAILURES_FIRST: u32 = 3;
const FAILURES_LATER: u32 = 14;

impl Recorder {
    /// Writes a batch of one queue, and does not return before all of it is recorded, given up or in the background. What
    /// comes back is to be recorded instead of what was refused.
    pub(super) async fn write_queue(self: &Arc<Self>, batch: Batch) -> Batch {
        let failed = match self.write_once(&batch).await {
            Ok(answers) => return self.answered(batch, answers).await,
            Err(failed) => failed,
        };
        let mut refused = Batch::default();
        {
            let _trouble = self.trouble();
            self.failure(&batch, &failed);
            let mut left = batch;
            if left.len() == 1 && !failed.is_transient {
                self.write_in_background(mem::take(&mut left));
            } else if left.len() > 1 {
                tokio::time::sleep(if failed.is_transient { backoff(1) } else { Duration::ZERO }).await;
                let bisected = self.bisect(left.halves().into(), FAILURES_FIRST).await;
                refused.append(bisected.refused);
                left = bisected.left;
            }
            while !left.is_empty() {
                refused.append(self.probe(&mut left).await);
                let bisected = self.bisect(vec![left], FAILURES_LATER).await;
                refused.append(bisected.refused);
                left = bisected.left;
            }
        }
        self.success();
        refused
    }
}
