//! Work that no job asks for: delivering letters between queues, promoting what is due, pruning what is old.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::whole_micros;
use windlass_core::queue::Keep;
use windlass_core::store::{Maintenance, Promotion, StoreResult};
use windlass_core::{Name, State};

use crate::connect::{Effect, Lane};
use crate::error::Fault;
use crate::registry::Registry;
use crate::script::{Script, script};
use crate::session::Session;
use crate::{RedisStore, Tools, answer, outbox, queues, spread};

static PROMOTE: Script = script!(
    "maintenance/promote",
    "keys",
    "clock",
    "record",
    "lines",
    "batch",
    "blocks",
    "places",
    "promote"
);
static PRUNE: Script =
    script!("maintenance/prune", "keys", "clock", "record", "lines", "batch", "blocks", "places");

/// How many jobs one script moves, so that none takes long.
const PROMOTE_STEP: u32 = 250;
/// How many it removes: all that is kept of each is freed at once.
const PRUNE_STEP: u32 = 100;

#[async_trait]
impl Maintenance for RedisStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            promote(&tools, &session, limit).await
        })
        .await
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        if limit == 0 {
            return Ok(0);
        }
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            prune(&tools, &session, limit).await
        })
        .await
    }
}

async fn promote(tools: &Tools, session: &Session, limit: u32) -> Result<Promotion, Fault> {
    let queues = Registry::all(session, &tools.keys).await?;
    let senders = Mutex::new(Vec::new());
    let rounds = spread::rounds(queues, limit, PROMOTE_STEP, |queue: Name, shares| {
        let senders = &senders;
        async move {
            let (moved, letters) = promote_in(tools, session, &queue, shares).await?;
            if letters > 0 {
                senders.lock().unwrap_or_else(PoisonError::into_inner).push(queue);
            }
            Ok(moved)
        }
    });
    let moved = rounds.await;
    let [expired, promoted] = moved.done;
    let work = if promoted > 0 { Rings::about(Topic::Work) } else { Rings::NONE };
    let ends = if expired > 0 { Rings::about(Topic::Finish) } else { Rings::NONE };
    tools.ring(work.and(ends));
    let mut senders = senders.into_inner().unwrap_or_else(PoisonError::into_inner);
    senders.sort_unstable();
    senders.dedup();
    deliver(tools, session, senders).await;
    moved.into_done()?;
    Ok(Promotion { promoted, expired })
}

/// Delivers letters that whoever posted them did not. What was moved stands, whatever becomes of them.
/// Several senders at once: those whose letters go to a server that is away wait for it, and the others do not.
async fn deliver(tools: &Tools, session: &Session, senders: Vec<Name>) {
    let deliveries = spread::each(senders, |queue| async move {
        if let Err(fault) = outbox::deliver(tools, session, &queue).await {
            tracing::debug!(?fault, %queue, "letters to other queues wait");
        }
        Ok(())
    });
    if let Err(fault) = deliveries.await {
        tracing::debug!(?fault, "letters to other queues wait");
    }
}

/// Moves jobs of one queue. Answers how many expired and became ready, and how many letters wait there.
async fn promote_in(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    [expired, due]: [u32; 2],
) -> Result<([u32; 2], i64), Fault> {
    let arguments = vec![tools.clock(), expired.to_string().into(), due.to_string().into()];
    let moved = session.run(&PROMOTE, tools.keys.queue(queue).all(), arguments).await?;
    let moved = answer::array(moved)?.into_iter().map(answer::integer).collect::<Result<Vec<_>, _>>()?;
    let [expired, promoted, letters] = moved[..] else {
        return Err(Fault::Corrupt("a promotion has no counts".to_owned()));
    };
    Ok(([expired as u32, promoted as u32], letters))
}

/// Ended jobs of one queue and state that are not kept for ever.
#[derive(Debug, Clone)]
struct Kept {
    queue: Name,
    version: i64,
    state: State,
    keep: Keep,
}

async fn prune(tools: &Tools, session: &Session, limit: u32) -> Result<u32, Fault> {
    let names = Registry::all(session, &tools.keys).await?;
    let records = spread::gather(names, usize::MAX, |name| async move {
        Ok(queues::read(tools, session, name).await?.into_iter().collect())
    });
    let mut kept = Vec::new();
    for (record, version) in records.await? {
        for state in State::TERMINAL {
            let Some(keep) = record.config.retention.of(state) else { continue };
            let count = record.counts.of(state);
            let may_have_old = keep.age.is_some() && count > 0;
            if may_have_old || keep.count.is_some_and(|most| most < count) {
                kept.push(Kept { queue: record.name.clone(), version, state, keep });
            }
        }
    }
    let rounds = spread::rounds(kept, limit, PRUNE_STEP, |kept: Kept, [share]| async move {
        Ok([prune_in(tools, session, &kept, share).await?])
    });
    let [pruned] = rounds.await.into_done()?;
    Ok(pruned)
}

/// Removes jobs of one queue and state. Those that weigh much take more than one script.
async fn prune_in(tools: &Tools, session: &Session, kept: &Kept, share: u32) -> Result<u32, Fault> {
    let Kept { queue, version, state, keep } = kept;
    let count = keep.count.map(|count| count.to_string()).unwrap_or_default();
    let age = keep.age.map(|age| whole_micros(age).as_micros().to_string()).unwrap_or_default();
    let mut pruned = 0;
    while pruned < share {
        let arguments: Vec<Bytes> = vec![
            tools.clock(),
            version.to_string().into(),
            state.code().to_string().into(),
            count.clone().into(),
            age.clone().into(),
            (share - pruned).to_string().into(),
        ];
        let answer = answer::array(session.run(&PRUNE, tools.keys.queue(queue).all(), arguments).await?)?;
        let [Value::Int(gone), Value::Int(has_more)] = answer[..] else {
            // The queue was defined anew meanwhile: the next call goes by that.
            break;
        };
        pruned += gone as u32;
        if has_more == 0 {
            break;
        }
    }
    Ok(pruned)
}
