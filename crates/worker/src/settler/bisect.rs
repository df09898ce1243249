//! Mode BISECT of the drawing in [`super`]: finds the outcomes of a queue that fail among those that go through.

use std::sync::Arc;

use super::batch::Batch;
use super::recorder::Recorder;
use crate::retries::backoff;

/// What bisecting came to.
#[derive(Default)]
pub(super) struct Bisected {
    /// Nothing can be said about these, for too little goes through.
    pub(super) left: Batch,
    /// What is to be recorded instead of what was refused.
    pub(super) refused: Batch,
}

impl Recorder {
    /// Writes parts; what fails is halved, and what fails alone while others go through is left to the background. Ends after
    /// so many transient failures in a row.
    pub(super) async fn bisect(self: &Arc<Self>, mut parts: Vec<Batch>, failures_max: u32) -> Bisected {
        let (mut bisected, mut alone) = (Bisected::default(), Batch::default());
        let (mut failures, mut goes_through) = (0, false);
        parts.reverse();
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let failed = match self.write_once(&part).await {
                Ok(answers) => {
                    (failures, goes_through) = (0, true);
                    bisected.refused.append(self.answered(part, answers).await);
                    continue;
                }
                Err(failed) => failed,
            };
            self.failure(&part, &failed);
            match (part.len(), failed.is_transient) {
                (1, true) => alone.append(part),
                (1, false) => self.write_in_background(part),
                _ => {
                    let [first, second] = part.halves();
                    parts.extend([second, first]);
                }
            }
            if failed.is_transient {
                failures += 1;
                if failures >= failures_max {
                    break;
                }
                tokio::time::sleep(backoff(1)).await;
            }
        }
        if goes_through {
            self.write_in_background(alone);
        } else {
            bisected.left = alone;
        }
        parts.into_iter().for_each(|part| bisected.left.append(part));
        bisected
    }
}
