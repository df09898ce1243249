//! Looking at leases: which there are, which jobs are lost with them, and which can be forgotten.

use std::collections::HashSet;

use bytes::Bytes;
use redis::Value;
use windlass_core::clock::Timestamp;
use windlass_core::job::LostJob;
use windlass_core::store::{LeaseRecord, Swept};
use windlass_core::{JobId, LeaseId, Name};

use super::holders::{Holder, OPENED_BYTES};
use super::renew::{id, record_keys};
use super::served::Reaping;
use crate::agenda::{Next, Round, Visited};
use crate::error::Fault;
use crate::pauses::Work;
use crate::row::Row;
use crate::scripts::{COUNT_RUNNING, EXPIRED_RECORDS, FORGET_RECORDS, LIST_RECORDS, LOST, SWEEP_LEASES};
use crate::session::Session;
use crate::walk::{OfQueue, Walk, or_none};
use crate::{Tools, answer};

/// How many lost jobs one script answers.
const LOST_STEP: u32 = 250;
/// How many leases one script reads or forgets.
const STEP: u32 = 250;
/// How often a sweep reads further records that have run out.
const SWEEP_ROUNDS: u32 = 10;
/// The instant that stands for "never" in an order of leases.
const NEVER_MICROS: i64 = 1 << 53;

/// Running jobs of lost leases. Queues that fail are left out, unless all do.
pub(super) async fn lost(tools: &Tools, session: &Session, limit: u32) -> Result<Vec<LostJob>, Fault> {
    if limit == 0 {
        return Ok(Vec::new());
    }
    let Reaping { queues, agenda, .. } = Reaping::read(tools, session).await?;
    let has_others = agenda.has_others(queues.len());
    let hasty = &session.hasty();
    let ask = |queue: Name| async move { lost_in(tools, hasty, &queue, limit).await };
    let lost = Walk::of(Work::Lost, tools, session).gather(queues, limit as usize, ask).await;
    or_none(lost, has_others)
}

async fn lost_in(tools: &Tools, session: &Session, queue: &Name, limit: u32) -> Result<Vec<LostJob>, Fault> {
    let (mut found, mut skip, mut strange) = (Vec::new(), 0, 0);
    while skip >= 0 && found.len() < limit as usize {
        let step = LOST_STEP.min(limit - found.len() as u32);
        let arguments = vec![tools.clock(), skip.to_string().into(), step.to_string().into()];
        let mut answer =
            answer::array(session.run(&LOST, tools.keys.queue(queue).all(), arguments).await?)?.into_iter();
        let (Some(next), Some(more)) = (answer.next(), answer.next()) else {
            return Err(Fault::Corrupt("lost jobs have no end".to_owned()));
        };
        skip = answer::integer(next)?;
        strange += answer::integer(more)?;
        strange += read_lost(queue, answer, &mut found)?;
    }
    tools.pauses.strange(queue, strange);
    Ok(found)
}

/// Jobs of lost leases as scripts tell them: ids and records. Answers how many have no fence that reads: no reaper can
/// take them back.
pub(super) fn read_lost(
    queue: &Name,
    mut answer: impl Iterator<Item = Value>,
    found: &mut Vec<LostJob>,
) -> Result<i64, Fault> {
    let mut strange = 0;
    while let (Some(id), Some(record)) = (answer.next(), answer.next()) {
        match Row::unpack(answer::bytes(record)?).lost(job_id(id)?, queue) {
            Some(job) => found.push(job),
            None => strange += 1,
        }
    }
    Ok(strange)
}

/// Forgets leases that have run out and that no job hangs on.
pub(super) async fn sweep(tools: &Tools, session: &Session, limit: u32) -> Result<Swept, Fault> {
    let reaping = Reaping::read(tools, session).await?;
    let mut swept = Swept::default();
    let mut busy = 0;
    for _ in 0..SWEEP_ROUNDS {
        let step = STEP.min(limit - swept.leases);
        if step == 0 {
            break;
        }
        let arguments = vec![tools.clock(), busy.to_string().into(), step.to_string().into()];
        let expired = session.run(&EXPIRED_RECORDS, vec![tools.keys.lease_expiry()], arguments).await?;
        let expired = answer::byte_strings(expired)?;
        let copies = sweep_copies(tools, session, &reaping, &expired).await?;
        let idle = (0..)
            .zip(&expired)
            .filter(|(place, _)| !copies.staying.contains(place))
            .map(|(_, lease)| lease.clone());
        let arguments: Vec<_> = std::iter::once(tools.clock()).chain(idle).collect();
        // Records that could not be read may name queues that were not asked: they stay until they can.
        let is_forgetting = reaping.is_whole && arguments.len() > 1;
        // Before the records: they name the queues that could not be asked.
        let kept = copies.write_down(tools, session, &reaping.agenda, is_forgetting).await;
        if is_forgetting {
            kept?;
            let gone = session.run(&FORGET_RECORDS, record_keys(tools), arguments).await?;
            swept.leases += answer::integer(gone)? as u32;
        }
        busy += copies.staying.len();
        if expired.len() < step as usize || !reaping.is_whole {
            break;
        }
    }
    Ok(swept)
}

/// What came of forgetting copies.
#[derive(Default)]
struct Copies {
    /// The places of those leases that a copy stays of.
    staying: HashSet<usize>,
    /// Queues that were asked, with whether copies stay there that have run out.
    asked: Vec<(Name, bool)>,
    /// Queues that could not be asked.
    unasked: Vec<Name>,
}

impl Copies {
    /// Writes down which queues have to be looked into again, whether a record names them or not.
    async fn write_down(
        &self,
        tools: &Tools,
        session: &Session,
        agenda: &Round,
        is_forgetting: bool,
    ) -> Result<(), Fault> {
        let Some(now) = agenda.began() else { return Ok(()) };
        let due = |queue: &Name, next| (queue.clone(), Visited { next, ..Visited::default() });
        let was_due: HashSet<_> = agenda.queues().into_iter().collect();
        let done = self.asked.iter().filter(|(queue, stay)| !stay && was_due.contains(queue));
        let done = done.map(|(queue, _)| due(queue, Next::Never));
        let unasked = self.unasked.iter().filter(|_| is_forgetting).map(|queue| due(queue, Next::At(now)));
        let visited = done.chain(unasked).collect();
        agenda.end(tools, session, &visited).await
    }
}

/// Forgets idle copies of leases. A queue that cannot be asked has no say about records: it is looked into later.
async fn sweep_copies(
    tools: &Tools,
    session: &Session,
    reaping: &Reaping,
    leases: &[Bytes],
) -> Result<Copies, Fault> {
    let hasty = &session.hasty();
    let queues = &reaping.queues;
    let swept = Walk::of(Work::Sweep, tools, session).each(queues.clone(), |queue: Name| async move {
        let arguments = std::iter::once(tools.clock()).chain(leases.iter().cloned()).collect();
        let staying = hasty.run(&SWEEP_LEASES, tools.keys.queue(&queue).all(), arguments).await?;
        answer::array(staying)?.into_iter().map(answer::integer).collect::<Result<Vec<_>, _>>()
    });
    let swept = swept.await;
    if let Some(Err(sick)) = swept.first()
        && swept.iter().all(Result::is_err)
        && !reaping.agenda.has_others(queues.len())
    {
        return Err(Fault::Sick(sick.clone()));
    }
    let mut copies = Copies::default();
    for (queue, said) in queues.iter().zip(swept) {
        match said.ok().and_then(|said| said.split_first().map(|(stay, places)| (*stay, places.to_vec()))) {
            Some((stay, places)) => {
                copies.asked.push((queue.clone(), stay != 0));
                copies.staying.extend(places.into_iter().map(|place| place as usize - 1));
            }
            None => copies.unasked.push(queue.clone()),
        }
    }
    Ok(copies)
}

/// The leases, newest first.
pub(super) async fn list(tools: &Tools, session: &Session, limit: u32) -> Result<Vec<LeaseRecord>, Fault> {
    let mut records = Vec::new();
    let mut before = Bytes::from_static(b"+inf");
    while records.len() < limit as usize {
        let step = STEP.min(limit - records.len() as u32);
        let arguments = vec![tools.clock(), before, step.to_string().into()];
        let answer = session.run(&LIST_RECORDS, record_keys(tools), arguments).await?;
        let mut answer = answer::array(answer)?.into_iter();
        let (Some(now), Some(next)) = (answer.next(), answer.next()) else {
            return Err(Fault::Corrupt("a page of leases has no time".to_owned()));
        };
        before = answer::bytes(next)?;
        let now = answer::integer(now)?;
        let mut is_last = true;
        while let (Some(id), Some(record), Some(expiry)) = (answer.next(), answer.next(), answer.next()) {
            is_last = false;
            let read = answer::integer(expiry)
                .and_then(|expiry| lease_record(id, &answer::bytes(record)?, expiry, now));
            match read {
                Ok(lease) => records.push(lease),
                // It hides no other.
                Err(fault) => tracing::warn!(?fault, "a lease is left out"),
            }
        }
        if is_last {
            break;
        }
    }
    count_running(tools, session, &mut records).await;
    Ok(records)
}

/// Asks every queue of these leases how many jobs hang on each.
async fn count_running(tools: &Tools, session: &Session, records: &mut [LeaseRecord]) {
    let mut by_queue: Vec<(Name, Vec<usize>)> = Vec::new();
    for (place, record) in records.iter().enumerate() {
        for queue in &record.queues {
            match by_queue.iter_mut().find(|(name, _)| name == queue) {
                Some((_, places)) => places.push(place),
                None => by_queue.push((queue.clone(), vec![place])),
            }
        }
    }
    let ids: Vec<_> = records.iter().map(|record| id(record.id)).collect();
    let ids = &ids;
    let hasty = &session.hasty();
    let by_queue = by_queue.into_iter().map(|(queue, places)| Places { queue, places }).collect();
    // Of a queue that cannot be asked nothing is counted.
    let counts = Walk::looking(tools, session).each(by_queue, |Places { queue, places }| async move {
        let mut counts = Vec::with_capacity(places.len());
        for step in places.chunks(STEP as usize) {
            let leases = step.iter().map(|&place| ids[place].clone());
            let arguments = std::iter::once(tools.clock()).chain(leases).collect();
            let running = hasty.run(&COUNT_RUNNING, tools.keys.queue(&queue).all(), arguments).await?;
            for (&place, running) in step.iter().zip(answer::array(running)?) {
                counts.push((place, answer::integer(running)?));
            }
        }
        Ok(counts)
    });
    for (place, running) in counts.await.into_iter().flatten().flatten() {
        records[place].running += running.unsigned_abs();
    }
}

/// Leases of one queue, by their places.
struct Places {
    queue: Name,
    places: Vec<usize>,
}

impl OfQueue for Places {
    fn queue(&self) -> &Name {
        &self.queue
    }
}

fn lease_record(id: Value, record: &[u8], expiry: i64, now: i64) -> Result<LeaseRecord, Fault> {
    let id = answer::bytes(id)?;
    let id = <[u8; 16]>::try_from(&id[..]).map_err(|_| Fault::Corrupt("a lease has no id".to_owned()))?;
    let (opened, holder) = record
        .split_first_chunk::<OPENED_BYTES>()
        .ok_or_else(|| Fault::Corrupt("a lease has a record that cannot be read".to_owned()))?;
    let Holder { label, queues, kinds, .. } = Holder::unpack(holder)?;
    let expires = if expiry >= NEVER_MICROS { i64::MAX } else { expiry };
    Ok(LeaseRecord {
        id: LeaseId::from_bytes(id),
        worker: label,
        queues,
        kinds,
        opened_at: Timestamp::from_micros(i64::from_be_bytes(*opened)),
        expires_at: Timestamp::from_micros(expires),
        is_lost: expires <= now,
        running: 0,
    })
}

fn job_id(value: Value) -> Result<JobId, Fault> {
    let bytes = answer::bytes(value)?;
    let bytes = <[u8; 16]>::try_from(&bytes[..]);
    bytes.map(JobId::from_bytes).map_err(|_| Fault::Corrupt("a lost job has no id".to_owned()))
}
