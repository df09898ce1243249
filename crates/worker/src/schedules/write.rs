//! Changes of schedules by callers: each reads the record, decides, and writes it with its tick if the record is as it was.

use std::time::Duration;

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

/// The first slot whose job has still to start, `delay` after it.
pub(super) fn next_slot(
    recurrence: &Recurrence,
    record: &ScheduleRecord,
    now: Timestamp,
    delay: Duration,
) -> Option<Timestamp> {
    let begin = now.minus(delay);
    // A clock that was set back brings no slot twice.
    recurrence.next_after(record.state.last.map_or(begin, |last| last.max(begin)))
}

/// Sets a schedule: makes it, or changes the one that has this id.
pub(super) async fn set(
    client: &Client,
    queue: &Name,
    id: &str,
    wanted: ScheduleRecord,
) -> Result<ScheduleAnswer> {
    let recurrence = wanted.recurrence()?;
    if wanted.job.key().is_some() {
        client.queue(queue)?.permit_keys().await?;
    }
    let entry = Entry { queue: queue.clone(), owner: wanted.owner.clone() };
    let known = index::get(client, id).await?;
    if known.as_ref().is_none_or(|known| known.queue != *queue) {
        // What can never come takes no other's place.
        first_slot(&recurrence, client.store().now().await?)?;
    }
    if let Some(other) = known.as_ref().filter(|known| known.queue != *queue) {
        remove(client, &other.queue, id).await?;
    }
    if known.as_ref() != Some(&entry) {
        index::put(client, id, &entry).await?;
    }
    for _ in 0..TRIES_MAX {
        let mut set = ScheduleSet::Unchanged;
        let changed = change(client, queue, id, |record, now| {
            let delay = wanted.schedule.start_delay(queue.as_str(), id);
            Ok(match apply(record, &wanted, &recurrence, (now, delay)) {
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
        settle_place(client, queue, id, &entry).await?;
        let tick = record.tick;
        return Ok(ScheduleAnswer { set, tick, schedule: ScheduleView::of(id, queue, record) });
    }
    Err(Error::Restless { attempts: TRIES_MAX.into() })
}

/// Mends what a change beside this one has left: a schedule that was written is found by its entry, and is in one queue only.
async fn settle_place(client: &Client, queue: &Name, id: &str, entry: &Entry) -> Result<()> {
    match index::get(client, id).await? {
        None => index::put(client, id, entry).await,
        Some(place) if place.queue != *queue => remove(client, queue, id).await.map(drop),
        Some(_) => Ok(()),
    }
}

/// What a record says after a schedule was set, and what of it is written.
fn apply(
    record: &mut ScheduleRecord,
    wanted: &ScheduleRecord,
    recurrence: &Recurrence,
    (now, delay): (Timestamp, Duration),
) -> Write {
    if record.says_the_same(wanted) {
        return Write::Nothing;
    }
    let is_moved = !record.has_the_same_slots(wanted);
    (record.schedule, record.days) = (wanted.schedule.clone(), wanted.days.clone());
    (record.job, record.owner) = (wanted.job.clone(), wanted.owner.clone());
    if !is_moved {
        return Write::Record;
    }
    // A slot that was not decided about is not lost by the change, however late it is, unless the schedule no longer has it.
    let kept = record.state.next.filter(|next| recurrence.next_at(*next) == Some(*next));
    let found = next_slot(recurrence, record, now, delay);
    record.state.next = kept.into_iter().chain(found).min();
    Write::Tick
}

/// Gives a schedule these days, if they are still those of its calendars. Answers whether it had others.
pub(super) async fn rest_on(client: &Client, view: &ScheduleView, days: &[String]) -> Result<bool> {
    let (queue, id) = (&view.queue, view.id.as_str());
    let mut is_changed = false;
    let changed = change(client, queue, id, |record, now| {
        is_changed = false;
        if record.schedule.calendars != view.record.schedule.calendars {
            return Ok(Write::Nothing);
        }
        let mut wanted = record.clone();
        wanted.days = days.to_vec();
        wanted.check_size()?;
        let delay = record.schedule.start_delay(queue.as_str(), id);
        let write = apply(record, &wanted, &wanted.recurrence()?, (now, delay));
        is_changed = write != Write::Nothing;
        Ok(write)
    });
    changed.await?;
    Ok(is_changed)
}

/// The first slot of a schedule that begins now.
fn first_slot(recurrence: &Recurrence, now: Timestamp) -> Result<Timestamp> {
    recurrence.next_after(now).ok_or_else(|| {
        let why = format!("it has no slot after {now}, which the store's clock shows");
        ScheduleInvalid::Field { field: "when", why }.into()
    })
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
    record.state.next = Some(first_slot(recurrence, now)?);
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
