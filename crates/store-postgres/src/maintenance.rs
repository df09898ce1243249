//! Work that no job asks for: promoting what is due, folding counters and tallies, forgetting calls and records, pruning what is old.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use uuid::Uuid;
use windlass_core::bell::Rings;
use windlass_core::queue::QueueRecord;
use windlass_core::store::{CALL_MEMORY, Duty, Maintenance, Promotion, Shift, StoreResult};
use windlass_core::{HolderId, Name, State};

use crate::connect::Call;
use crate::error::Fault;
use crate::functions::{FORGET, LEAVE_DUTY, MEND, PROMOTE, PRUNE, TAKE_DUTY};
use crate::row::{self, at};
use crate::session::{Parameters, Session};
use crate::{PostgresStore, Tools, queues, tallies};

/// How many jobs one statement removes, so that none takes long.
const PRUNE_STEP: u32 = 1_000;
/// Folding takes at most this part of the time.
const FOLD_PAUSE_FACTOR: u32 = 50;
/// How many old calls are forgotten at once, and how long after the last of them it is looked again.
const FORGET_MAX: i64 = 10_000;
/// The same of records, which may be large.
const FORGET_RECORDS_MAX: i64 = 1_000;
const FORGET_PAUSE: Duration = Duration::from_secs(10);
/// How many lines, running jobs and gates are compared at once, and how long after the last of them it is begun again.
const MEND_MAX: i64 = 500;
const MEND_PAUSE: Duration = Duration::from_secs(60);
/// How many queues are looked at together.
const QUEUES_STEP: u32 = 20;

#[async_trait]
impl Maintenance for PostgresStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let row = session.call_one(&PROMOTE, &[&i64::from(limit)]).await?;
                let (queues, jobs): (Vec<&str>, Vec<i64>) = (at(&row, 1)?, at(&row, 2)?);
                let expired = at::<i64>(&row, 0)? as u32;
                let moved = Promotion { expired, promoted: jobs.iter().sum::<i64>() as u32 };
                let mut rings = Rings::NONE;
                if expired > 0 {
                    rings.add_ends();
                }
                for (queue, jobs) in queues.into_iter().zip(jobs) {
                    // What stands under a name that does not read is found by polling.
                    let Ok(queue) = Name::new(queue) else { continue };
                    rings = rings.and(Promotion { promoted: jobs as u32, expired: 0 }.rings(&queue));
                }
                tools.ring(rings);
                Ok(moved)
            })
            .await
    }

    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        if limit == 0 {
            return Ok(0);
        }
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                let folded = tools.folding.fold(&session, limit).await.unwrap_or_else(|fault| {
                    tracing::debug!(?fault, "counters were not folded");
                    0
                });
                let forgotten = tools.forgetting.forget(&session, limit).await.unwrap_or_else(|fault| {
                    tracing::debug!(?fault, "old calls and records were not forgotten");
                    0
                });
                if let Err(fault) = tools.mending.mend(&tools, &session, limit).await {
                    tracing::debug!(?fault, "gates were not compared with their jobs");
                }
                Ok(u32::try_from(folded + forgotten).unwrap_or(u32::MAX))
            })
            .await
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        let mut pruned = 0;
        let mut after = None;
        while pruned < limit {
            let from = after.take();
            let list =
                async move |_, session: Session| queues::list(&session, from.as_ref(), QUEUES_STEP).await;
            let queues = self.remote.call(Call::READ, list).await?;
            let Some(last) = queues.last() else { break };
            after = Some(last.name.clone());
            let left = limit - pruned;
            // A call of its own per few queues: each is bounded by the statement timeout.
            let prune = async move |_, session: Session| prune(&session, &queues, left).await;
            pruned += self.remote.call(Call::WRITE, prune).await?;
        }
        Ok(pruned)
    }

    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        self.remote
            .call(Call::WRITE, async move |_, session| {
                let (holder, ttl) = (Uuid::from_bytes(*holder.as_bytes()), row::micros(ttl));
                let rows = session.call(&TAKE_DUTY, &[&duty.name(), &holder, &ttl]).await?;
                let left = rows.first().map(|row| at::<i64>(row, 0)).transpose()?;
                Ok(left.map_or(Shift::Own, |left| Shift::Other(Duration::from_micros(left.unsigned_abs()))))
            })
            .await
    }

    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        self.remote
            .call(Call::WRITE, async move |_, session| {
                let holder = Uuid::from_bytes(*holder.as_bytes());
                session.call(&LEAVE_DUTY, &[&duty.name(), &holder]).await.map(drop)
            })
            .await
    }
}

/// When to fold the rows of counters and tallies. Dead rows that the server may not remove make it slower, so it is done the more rarely
/// the longer it takes.
#[derive(Debug, Default)]
pub(crate) struct Folding {
    next: Mutex<Option<Instant>>,
}

impl Folding {
    async fn fold(&self, session: &Session, limit: u32) -> Result<i64, Fault> {
        let started = Instant::now();
        if self.next.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|next| started < next) {
            return Ok(0);
        }
        let most = queues::FOLD_MAX.min(limit.into());
        let folded = match queues::fold(session, most).await {
            Ok(counts) => tallies::fold(session, most).await.map(|tallies| counts.max(tallies)),
            failed => failed,
        };
        // One that leaves something over is gone on with.
        let is_whole = folded.as_ref().is_ok_and(|folded| *folded < most);
        let pause = if is_whole { started.elapsed() * FOLD_PAUSE_FACTOR } else { Duration::ZERO };
        let next = Instant::now() + pause;
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(next);
        folded
    }
}

/// When to forget calls that are no longer repeated, and what has had its time.
#[derive(Debug, Default)]
pub(crate) struct Forgetting {
    next: Mutex<Option<Instant>>,
}

impl Forgetting {
    async fn forget(&self, session: &Session, limit: u32) -> Result<i64, Fault> {
        let started = Instant::now();
        if self.next.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|next| started < next) {
            return Ok(0);
        }
        let (age, most) = (row::micros(CALL_MEMORY), FORGET_MAX.min(limit.into()));
        let parameters: Parameters<'_> = &[&age, &most, &FORGET_RECORDS_MAX.min(most)];
        let answer = session.call_one(&FORGET, parameters).await;
        let gone = answer.and_then(|row| Ok((at::<i64>(&row, 0)?, at::<bool>(&row, 1)?)));
        // One that leaves something over is gone on with.
        let is_whole = gone.as_ref().is_ok_and(|(_, has_more)| !has_more);
        let pause =
            if is_whole { FORGET_PAUSE.max(started.elapsed() * FOLD_PAUSE_FACTOR) } else { Duration::ZERO };
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + pause);
        gone.map(|(gone, _)| gone)
    }
}

/// When to compare gates with the jobs that they are about, and from where on.
#[derive(Debug, Default)]
pub(crate) struct Mending {
    place: Mutex<Place>,
}

#[derive(Debug, Default, Clone)]
struct Place {
    next: Option<Instant>,
    queue: Option<String>,
    line: Option<i64>,
    gate: Option<String>,
    job: Option<i64>,
}

impl Mending {
    async fn mend(&self, tools: &Tools, session: &Session, limit: u32) -> Result<(), Fault> {
        let lock = || self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = lock().clone();
        if place.next.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        // What fails is looked at again from the beginning.
        *lock() = Place { next: Some(Instant::now() + MEND_PAUSE), ..Place::default() };
        let most = MEND_MAX.min(limit.into());
        let queue = place.queue.unwrap_or_default();
        let fields: Parameters<'_> =
            &[&most, &queue, &place.line, &place.gate, &place.job.unwrap_or(i64::MIN)];
        let row = session.call_one(&MEND, fields).await?;
        let (queue, job): (Option<String>, Option<i64>) = (at(&row, 0)?, at(&row, 3)?);
        let pause = if queue.is_some() || job.is_some() { Duration::ZERO } else { MEND_PAUSE };
        let next = Some(Instant::now() + pause);
        *lock() = Place { next, queue, line: at(&row, 1)?, gate: at(&row, 2)?, job };
        let (lines, jobs, gates): (i64, i64, i64) = (at(&row, 4)?, at(&row, 5)?, at(&row, 6)?);
        if lines + jobs + gates > 0 {
            let queues: Vec<&str> = at(&row, 7)?;
            tracing::warn!(
                ?queues,
                lines,
                jobs,
                gates,
                "mended gates of keys: `lines` had ready jobs and no gate, `jobs` counted and did not run, `gates` were \
                 closed without a reason; please report it"
            );
            let mut rings = Rings::NONE;
            for queue in queues.into_iter().filter_map(|queue| Name::new(queue).ok()) {
                rings = rings.and(Promotion { promoted: 1, expired: 0 }.rings(&queue));
            }
            tools.ring(rings);
        }
        Ok(())
    }
}

async fn prune(session: &Session, queues: &[QueueRecord], limit: u32) -> Result<u32, Fault> {
    let mut pruned = 0;
    for QueueRecord { name, config, counts, .. } in queues {
        for state in State::TERMINAL {
            let Some(keep) = config.retention.of(state) else { continue };
            if counts.of(state) == 0 || (keep.count.is_none() && keep.age.is_none()) {
                continue;
            }
            let (kept, age) = (keep.count.map(row::to_stored), keep.age.map(row::micros));
            while pruned < limit {
                let step = PRUNE_STEP.min(limit - pruned);
                let fields: Parameters<'_> =
                    &[&name.as_str(), &i64::from(state.code()), &kept, &age, &i64::from(step)];
                let gone: i64 = at(&session.call_one(&PRUNE, fields).await?, 0)?;
                pruned += gone as u32;
                if gone < i64::from(step) {
                    break;
                }
            }
        }
    }
    Ok(pruned)
}
