//! Promotion of what is due in queues that have something to do. In passing it sees what other duties have to know, and
//! which queues can be forgotten.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use windlass_core::Name;
use windlass_core::store::{Duty, Promotion};

use super::gates;
use crate::agenda::{self, Needs, Next, Notes, Round, Visited};
use crate::error::Fault;
use crate::pauses::Work;
use crate::queues::Removal;
use crate::scripts::PROMOTE;
use crate::session::Session;
use crate::walk::Walk;
use crate::{Tools, answer, queues, spread};

/// How many jobs one script moves, so that none takes long.
const STEP: u32 = 250;

/// How many queues one call forgets, at most: each takes a few scripts.
const FORGET_MAX: usize = 20;

pub(super) async fn promote(tools: &Tools, session: &Session, limit: u32) -> Result<Promotion, Fault> {
    let round = Round::read(tools, session, Duty::Promote).await?;
    Box::pin(agenda::fill(tools, session, &round)).await;
    let hasty = session.hasty();
    let (visited, empty) = (Mutex::new(BTreeMap::new()), Mutex::new(Vec::new()));
    let rounds =
        Walk::of(Work::Promote, tools, session).rounds(round.queues(), limit, STEP, |queue: Name, shares| {
            let (hasty, visited, empty) = (&hasty, &visited, &empty);
            async move {
                let seen = promote_in(tools, hasty, &queue, shares).await?;
                tell(tools, &queue, &seen);
                // One that may have more to do stays on the agenda as it is.
                if (0..2).all(|kind| seen.moved[kind] < shares[kind]) {
                    lock(visited).insert(queue.clone(), seen.visited);
                    if seen.is_empty {
                        lock(empty).push(queue);
                    }
                }
                Ok(seen.moved)
            }
        });
    let moved = rounds.await;
    let [expired, promoted] = moved.done;
    let (visited, mut empty) = (into_inner(visited), into_inner(empty));
    tokio::join!(round.try_end(tools, session, &visited), Notes::flush(tools, session));
    // What is noted is about to be used.
    empty.retain(|queue| round.is_quiet(queue));
    empty.truncate(FORGET_MAX);
    Box::pin(forget(tools, session, empty)).await;
    moved.into_done(round.has_others(round.queues().len()))?;
    Ok(Promotion { promoted, expired })
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(shared: Mutex<T>) -> T {
    shared.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Tells others what was done and seen in a queue.
fn tell(tools: &Tools, queue: &Name, seen: &Seen) {
    let [expired, promoted] = seen.moved;
    let rings = Promotion { promoted, expired }.rings(queue);
    if !rings.is_empty() {
        tools.ring(rings);
    }
    if expired > 0 {
        tools.agenda.notes.later(queue, Needs::PRUNE, tools.time());
    }
    if seen.transfers > 0 {
        tools.senders.note(queue.clone());
    }
}

/// Forgets queues that are not defined and hold nothing. One that cannot be forgotten now is found again.
async fn forget(tools: &Tools, session: &Session, queues: Vec<Name>) {
    let forgotten = spread::each(queues, |queue| async move {
        match Box::pin(queues::remove(tools, session, &queue, Removal::Unused)).await {
            Ok(_) => tracing::debug!(%queue, "an empty queue is forgotten"),
            Err(fault) => tracing::debug!(?fault, %queue, "an empty queue is not forgotten yet"),
        }
        Ok(())
    });
    drop(forgotten.await);
}

/// What came of promoting one queue.
struct Seen {
    /// How many expired, and how many became ready.
    moved: [u32; 2],
    /// How many transfers wait there.
    transfers: i64,
    visited: Visited,
    is_empty: bool,
}

/// Moves jobs of one queue.
async fn promote_in(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    [expired, due]: [u32; 2],
) -> Result<Seen, Fault> {
    let arguments = vec![tools.clock(), expired.to_string().into(), due.to_string().into()];
    let mut said =
        answer::array(session.run(&PROMOTE, tools.keys.queue(queue).all(), arguments).await?)?.into_iter();
    let mut next = || said.next().ok_or_else(|| Fault::Corrupt("a promotion has no counts".to_owned()));
    let moved = [answer::integer(next()?)? as u32, answer::integer(next()?)? as u32];
    let transfers = answer::integer(next()?)?;
    let at = Next::read(&answer::bytes(next()?)?)?;
    let mut flag = || answer::integer(next()?).map(|flag| flag != 0);
    let visited = Visited { next: at, has_ended: flag()?, has_lost: flag()? };
    let is_empty = flag()?;
    if flag()? {
        gates::compare(tools, session, queue).await;
    }
    Ok(Seen { moved, transfers, visited, is_empty })
}
