//! Finding jobs, the newest accepted first, over all queues or in one.
//!
//! Every queue has its own order of acceptance; the numbers in it come from the servers' clocks, so they can be compared.
//! A page is merged from looks into each queue, then its jobs are read.

mod merge;
mod place;

use std::collections::HashMap;

use async_trait::async_trait;
use bytes::Bytes;
use redis::Value;
use windlass_core::store::{
    Cursor, EndPlace, Ended, Filter, Inspect, JobPage, PAGE_MAX, SCAN_MAX, StoreResult,
};
use windlass_core::stored::time;
use windlass_core::{JobId, JobRecord, Name, State};

use crate::connect::Call;
use crate::error::Fault;
use crate::row::{Apart, Row};
use crate::scripts::{ENDED_JOBS, LIST_JOBS, READ_JOBS};
use crate::session::Session;
use crate::walk::{OfQueue, Walk};
use crate::{RedisStore, Tools, answer};
use merge::{Found, Look, Merge, Wanted};
use place::Place;

/// A page with this many bytes of payload, output and progress is full.
const PAGE_BYTES: u64 = 16 << 20;
/// How many jobs one script looks at.
const LOOK_STEP: u32 = 500;
/// How many jobs, and about how many bytes of them, one script reads.
const READ_STEP: usize = 250;
const READ_BYTES: u64 = 2 << 20;

#[async_trait]
impl Inspect for RedisStore {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        let start = after.map_or(Ok(Place::NEWEST), Place::parse)?;
        if limit == 0 {
            return Ok(JobPage::default());
        }
        let filter = filter.clone();
        self.remote
            .call(Call::READ, async move |tools, session| {
                list(&tools, &session, &filter, &start, limit.min(PAGE_MAX)).await
            })
            .await
    }

    async fn ended(
        &self,
        queue: &Name,
        state: State,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        let queue = queue.clone();
        self.remote
            .call(Call::READ, async move |tools, session| {
                ended(&tools, &session, &queue, state, after, limit.min(PAGE_MAX)).await
            })
            .await
    }
}

async fn ended(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    state: State,
    EndPlace { at, seq }: EndPlace,
    limit: u32,
) -> Result<Vec<Ended>, Fault> {
    let arguments = vec![
        tools.clock(),
        state.code().to_string().into(),
        at.as_micros().max(0).to_string().into(),
        if seq < 0 { Bytes::new() } else { seq.to_string().into() },
        limit.to_string().into(),
    ];
    let answer = session.run(&ENDED_JOBS, tools.keys.queue(queue).all(), arguments).await?;
    let found = answer::bytes(answer)?;
    let ended: Vec<_> = found.as_chunks::<{ 8 + 8 + 16 }>().0.iter().map(ended_job).collect();
    tools.queue_cache.note(queue, ended.iter().map(|ended| ended.id));
    Ok(ended)
}

/// A job as the script tells it: its instant, its seq and its id.
fn ended_job(bytes: &[u8; 32]) -> Ended {
    let number = |at: usize| i64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
    let place = EndPlace { at: time(number(0)), seq: number(8) };
    Ended { id: JobId::from_bytes(std::array::from_fn(|i| bytes[16 + i])), place }
}

async fn list(
    tools: &Tools,
    session: &Session,
    filter: &Filter,
    start: &Place,
    limit: u32,
) -> Result<JobPage, Fault> {
    let queues = match &filter.queue {
        Some(queue) => vec![queue.clone()],
        None => tools.registry.all(session, &tools.keys).await?,
    };
    let (hasty, walk, is_one) = (&session.hasty(), Walk::looking(tools, session), filter.queue.is_some());
    let mut has_looked = false;
    let mut merge = Merge::new(queues, start, limit as usize, PAGE_BYTES);
    let mut looks_left = SCAN_MAX;
    loop {
        let wanted = merge.wanted();
        if wanted.is_empty() || looks_left == 0 {
            break;
        }
        // Every queue looks at one job at least, so that each call comes further.
        let count = u32::try_from(wanted.len()).unwrap_or(u32::MAX);
        let step = (looks_left / count).clamp(1, LOOK_STEP);
        let lanes: Vec<_> = wanted.iter().map(|wanted| wanted.lane).collect();
        let looks = walk.each(wanted, |wanted| look(tools, hasty, filter, wanted, limit, step)).await;
        has_looked |= looks.iter().any(Result::is_ok);
        for (lane, look) in lanes.into_iter().zip(looks) {
            match look {
                Ok(look) => {
                    looks_left = looks_left.saturating_sub(look.looked);
                    merge.add(look);
                }
                Err(sick) if is_one || !has_looked => return Err(Fault::Sick(sick)),
                // Its jobs are missing on the page, and no others are.
                Err(_) => merge.leave_out(lane),
            }
        }
    }
    let (found, next) = merge.finish();
    let jobs = read(tools, session, filter, found).await?;
    Ok(JobPage { jobs, next: next.map(|place| place.cursor()) })
}

/// Looks into one queue.
async fn look(
    tools: &Tools,
    session: &Session,
    filter: &Filter,
    wanted: Wanted,
    most: u32,
    looks: u32,
) -> Result<Look, Fault> {
    let state = filter.state.map(|state| state.code().to_string()).unwrap_or_default();
    let arguments = vec![
        tools.clock(),
        wanted.before.to_string().into(),
        state.into(),
        filter.kind.as_ref().map(|kind| Bytes::copy_from_slice(kind.as_str().as_bytes())).unwrap_or_default(),
        filter.tag.as_ref().map(|tag| Bytes::from(format!(",{tag},"))).unwrap_or_default(),
        most.min(LOOK_STEP).to_string().into(),
        looks.to_string().into(),
    ];
    let answer = session.run(&LIST_JOBS, tools.keys.queue(&wanted.queue).all(), arguments).await?;
    let mut answer = answer::array(answer)?.into_iter();
    let (Some(before), Some(looked)) = (answer.next(), answer.next()) else {
        return Err(Fault::Corrupt("a look into a queue has no end".to_owned()));
    };
    Ok(Look {
        lane: wanted.lane,
        before: answer::integer(before)?.unsigned_abs(),
        looked: answer::integer(looked)? as u32,
        found: answer.map(found).collect::<Result<_, _>>()?,
    })
}

/// A job as the script tells it: seq, id and size.
fn found(value: Value) -> Result<Found, Fault> {
    let bytes = answer::bytes(value)?;
    let read = || {
        let (seq, rest) = bytes.split_first_chunk()?;
        let (id, size) = rest.split_first_chunk()?;
        let size = u32::from_be_bytes(size.try_into().ok()?);
        Some(Found { seq: u64::from_be_bytes(*seq), id: JobId::from_bytes(*id), size: size.into() })
    };
    read().ok_or_else(|| Fault::Corrupt("a job that was found has no place".to_owned()))
}

/// Reads the jobs that were found, in their order. Those that went or changed since, so that they match no more, are
/// left out.
async fn read(
    tools: &Tools,
    session: &Session,
    filter: &Filter,
    found: Vec<(Name, Found)>,
) -> Result<Vec<JobRecord>, Fault> {
    let order: Vec<_> = found.iter().map(|(queue, job)| (queue.clone(), job.id)).collect();
    let hasty = &session.hasty();
    let steps = steps(found);
    let read = Walk::looking(tools, session).each(steps, |step: Step| read_step(tools, hasty, step)).await;
    if let Some(Err(sick)) = read.first()
        && read.iter().all(Result::is_err)
    {
        return Err(Fault::Sick(sick.clone()));
    }
    let place = |record: JobRecord| ((record.queue.clone(), record.id), record);
    let mut records: HashMap<_, _> = read.into_iter().flatten().flatten().map(place).collect();
    let jobs = order.iter().filter_map(|place| records.remove(place));
    let matching =
        jobs.filter(|job| filter.matches(job.queue.as_str(), job.kind.as_str(), job.state, &job.tags));
    Ok(matching.collect())
}

/// Some jobs of one queue.
struct Step {
    queue: Name,
    ids: Vec<JobId>,
}

impl OfQueue for Step {
    fn queue(&self) -> &Name {
        &self.queue
    }
}

impl OfQueue for Wanted {
    fn queue(&self) -> &Name {
        &self.queue
    }
}

/// Ids by queue, in pieces that one script reads in a moment.
fn steps(found: Vec<(Name, Found)>) -> Vec<Step> {
    let mut by_queue: Vec<(Name, Vec<Found>)> = Vec::new();
    for (queue, job) in found {
        match by_queue.iter_mut().find(|(name, _)| *name == queue) {
            Some((_, jobs)) => jobs.push(job),
            None => by_queue.push((queue, vec![job])),
        }
    }
    let mut steps = Vec::new();
    for (queue, jobs) in by_queue {
        let (mut ids, mut bytes) = (Vec::new(), 0);
        for job in jobs {
            if ids.len() == READ_STEP || bytes > READ_BYTES {
                steps.push(Step { queue: queue.clone(), ids: std::mem::take(&mut ids) });
                bytes = 0;
            }
            ids.push(job.id);
            bytes += job.size;
        }
        steps.push(Step { queue, ids });
    }
    steps
}

async fn read_step(tools: &Tools, session: &Session, step: Step) -> Result<Vec<JobRecord>, Fault> {
    let Step { queue, ids } = step;
    let arguments = ids.iter().map(|id| Bytes::copy_from_slice(id.as_bytes()));
    let arguments = std::iter::once(tools.clock()).chain(arguments).collect();
    let answer = answer::array(session.run(&READ_JOBS, tools.keys.queue(&queue).all(), arguments).await?)?;
    let lists = answer.into_iter().map(|list| {
        let values = answer::array(list)?.into_iter().map(answer::optional_bytes);
        values.collect::<Result<Vec<_>, Fault>>()
    });
    let lists = lists.collect::<Result<Vec<_>, Fault>>()?;
    let [records, payloads, outputs, progress] = &lists[..] else {
        return Err(Fault::Corrupt("jobs were read without their parts".to_owned()));
    };
    tools.queue_cache.note(&queue, ids.iter().copied());
    let part = |list: &[Option<Bytes>], place: usize| list.get(place).cloned().flatten();
    let mut jobs = Vec::with_capacity(ids.len());
    for (place, &id) in ids.iter().enumerate() {
        if let Some(record) = part(records, place) {
            let apart = Apart {
                payload: part(payloads, place),
                output: part(outputs, place),
                progress: part(progress, place),
            };
            jobs.push(Row::unpack(record).record(id, &queue, apart).0);
        }
    }
    Ok(jobs)
}
