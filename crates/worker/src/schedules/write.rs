//! Changes of schedules by callers: each reads the record, decides, and writes it with its tick if the record is as it was.

use windlass_core::clock::Timestamp;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Expect, Record, RecordWrite, Version};
use windlass_core::schedule::{Recurrence, ScheduleInvalid, ScheduleRecord};
use windlass_core::{JobId, Name};

use super::index::{self, Entry};
use super::{ScheduleAnswer, ScheduleSet, ScheduleView, key, tick_job};
use crate::client::Client;
use crate::error::{Error, Result};

/// How often a change is begun anew because another one came before it.
const TRIES_MAX: u32 = 20;

/// The record of a schedule, and what its newest write left.
pub(super) async fn read(
    client: &Client,
    queue: &Name,
    id: &str,
) -> Result<Option<(ScheduleRecord, Version)>> {
    let found = client.records(queue)?.get_raw(key(id)?).await?;
    let read = |record: Record| Ok((ScheduleRecord::read(&record.value)?, record.version));
    found.map(read).transpose()
}

/// Changes a schedule until no other change comes between. The function answers whether there is something to write.
pub(super) async fn change(
    client: &Client,
    queue: &Name,
    id: &str,
    mut decide: impl FnMut(&mut ScheduleRecord, Timestamp) -> Result<Write>,
) -> Result<Option<ScheduleRecord>> {
    for _ in 0..TRIES_MAX {
        let Some((before, version)) = read(client, queue, id).await? else { return Ok(None) };
        let (mut record, now) = (before.clone(), client.store().now().await?);
        let write = decide(&mut record, now)?;
        if write == Write::Nothing {
            return Ok(Some(before));
        }
        match put(client, queue, id, &mut record, write, Expect::Version(version)).await {
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
            Ok(()) => {
                drop_tick(client, before.tick, record.tick).await;
                return Ok(Some(record));
            }
        }
    }
    Err(Error::Restless { attempts: TRIES_MAX.into() })
}

/// What a change writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Write {
    Nothing,
    /// The record, whose tick stays.
    Record,
    /// The record without a tick, or with a new one if it has anything to wait for.
    Tick,
}

/// Writes a record, and a new tick if it is to have one.
async fn put(
    client: &Client,
    queue: &Name,
    id: &str,
    record: &mut ScheduleRecord,
    write: Write,
    expect: Expect,
) -> Result<()> {
    let mut jobs = Vec::new();
    if write == Write::Tick {
        let tick = first_look(record, queue, id).map(|at| tick_job(queue, id, at));
        record.tick = tick.as_ref().map(|tick| tick.id);
        jobs.extend(tick);
    }
    let records = vec![RecordWrite::put(key(id)?, record.text()).expect(expect)];
    client.records(queue)?.write(FollowUps { jobs, records }).await.map(drop)
}

/// When a tick looks at a schedule first; nothing if it has nothing to wait for.
fn first_look(record: &ScheduleRecord, queue: &Name, id: &str) -> Option<Timestamp> {
    if record.is_paused {
        return None;
    }
    let delay = record.schedule.start_delay(queue.as_str(), id);
    let waiting = record.state.waiting.first().map(|run| run.slot);
    let next = record.state.next.map(|next| next.plus(delay));
    waiting.into_iter().chain(next).min()
}

/// Removes the tick that a schedule had. One that stays runs once more, and finds that it is not the schedule's.
async fn drop_tick(client: &Client, before: Option<JobId>, now: Option<JobId>) {
    if let Some(before) = before.filter(|before| Some(*before) != now)
        && let Err(error) = client.delete(before).await
    {
        tracing::debug!(%error, tick = %before, "the tick of before was not removed");
    }
}

/// The first slot that a schedule has not decided about, from now on.
pub(super) fn next_slot(
    recurrence: &Recurrence,
    record: &ScheduleRecord,
    now: Timestamp,
) -> Option<Timestamp> {
    // A clock that was set back brings no slot twice.
    recurrence.next_after(record.state.last.map_or(now, |last| last.max(now)))
}

/// Sets a schedule: makes it, or changes the one that has this id.
pub(super) async fn set(
    client: &Client,
    queue: &Name,
    id: &str,
    wanted: ScheduleRecord,
) -> Result<ScheduleAnswer> {
    let recurrence = wanted.schedule.recurrence()?;
    if wanted.job.key().is_some() {
        client.queue(queue)?.permit_keys().await?;
    }
    let entry = Entry { queue: queue.clone(), owner: wanted.owner.clone() };
    let known = index::get(client, id).await?;
    if let Some(other) = known.as_ref().filter(|known| known.queue != *queue) {
        remove(client, &other.queue, id).await?;
    }
    if known.as_ref() != Some(&entry) {
        index::put(client, id, &entry).await?;
    }
    for _ in 0..TRIES_MAX {
        let mut set = ScheduleSet::Unchanged;
        let changed = change(client, queue, id, |record, now| {
            Ok(match apply(record, &wanted, &recurrence, now) {
                Write::Nothing => Write::Nothing,
                write => {
                    set = ScheduleSet::Changed;
                    write
                }
            })
        });
        let record = match changed.await? {
            Some(record) => record,
            None => match create(client, queue, id, &wanted, &recurrence).await {
                Err(error) if error.is_conflict() => continue,
                created => {
                    set = ScheduleSet::Created;
                    created?
                }
            },
        };
        let tick = record.tick;
        return Ok(ScheduleAnswer { set, tick, schedule: ScheduleView::of(id, queue, record) });
    }
    Err(Error::Restless { attempts: TRIES_MAX.into() })
}

/// What a record says after a schedule was set, and what of it is written.
fn apply(
    record: &mut ScheduleRecord,
    wanted: &ScheduleRecord,
    recurrence: &Recurrence,
    now: Timestamp,
) -> Write {
    if record.says_the_same(wanted) {
        return Write::Nothing;
    }
    let is_moved = record.schedule != wanted.schedule;
    record.schedule = wanted.schedule.clone();
    (record.job, record.owner) = (wanted.job.clone(), wanted.owner.clone());
    if !is_moved {
        return Write::Record;
    }
    record.state.next = next_slot(recurrence, record, now);
    Write::Tick
}

async fn create(
    client: &Client,
    queue: &Name,
    id: &str,
    wanted: &ScheduleRecord,
    recurrence: &Recurrence,
) -> Result<ScheduleRecord> {
    let now = client.store().now().await?;
    let mut record = wanted.clone();
    record.state.next = recurrence.next_after(now);
    if record.state.next.is_none() {
        let why = format!("it has no slot after {now}, which the store's clock shows");
        return Err(ScheduleInvalid::Field { field: "when", why }.into());
    }
    put(client, queue, id, &mut record, Write::Tick, Expect::Absent).await?;
    Ok(record)
}

/// Gives a schedule a new tick if it is still as it was read; answers whether it did.
pub(crate) async fn rearm(client: &Client, view: &ScheduleView, version: Version) -> Result<bool> {
    let mut record = view.record.clone();
    match put(client, &view.queue, &view.id, &mut record, Write::Tick, Expect::Version(version)).await {
        Err(error) if error.is_conflict() => Ok(false),
        written => written.map(|()| true),
    }
}

/// Removes a schedule and its tick. Jobs that it made stay.
pub(super) async fn remove(client: &Client, queue: &Name, id: &str) -> Result<bool> {
    let records = client.records(queue)?;
    for _ in 0..TRIES_MAX {
        let Some(found) = records.get_raw(key(id)?).await? else { return Ok(false) };
        match records.remove_version(key(id)?, found.version).await {
            Err(error) if error.is_conflict() => {}
            Err(error) => return Err(error),
            Ok(()) => {
                // What does not read has a tick that finds no record.
                let tick = ScheduleRecord::read(&found.value).ok().and_then(|record| record.tick);
                drop_tick(client, tick, None).await;
                return Ok(true);
            }
        }
    }
    Err(Error::Restless { attempts: TRIES_MAX.into() })
}
