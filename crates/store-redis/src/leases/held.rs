//! What a claim took whose answer was lost: found by its lease and its nonce.

use std::collections::HashSet;

use bytes::Bytes;
use windlass_core::job::LostJob;
use windlass_core::{LeaseId, Name};

use super::look::read_lost;
use super::renew::id;
use crate::error::Fault;
use crate::scripts::HELD;
use crate::session::Session;
use crate::{Tools, answer, spread};

/// How often the jobs of one lease in one queue are looked through further: more than a worker can hold.
const PAGES_MAX: usize = 2_000;

/// The jobs of these queues that hang on the lease under this nonce. All queues must answer: what one of them does not
/// tell would stay with a worker that does not know of it.
pub(super) async fn held(
    tools: &Tools,
    session: &Session,
    lease: LeaseId,
    nonce: u64,
    queues: &[Name],
    limit: u32,
) -> Result<Vec<LostJob>, Fault> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let found = spread::each(queues.iter().collect(), |queue: &Name| async move {
        held_in(tools, session, lease, nonce, queue, limit).await
    });
    let mut found: Vec<_> = found.await?.into_iter().flatten().collect();
    found.truncate(limit as usize);
    Ok(found)
}

async fn held_in(
    tools: &Tools,
    session: &Session,
    lease: LeaseId,
    nonce: u64,
    queue: &Name,
    limit: u32,
) -> Result<Vec<LostJob>, Fault> {
    let (mut found, mut seen, mut at) = (Vec::new(), HashSet::new(), Bytes::from_static(b"0"));
    for _ in 0..PAGES_MAX {
        let nonce = Bytes::copy_from_slice(&nonce.to_be_bytes());
        let arguments = vec![tools.clock(), id(lease), nonce, at];
        let answer = session.run(&HELD, tools.keys.queue(queue).all(), arguments).await?;
        let mut answer = answer::array(answer)?.into_iter();
        let next = answer.next().ok_or_else(|| Fault::Corrupt("held jobs have no end".to_owned()))?;
        at = answer::bytes(next)?;
        let mut page = Vec::new();
        read_lost(queue, answer, &mut page)?;
        found.extend(page.into_iter().filter(|job| seen.insert(job.id)));
        if &at[..] == b"0" || found.len() >= limit as usize {
            break;
        }
    }
    Ok(found)
}
