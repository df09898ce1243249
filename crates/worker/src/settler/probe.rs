//! Mode PROBE of the drawing in [`super`]: asks a queue that does not answer whether it does again.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::batch::Batch;
use super::recorder::Recorder;
use crate::retries::backoff;

/// How long a few outcomes that fail may hold up those that come after them in their queue.
const PATIENCE: Duration = Duration::from_secs(1);

impl Recorder {
    /// Nothing goes through: either the queue does not answer, or each of these fails for a reason of its own. Writes one
    /// outcome at a time until one goes through. A few that fail for long are left to the background.
    pub(super) async fn probe(self: &Arc<Self>, left: &mut Batch) -> Batch {
        let (began, mut openings) = (Instant::now(), self.lease.openings());
        for tries in 1.. {
            self.pause(backoff(tries), openings).await;
            openings = self.lease.openings();
            let Some(one) = left.pop() else { break };
            match self.write_once(&one).await {
                Ok(answers) => return self.answered(one, answers).await,
                Err(failed) => {
                    self.failure(&one, &failed);
                    if failed.is_transient {
                        // To the front: the next time another one is tried.
                        let rest = mem::replace(left, one);
                        left.append(rest);
                    } else {
                        self.write_in_background(one);
                    }
                }
            }
            if began.elapsed() > PATIENCE && self.has_background_room(left) {
                self.write_in_background(mem::take(left));
                break;
            }
        }
        Batch::default()
    }
}
