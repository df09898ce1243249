//! Changes that a person asks for: cancel, retry and delete.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use windlass_core::bell::Rings;
use windlass_core::store::{Amended, Amendment, Seen};
use windlass_core::{JobId, State};

use crate::agenda::{Needs, Notes};
use crate::error::Fault;
use crate::queue_cache::QueueCache;
use crate::script::Script;
use crate::scripts::{CANCEL, DELETE, RETRY, WITHDRAW};
use crate::session::Session;
use crate::{Tools, answer};

const fn script(amendment: Amendment) -> &'static Script {
    match amendment {
        Amendment::Cancel => &CANCEL,
        Amendment::Withdraw => &WITHDRAW,
        Amendment::Retry => &RETRY,
        Amendment::Delete => &DELETE,
    }
}

/// What a change leaves to maintenance: ended jobs, and places in a line.
const fn needs(amendment: Amendment) -> Needs {
    match amendment {
        Amendment::Cancel | Amendment::Withdraw => Needs::BOTH,
        Amendment::Retry | Amendment::Delete => Needs::PROMOTE,
    }
}

/// Changes jobs that are still as they were seen.
pub(super) async fn amend_seen(
    tools: &Tools,
    session: &Session,
    amendment: Amendment,
    jobs: &[Seen],
) -> Result<Vec<Amended>, Fault> {
    let ids: Vec<_> = jobs.iter().map(|seen| seen.id).collect();
    amend(tools, session, amendment, &ids, &jobs.iter().map(|seen| (seen.id, *seen)).collect()).await
}

/// Changes jobs; those that were seen only if they still are like that.
pub(super) async fn amend(
    tools: &Tools,
    session: &Session,
    amendment: Amendment,
    ids: &[JobId],
    seen: &HashMap<JobId, Seen>,
) -> Result<Vec<Amended>, Fault> {
    let has_changed = AtomicBool::new(false);
    let answers = QueueCache::each(tools, session, ids, |queue, ids| {
        let has_changed = &has_changed;
        async move {
            let mut arguments = vec![tools.clock(), ids.len().to_string().into()];
            arguments.extend(ids.iter().map(|id| Bytes::copy_from_slice(id.as_bytes())));
            arguments.extend(expected(&ids, seen));
            let note = Notes::note(tools, session, &queue, needs(amendment));
            let write = session.run(script(amendment), tools.keys.queue(&queue).all(), arguments);
            let said = answer::bytes(tokio::join!(note, write).1?)?;
            let answers = all_amended(said, ids.len())?;
            let done = ids.iter().zip(&answers).filter_map(|(id, answer)| match answer {
                Some(Amended::Done(state)) => Some((*id, *state)),
                _ => None,
            });
            let rings = done
                .map(|(id, state)| amendment.rings(id, Some(&queue), state))
                .fold(Rings::NONE, Rings::and);
            if !rings.is_empty() {
                has_changed.store(true, Ordering::Relaxed);
                tools.ring(rings);
            }
            Ok(answers)
        }
    });
    match answers.await {
        Ok(answers) => Ok(answers.into_iter().map(|answer| answer.unwrap_or(Amended::Missing)).collect()),
        // What was changed is changed: to say that nothing was would be wrong.
        Err(fault) if has_changed.load(Ordering::Relaxed) => Err(fault.partial()),
        Err(fault) => Err(fault),
    }
}

/// What each of these jobs must still be, as scripts compare it; nothing where that does not matter.
fn expected(ids: &[JobId], seen: &HashMap<JobId, Seen>) -> Vec<Bytes> {
    let seen = ids.iter().filter_map(|id| seen.get(id));
    seen.map(|seen| [&[b'0' + seen.state.code()][..], &seen.fence.to_be_bytes()].concat().into()).collect()
}

/// What the script said about jobs: two bytes for each, then who holds keys that were asked for.
fn all_amended(mut said: Bytes, jobs: usize) -> Result<Vec<Option<Amended>>, Fault> {
    let wrong = || Fault::Corrupt(format!("a change of {jobs} jobs was answered with something else"));
    let holders = said.split_off((2 * jobs).min(said.len()));
    let mut holders = holders.chunks_exact(16).map(|id| id.try_into().ok().map(JobId::from_bytes));
    let answers = said.chunks_exact(2).map(|said| match said[0] {
        b'h' => holders.next().flatten().ok_or_else(wrong).map(|holder| Some(Amended::Held(holder))),
        _ => amended(said),
    });
    answers.collect()
}

/// What the script said about one job; nothing if the queue does not have it.
fn amended(said: &[u8]) -> Result<Option<Amended>, Fault> {
    let state = || {
        let state = said[1].checked_sub(b'0').and_then(|code| State::from_code(code.into()));
        state.ok_or_else(|| Fault::Corrupt(format!("a change was answered with {said:?}")))
    };
    match said[0] {
        b'd' => state().map(|state| Some(Amended::Done(state))),
        b'r' => state().map(|state| Some(Amended::Refused(state))),
        _ => Ok(None),
    }
}
