//! A queue whose server hung is asked for jobs again only when that server answers at all. That is found out beside the
//! claims, so that none of them waits for it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::timeout;
use windlass_core::Name;

use crate::Tools;
use crate::error::Fault;
use crate::pauses::Work;
use crate::session::Session;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Asks the server of a queue whether it answers.
pub(super) fn begin(tools: &Arc<Tools>, session: &Session, queue: Name) {
    let (tools, session) = (Arc::clone(tools), session.hasty());
    tokio::spawn(async move {
        let mut look = redis::cmd("EXISTS");
        look.arg(&tools.keys.queue(&queue).none()[..]);
        let began = Instant::now();
        let answer = timeout(PATIENCE, session.command(look)).await;
        match answer.unwrap_or(Err(Fault::Timeout(PATIENCE))) {
            Ok(_) => tools.pauses.answered_after(&queue, Work::Claim, began.elapsed()),
            Err(fault) => {
                tools.pauses.failed_after(&queue, Work::Claim, fault, began.elapsed(), true);
            }
        }
    });
}
