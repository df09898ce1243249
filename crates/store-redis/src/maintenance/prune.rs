//! Pruning: ended jobs that their queue no longer keeps, in queues where jobs have ended or become too old.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use redis::Value;
use windlass_core::clock::whole_micros;
use windlass_core::queue::{Keep, QueueRecord};
use windlass_core::store::Duty;
use windlass_core::{Name, State};

use crate::agenda::{Next, Round, Visited};
use crate::error::Fault;
use crate::pauses::Work;
use crate::scripts::PRUNE;
use crate::session::Session;
use crate::walk::{OfQueue, Walk, or_none};
use crate::{Tools, answer, queues};

/// How many jobs one script removes: all that is kept of each is freed at once.
const STEP: u32 = 100;
/// How many scripts look through one queue and state before the next call goes on.
const LOOKS_MAX: usize = 100;

/// Ended jobs of one queue and state that are not kept for ever.
#[derive(Debug, Clone)]
struct Kept {
    queue: Name,
    version: i64,
    state: State,
    keep: Keep,
}

impl OfQueue for Kept {
    fn queue(&self) -> &Name {
        &self.queue
    }
}

/// What is known of a queue that is visited.
struct Visit {
    /// How many of its states have not been pruned to their end.
    left: usize,
    next: Next,
}

pub(super) async fn prune(tools: &Tools, session: &Session, limit: u32) -> Result<u32, Fault> {
    let round = Round::read(tools, session, Duty::Prune).await?;
    let (hasty, walk) = (session.hasty(), Walk::of(Work::Prune, tools, session));
    let hasty = &hasty;
    let records = walk.gather(round.queues(), usize::MAX, |name| async move {
        Ok(vec![(name.clone(), queues::read(tools, hasty, name).await?)])
    });
    let has_others = round.has_others(round.queues().len());
    let (mut kept, mut visits) = (Vec::new(), BTreeMap::new());
    for (queue, found) in or_none(records.await, has_others)? {
        let before = kept.len();
        let has_ended = found.as_ref().is_some_and(|(record, _)| has_ended(record));
        if let Some((record, version)) = found {
            kept.extend(to_prune(&record, version));
        }
        let next = if has_ended { Next::Idle } else { Next::Never };
        visits.insert(queue, Visit { left: kept.len() - before, next });
    }
    let visits = Mutex::new(visits);
    let rounds = walk.rounds(kept, limit, STEP, |kept: Kept, [share]| {
        let visits = &visits;
        async move {
            let (pruned, next) = prune_in(tools, hasty, &kept, share).await?;
            if let Some(next) = next {
                let mut visits = visits.lock().unwrap_or_else(PoisonError::into_inner);
                visits.entry(kept.queue).and_modify(|visit| {
                    visit.left = visit.left.saturating_sub(1);
                    visit.next = visit.next.or(next);
                });
            }
            Ok([pruned])
        }
    });
    let rounds = rounds.await;
    let visits = visits.into_inner().unwrap_or_else(PoisonError::into_inner);
    let whole = visits.into_iter().filter(|(_, visit)| visit.left == 0);
    let visited =
        whole.map(|(queue, visit)| (queue, Visited { next: visit.next, ..Visited::default() })).collect();
    round.try_end(tools, session, &visited).await;
    let [pruned] = rounds.into_done(has_others)?;
    Ok(pruned)
}

fn has_ended(record: &QueueRecord) -> bool {
    State::TERMINAL.into_iter().any(|state| record.counts.of(state) > 0)
}

/// The states of a queue in which something may have to go.
fn to_prune(record: &QueueRecord, version: i64) -> impl Iterator<Item = Kept> {
    State::TERMINAL.into_iter().filter_map(move |state| {
        let keep = record.config.retention.of(state)?;
        let count = record.counts.of(state);
        let may_have_old = keep.age.is_some() && count > 0;
        let has_some = may_have_old || keep.count.is_some_and(|most| most < count);
        has_some.then(|| Kept { queue: record.name.clone(), version, state, keep })
    })
}

/// Removes jobs of one queue and state. Those that weigh much take more than one script. Answers how many, and when it has
/// to be looked at again; nothing if there may be more to do now.
async fn prune_in(
    tools: &Tools,
    session: &Session,
    kept: &Kept,
    share: u32,
) -> Result<(u32, Option<Next>), Fault> {
    let Kept { queue, version, state, keep } = kept;
    let count = keep.count.map(|count| count.to_string()).unwrap_or_default();
    let age = keep.age.map(|age| whole_micros(age).as_micros().to_string()).unwrap_or_default();
    // Jobs that this program does not know stay, and are passed.
    let (mut pruned, mut skip, mut next) = (0, 0, None);
    for _ in 0..LOOKS_MAX {
        if pruned >= share {
            break;
        }
        let arguments: Vec<Bytes> = vec![
            tools.clock(),
            version.to_string().into(),
            state.code().to_string().into(),
            count.clone().into(),
            age.clone().into(),
            (share - pruned).to_string().into(),
            skip.to_string().into(),
        ];
        let answer = answer::array(session.run(&PRUNE, tools.keys.queue(queue).all(), arguments).await?)?;
        let [Value::Int(gone), Value::Int(has_more), Value::Int(strange), instant] = &answer[..] else {
            // The queue was defined anew meanwhile: the next call goes by that.
            break;
        };
        pruned += *gone as u32;
        skip += strange;
        if *has_more == 0 {
            next = Some(Next::read(&answer::bytes(instant.clone())?)?);
            break;
        }
    }
    tools.pauses.strange(queue, skip);
    // The share was all that there was: the next script would say so.
    Ok((pruned, next.filter(|_| pruned < share)))
}
