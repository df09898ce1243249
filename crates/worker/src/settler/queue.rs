//! The lane of one queue that has trouble: SWEEP and PROBE of the drawing in [`super`].

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Batch;
use super::recorder::Recorder;
use crate::supervise::backoff;

/// Failures in a row after which a sweep ends: when nothing is known, and when the queue is known to be there. The
/// second lets it get down to a few single outcomes side by side that do not go through.
const ROW_FIRST: u32 = 3;
const ROW_LATER: u32 = 14;
/// How long a few outcomes that do not go through may hold up those that come after them in their queue.
const PROBE_PATIENCE: Duration = Duration::from_secs(1);

/// What a sweep came to.
#[derive(Default)]
struct Swept {
    /// Nothing can be said about these, for too little goes through.
    left: Batch,
    /// What is to be recorded instead of what was refused.
    refused: Batch,
}

impl Recorder {
    /// The lane of one queue.
    pub(super) async fn of_queue(self: &Arc<Self>, batch: Batch) -> Batch {
        let failed = match self.attempt(&batch).await {
            Ok(answers) => return self.recorded(batch, answers).await,
            Err(failed) => failed,
        };
        let mut refused = Batch::default();
        {
            let _ailing = self.ail();
            self.failure(&batch, &failed);
            let mut left = batch;
            if left.len() == 1 && !failed.is_passing {
                self.aside(mem::take(&mut left));
            } else if left.len() > 1 {
                tokio::time::sleep(if failed.is_passing { backoff(1) } else { Duration::ZERO }).await;
                let swept = self.sweep(left.halves().into(), ROW_FIRST).await;
                refused.append(swept.refused);
                left = swept.left;
            }
            while !left.is_empty() {
                refused.append(self.probe(&mut left).await);
                let swept = self.sweep(vec![left], ROW_LATER).await;
                refused.append(swept.refused);
                left = swept.left;
            }
        }
        self.success();
        refused
    }

    /// Records parts; what fails is halved, and what fails alone while others go through goes aside.
    async fn sweep(self: &Arc<Self>, mut parts: Vec<Batch>, row_max: u32) -> Swept {
        let (mut swept, mut alone) = (Swept::default(), Batch::default());
        let (mut row, mut goes_through) = (0, false);
        parts.reverse();
        while let Some(part) = parts.pop() {
            if part.is_empty() {
                continue;
            }
            let failed = match self.attempt(&part).await {
                Ok(answers) => {
                    (row, goes_through) = (0, true);
                    swept.refused.append(self.recorded(part, answers).await);
                    continue;
                }
                Err(failed) => failed,
            };
            self.failure(&part, &failed);
            match (part.len(), failed.is_passing) {
                (1, true) => alone.append(part),
                (1, false) => self.aside(part),
                _ => {
                    let [first, second] = part.halves();
                    parts.extend([second, first]);
                }
            }
            if failed.is_passing {
                row += 1;
                if row >= row_max {
                    break;
                }
                tokio::time::sleep(backoff(1)).await;
            }
        }
        if goes_through {
            self.aside(alone);
        } else {
            swept.left = alone;
        }
        parts.into_iter().for_each(|part| swept.left.append(part));
        swept
    }

    /// Nothing goes through: either the queue is away, or something is in the way of each of these. Asks with one
    /// outcome at a time until one goes through. A few that do not for long go aside.
    async fn probe(self: &Arc<Self>, left: &mut Batch) -> Batch {
        let (began, mut openings) = (Instant::now(), self.lease.openings());
        for tries in 1.. {
            self.rest(tries, openings).await;
            openings = self.lease.openings();
            let Some(one) = left.pop() else { break };
            match self.attempt(&one).await {
                Ok(answers) => return self.recorded(one, answers).await,
                Err(failed) => {
                    self.failure(&one, &failed);
                    if failed.is_passing {
                        // To the front: the next time it is another's turn.
                        let rest = mem::replace(left, one);
                        left.append(rest);
                    } else {
                        self.aside(one);
                    }
                }
            }
            if began.elapsed() > PROBE_PATIENCE && self.has_room_aside(left) {
                self.aside(mem::take(left));
                break;
            }
        }
        Batch::default()
    }
}
