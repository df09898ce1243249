//! Taking the place of a waiting job: the newest counts.

use std::time::Duration;

use windlass_core::store::Enqueued;
use windlass_core::{JobId, NewJob, State};

use super::Client;
use crate::error::{Error, Result};

/// How many holders of its key a call cancels at most. Each was stored by another call while this one looked.
const HOLDERS_MAX: u32 = 10;

impl Client {
    /// Repeats an enqueue that is answered with a waiting holder of the unique key, after that one was withdrawn. A holder that
    /// runs by then is not withdrawn, and the next try meets it, or a free key.
    ///
    /// In a task of its own: a caller that goes away must not leave the one cancelled and the other not stored.
    pub(super) async fn supersede(&self, job: NewJob, wait_max: Option<Duration>) -> Result<Enqueued> {
        let client = self.clone();
        let call = tokio::spawn(async move {
            let mut answer = client.enqueue_waiting(job.clone(), wait_max).await?;
            for _ in 0..HOLDERS_MAX {
                let Some(holder) = waiting_holder(answer) else { break };
                client.store().withdraw([holder].into()).await?;
                answer = client.enqueue_waiting(job.clone(), wait_max).await?;
            }
            Ok(answer)
        });
        call.await.map_err(|_ended| Error::Closed)?
    }
}

fn waiting_holder(answer: Enqueued) -> Option<JobId> {
    match answer {
        Enqueued::Duplicate { id, state } => state.is_some_and(State::is_waiting).then_some(id),
        _ => None,
    }
}
