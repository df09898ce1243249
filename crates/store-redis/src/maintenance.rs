//! Work that no job asks for: delivering transfers between queues, promoting what is due, pruning what is old.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use windlass_core::bell::{Fresh, Rings, Topic};
use windlass_core::clock::whole_micros;
use windlass_core::queue::Keep;
use windlass_core::store::{Duty, Maintenance, Promotion, Shift, StoreResult};
use windlass_core::{HolderId, Name, State};

use crate::connect::Call;
use crate::error::Fault;
use crate::pauses::Work;
use crate::scripts::{LEAVE_DUTY, PROMOTE, PRUNE, TAKE_DUTY};
use crate::session::Session;
use crate::walk::{OfQueue, Walk};
use crate::{RedisStore, Tools, answer, queues, spread, transfers};

/// How many jobs one script moves, so that none takes long.
const PROMOTE_STEP: u32 = 250;
/// How many it removes: all that is kept of each is freed at once.
const PRUNE_STEP: u32 = 100;
/// How many scripts look through one queue and state before the next call goes on.
const LOOKS_MAX: usize = 100;

#[async_trait]
impl Maintenance for RedisStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.remote
            .call(Call::WRITE, async move |tools, session| promote(&tools, &session, limit).await)
            .await
    }

    /// Delivers transfers that their sender did not deliver, from the queues where a promotion has seen some.
    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let senders = tools.senders.take(limit as usize);
                let count = senders.len() as u32;
                deliver(&tools, &session, senders).await;
                Ok(count)
            })
            .await
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        if limit == 0 {
            return Ok(0);
        }
        self.remote.call(Call::WRITE, async move |tools, session| prune(&tools, &session, limit).await).await
    }

    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let ttl = whole_micros(ttl).as_micros().to_string();
                let arguments =
                    vec![tools.clock(), duty.name().into(), holder.to_string().into(), ttl.into()];
                let left = session.run(&TAKE_DUTY, vec![tools.keys.duties()], arguments).await?;
                let left = Duration::from_micros(answer::integer(left)?.unsigned_abs());
                Ok(if left.is_zero() { Shift::Own } else { Shift::Other(left) })
            })
            .await
    }

    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let arguments: Vec<Bytes> = vec![duty.name().into(), holder.to_string().into()];
                session.run(&LEAVE_DUTY, vec![tools.keys.duties()], arguments).await.map(drop)
            })
            .await
    }
}

async fn promote(tools: &Tools, session: &Session, limit: u32) -> Result<Promotion, Fault> {
    let queues = tools.registry.all(session, &tools.keys).await?;
    let hasty = session.hasty();
    let rounds =
        Walk::of(Work::Promote, tools, session).rounds(queues, limit, PROMOTE_STEP, |queue: Name, shares| {
            let hasty = &hasty;
            async move {
                let (moved, transfers) = promote_in(tools, hasty, &queue, shares).await?;
                let [_, promoted] = moved;
                if promoted > 0 {
                    let queue = queue.clone();
                    tools.ring(Rings::fresh(Fresh { queue, kind: None, jobs: promoted }));
                }
                if transfers > 0 {
                    tools.senders.note(queue);
                }
                Ok(moved)
            }
        });
    let moved = rounds.await;
    let [expired, promoted] = moved.done;
    let promotion = Promotion { promoted, expired };
    // Promoted jobs were rung for by queue.
    tools.ring(promotion.rings().without(Topic::Work));
    moved.into_done()?;
    Ok(promotion)
}

/// Queues in which transfers to others waited when they were last promoted. A promotion looks at every queue, so that
/// tidying needs no walk of its own.
#[derive(Debug, Default)]
pub(crate) struct Senders(Mutex<BTreeSet<Name>>);

impl Senders {
    fn note(&self, queue: Name) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(queue);
    }

    /// Takes some of them out. What is not delivered now is noted again by the next promotion.
    fn take(&self, limit: usize) -> Vec<Name> {
        let mut senders = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = Vec::new();
        while taken.len() < limit
            && let Some(queue) = senders.pop_first()
        {
            taken.push(queue);
        }
        taken
    }
}

/// Delivers transfers that their sender did not deliver.
/// Several senders at once: those whose transfers go to a server that is away wait for it, and the others do not.
async fn deliver(tools: &Tools, session: &Session, senders: Vec<Name>) {
    let deliveries = spread::each(senders, |queue| async move {
        if let Err(fault) = transfers::deliver(tools, session, &queue).await {
            tracing::debug!(?fault, %queue, "transfers to other queues wait");
        }
        Ok(())
    });
    if let Err(fault) = deliveries.await {
        tracing::debug!(?fault, "transfers to other queues wait");
    }
}

/// Moves jobs of one queue. Answers how many expired and became ready, and how many transfers wait there.
async fn promote_in(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    [expired, due]: [u32; 2],
) -> Result<([u32; 2], i64), Fault> {
    let arguments = vec![tools.clock(), expired.to_string().into(), due.to_string().into()];
    let moved = session.run(&PROMOTE, tools.keys.queue(queue).all(), arguments).await?;
    let moved = answer::array(moved)?.into_iter().map(answer::integer).collect::<Result<Vec<_>, _>>()?;
    let [expired, promoted, transfers] = moved[..] else {
        return Err(Fault::Corrupt("a promotion has no counts".to_owned()));
    };
    Ok(([expired as u32, promoted as u32], transfers))
}

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

async fn prune(tools: &Tools, session: &Session, limit: u32) -> Result<u32, Fault> {
    let names = tools.registry.all(session, &tools.keys).await?;
    let (hasty, walk) = (session.hasty(), Walk::of(Work::Prune, tools, session));
    let hasty = &hasty;
    let records = walk.gather(names, usize::MAX, |name| async move {
        Ok(queues::read(tools, hasty, name).await?.into_iter().collect())
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
    let rounds = walk.rounds(kept, limit, PRUNE_STEP, |kept: Kept, [share]| async move {
        Ok([prune_in(tools, hasty, &kept, share).await?])
    });
    let [pruned] = rounds.await.into_done()?;
    Ok(pruned)
}

/// Removes jobs of one queue and state. Those that weigh much take more than one script.
async fn prune_in(tools: &Tools, session: &Session, kept: &Kept, share: u32) -> Result<u32, Fault> {
    let Kept { queue, version, state, keep } = kept;
    let count = keep.count.map(|count| count.to_string()).unwrap_or_default();
    let age = keep.age.map(|age| whole_micros(age).as_micros().to_string()).unwrap_or_default();
    // Jobs that this program does not know stay, and are passed.
    let (mut pruned, mut skip) = (0, 0);
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
        let [Value::Int(gone), Value::Int(has_more), Value::Int(strange)] = answer[..] else {
            // The queue was defined anew meanwhile: the next call goes by that.
            break;
        };
        pruned += gone as u32;
        skip += strange;
        if has_more == 0 {
            break;
        }
    }
    tools.pauses.strange(queue, skip);
    Ok(pruned)
}
