//! Taking the place of a waiting job: the newest counts.

use windlass_core::store::Enqueued;
use windlass_core::{JobId, State};

use super::Client;
use crate::error::Result;

/// How many holders of its key a call cancels at most. Each was stored by another call while this one looked.
const HOLDERS_MAX: u32 = 10;

/// Repeats an enqueue that is answered with a waiting holder of the unique key, after that one was withdrawn. A holder that runs
/// by then is not withdrawn, and the next try meets it, or a free key.
pub(super) async fn supersede<F>(client: &Client, enqueue: impl Fn() -> F) -> Result<Enqueued>
where
    F: Future<Output = Result<Enqueued>>,
{
    let mut answer = enqueue().await?;
    for _ in 0..HOLDERS_MAX {
        let Some(holder) = waiting_holder(answer) else { break };
        client.store().withdraw([holder].into()).await?;
        answer = enqueue().await?;
    }
    Ok(answer)
}

fn waiting_holder(answer: Enqueued) -> Option<JobId> {
    match answer {
        Enqueued::Duplicate { id, state } => state.is_some_and(State::is_waiting).then_some(id),
        _ => None,
    }
}
