//! Unique keys and who holds them. Keys are taken by `accept` and by a retry by hand, and given up by `moves`. How long
//! one is held is the rule of [`Lifetime`]; stored is only who has it, and until when if that is an instant.
//!
//! A job says in its row which key it came with. One that holds its key until it starts or ends also says the key's
//! [place] there, and an index of few bytes finds it by that: keys are spread at random, so a call writes nearly as many pages
//! of the index as there are. A key that is held for a time has a row of its own, which names its holder by id, for it may
//! outlive the job. So has one whose place another key has, which hardly ever happens.

use std::collections::HashSet;

use rusqlite::Connection;
use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::sql::{Row, SqlError};
use windlass_core::unique::{Digest, Lifetime, UniqueKey};
use windlass_core::{JobId, Name, State};

use crate::error::Fault;
use crate::moves::Standing;
use crate::row;
use crate::session::Session;
use crate::transaction::{Field, Transaction};

const HOLDER: &str = include_str!("../queries/keys/holder.sql");
const OF_JOB: &str = include_str!("../queries/keys/of_job.sql");
const IN_PLACE: &str = include_str!("../queries/keys/in_place.sql");
const PLACE: &str = include_str!("../queries/keys/place.sql");
const ANY_PLACED_16: &str = include_str!("../queries/keys/any_placed_16.sql");
const IS_ANY_HELD: &str = include_str!("../queries/keys/is_any_held.sql");
const ANY_HELD_16: &str = include_str!("../queries/keys/any_held_16.sql");
const TAKE: &str = include_str!("../queries/keys/take.sql");
const TAKE_16: &str = include_str!("../queries/keys/take_16.sql");
const GIVE_UP: &str = include_str!("../queries/keys/give_up.sql");
const GIVE_UP_SINCE: &str = include_str!("../queries/keys/give_up_since.sql");
const IS_ANY_OVER: &str = include_str!("../queries/keys/is_any_over.sql");
const FORGET_OVER: &str = include_str!("../queries/keys/forget_over.sql");
const FORGET_QUEUE: &str = include_str!("../queries/keys/forget_queue.sql");

/// Who holds a key.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) id: JobId,
    /// Nothing if the job is gone, or if its state does not read.
    pub(crate) state: Option<State>,
    /// Its row, if it is there and of a form that this program may write.
    pub(crate) row: Option<HolderRow>,
}

/// What a job that replaces the holder has to know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HolderRow {
    pub(crate) seq: i64,
    pub(crate) is_scheduled: bool,
    pub(crate) enqueued_at: Timestamp,
    pub(crate) due_at: Timestamp,
}

/// Where a key of a queue is looked for. Keys of one place are told apart by queue and digest. Stored: it must not change.
fn place(queue: &Name, digest: Digest) -> i64 {
    const BITS: u64 = (1 << 48) - 1;
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let queue = queue.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    let digest = digest.0.iter().take(6).fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
    // SQLite stores numbers from -2^47 to 2^47 in six bytes.
    ((queue ^ digest) & BITS).cast_signed() - (1 << 47)
}

/// Whether a key is held for a time, and so in a row of its own.
const fn is_timed(lifetime: Lifetime) -> bool {
    matches!(lifetime, Lifetime::Window(_) | Lifetime::Slot(_))
}

/// The parameters of the keys of one of so many jobs: none, as `accept/insert_unique.sql` takes them, or
/// `accept/insert_unique_16.sql` or `accept/insert_keyed.sql`. A job that is inserted alone gets its place by [`take`].
pub(crate) fn fields(job: &NewJob, jobs: usize) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    match &job.unique {
        Some(UniqueKey { digest, lifetime }) => {
            fields.extend([Field::Id(&digest.0), Some(lifetime.to_string()).into()]);
            if jobs > 1 {
                fields.push((!is_timed(*lifetime)).then(|| place(&job.queue, *digest)).into());
            }
        }
        None if job.key.is_some() => fields.extend([Field::Int(None), Field::Int(None)]),
        None => {}
    }
    fields.extend(job.key.iter().map(|key| Field::from(key.as_str())));
    fields
}

/// The job that holds a key of a queue now.
pub(crate) async fn holder<T: Transaction>(
    tx: &mut T,
    queue: &Name,
    digest: Digest,
) -> Result<Option<Holder>, T::Error> {
    let fields = [queue.as_str().into(), Field::Id(&digest.0), place(queue, digest).into()];
    let found = tx.find(HOLDER, &fields).await?;
    let Some(found) = found else { return Ok(None) };
    Ok(held(&found, tx.now()).map_err(corrupt)?)
}

/// Who holds the key of a row of `keys/holder.sql`, if it is not free.
///
/// A key that its job has to give up is free as well when the job is gone or has ended. Then a program did not give it
/// up that knows no keys, which may go on for a moment after a newer one has changed the schema.
fn held(found: &Row, now: Timestamp) -> Result<Option<Holder>, SqlError> {
    let id = JobId::from_bytes(found.uuid(0)?);
    let free_at = found.optional_int(1)?.map(row::time);
    let state = found.optional_int(3)?.and_then(State::from_code);
    let is_open = found.optional_int(2)?.is_some() && !state.is_some_and(State::is_terminal);
    if free_at.map_or(!is_open, |free_at| free_at <= now) {
        return Ok(None);
    }
    let row = match (found.optional_int(2)?, found.optional_int(4)?) {
        (Some(seq), Some(form)) if form <= row::FORM => {
            let (enqueued_at, due_at) = (row::time(found.int(5)?), row::time(found.int(6)?));
            Some(HolderRow { seq, is_scheduled: state == Some(State::Scheduled), enqueued_at, due_at })
        }
        _ => None,
    };
    Ok(Some(Holder { id, state, row }))
}

/// How the keys of jobs are taken that are inserted at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TakeMany {
    /// They are taken.
    Taken,
    /// Each is taken with its row, which is not inserted if another row has its place.
    WithRows,
    /// None is taken: it takes more than a look to say whether they are free.
    OneByOne,
}

/// Gives their keys to as many jobs as are inserted at once, if they are for one queue and no key has a row of its own.
pub(crate) async fn take_many<T: Transaction>(tx: &mut T, jobs: &[NewJob]) -> Result<TakeMany, T::Error> {
    let queue = &jobs[0].queue;
    let of_queue = jobs.iter().filter(|job| job.queue == *queue);
    let keys: Vec<UniqueKey> = of_queue.filter_map(|job| job.unique).collect();
    let timed = keys.iter().filter(|key| is_timed(key.lifetime)).count();
    if keys.len() < jobs.len() || (timed > 0 && timed < jobs.len()) {
        return Ok(TakeMany::OneByOne);
    }
    if timed == 0 {
        let is_free = !is_any_held(tx, queue, &keys).await?;
        return Ok(if is_free { TakeMany::WithRows } else { TakeMany::OneByOne });
    }
    let places: Vec<Field<'_>> = keys.iter().map(|key| place(queue, key.digest).into()).collect();
    let is_taken = !is_any(tx, ANY_PLACED_16, &places).await? && take_many_timed(tx, jobs).await?;
    Ok(if is_taken { TakeMany::Taken } else { TakeMany::OneByOne })
}

/// Whether one of these keys has a row of its own.
async fn is_any_held<T: Transaction>(tx: &mut T, queue: &Name, keys: &[UniqueKey]) -> Result<bool, T::Error> {
    let queue = || Field::from(queue.as_str());
    if !is_any(tx, IS_ANY_HELD, &[queue()]).await? {
        return Ok(false);
    }
    let digests = keys.iter().map(|key| Field::Id(&key.digest.0));
    let fields: Vec<Field<'_>> = [queue()].into_iter().chain(digests).collect();
    is_any(tx, ANY_HELD_16, &fields).await
}

async fn is_any<T: Transaction>(
    tx: &mut T,
    sql: &'static str,
    fields: &[Field<'_>],
) -> Result<bool, T::Error> {
    let found = tx.find(sql, fields).await?;
    let is_any = found.map(|row| row.int(0)).transpose().map_err(corrupt)?;
    Ok(is_any.is_some_and(|is_any| is_any != 0))
}

/// Gives keys that are held for a time to jobs, if none of them has a row. Otherwise none takes its key.
async fn take_many_timed<T: Transaction>(tx: &mut T, jobs: &[NewJob]) -> Result<bool, T::Error> {
    let (now, mut fields) = (tx.now(), Vec::with_capacity(4 * jobs.len()));
    for NewJob { id, queue, unique, .. } in jobs {
        let Some(UniqueKey { digest, lifetime }) = unique else { continue };
        let free_at = lifetime.free_at(now).map(Timestamp::as_micros);
        fields.extend([
            queue.as_str().into(),
            Field::Id(&digest.0),
            Field::Id(id.as_bytes()),
            free_at.into(),
        ]);
    }
    let taken = tx.find_all(TAKE_16, &fields).await?;
    if taken.len() == jobs.len() {
        return Ok(true);
    }
    let taken = taken.iter().map(|row| row.uuid(0)).collect::<Result<HashSet<_>, _>>().map_err(corrupt)?;
    let has_taken = |job: &&NewJob| job.unique.is_some_and(|key| taken.contains(&key.digest.0));
    for job in jobs.iter().filter(has_taken) {
        leave(tx, job).await?;
    }
    Ok(false)
}

/// Frees the key that a job has just taken which is not stored.
pub(crate) async fn leave<T: Transaction>(tx: &mut T, job: &NewJob) -> Result<(), T::Error> {
    // Any other key stands in the row that is not stored.
    let Some(key) = job.unique.filter(|key| is_timed(key.lifetime)) else { return Ok(()) };
    let fields = [job.queue.as_str().into(), Field::Id(&key.digest.0), Field::Id(job.id.as_bytes())];
    tx.run(GIVE_UP, &fields).await
}

/// Gives a key that is free to a job which is stored and holds none.
pub(crate) async fn take<T: Transaction>(
    tx: &mut T,
    (seq, id): (i64, JobId),
    queue: &Name,
    key: UniqueKey,
) -> Result<(), T::Error> {
    let free_at = key.lifetime.free_at(tx.now()).map(Timestamp::as_micros);
    let place = place(queue, key.digest);
    if free_at.is_none() && clear(tx, place).await? {
        return tx.run(PLACE, &[seq.into(), place.into()]).await;
    }
    let fields = [queue.as_str().into(), Field::Id(&key.digest.0), Field::Id(id.as_bytes()), free_at.into()];
    tx.run(TAKE, &fields).await
}

/// Whether a place is free by now: a job that has ended is taken out, which a program did not do that knows no places.
async fn clear<T: Transaction>(tx: &mut T, place: i64) -> Result<bool, T::Error> {
    let Some(found) = tx.find(IN_PLACE, &[place.into()]).await? else { return Ok(true) };
    let (seq, has_ended) = (found.int(0).map_err(corrupt)?, found.int(1).map_err(corrupt)?);
    if has_ended != 0 {
        tx.run(PLACE, &[seq.into(), Field::Int(None)]).await?;
    }
    Ok(has_ended != 0)
}

/// Gives its key once more to a job that begins anew, if it has one that ends with the job. Answers which job holds it
/// instead.
pub(crate) async fn take_again<T: Transaction>(
    tx: &mut T,
    job: Standing<'_>,
) -> Result<Option<JobId>, T::Error> {
    let Some(Own { id, key, .. }) = of_job(tx, job).await? else { return Ok(None) };
    if is_timed(key.lifetime) {
        return Ok(None);
    }
    if let Some(holder) = holder(tx, job.queue, key.digest).await? {
        return Ok(Some(holder.id));
    }
    take(tx, (job.seq, id), job.queue, key).await?;
    Ok(None)
}

/// Frees the key that a job holds, if its lifetime ends when the job goes into this state; `None` for one that is
/// removed.
pub(crate) async fn give_up<T: Transaction>(
    tx: &mut T,
    job: Standing<'_>,
    to: Option<State>,
) -> Result<(), T::Error> {
    match of_job(tx, job).await? {
        Some(Own { key, .. }) if !key.lifetime.ends_with(to) => Ok(()),
        // It goes with the row.
        Some(Own { has_place: true, .. }) if to.is_none() => Ok(()),
        Some(Own { has_place: true, .. }) => tx.run(PLACE, &[job.seq.into(), Field::Int(None)]).await,
        // It has a row of its own, or was given up before.
        Some(Own { id, key, .. }) => {
            let fields = [job.queue.as_str().into(), Field::Id(&key.digest.0), Field::Id(id.as_bytes())];
            tx.run(GIVE_UP, &fields).await
        }
        None => Ok(()),
    }
}

/// The key that a job came with.
struct Own {
    id: JobId,
    key: UniqueKey,
    /// Whether its row says the place.
    has_place: bool,
}

/// The key that a job came with. Nothing if it does not read: it is free when the job has ended; see [`held`].
async fn of_job<T: Transaction>(tx: &mut T, job: Standing<'_>) -> Result<Option<Own>, T::Error> {
    if !job.has_key {
        return Ok(None);
    }
    let Some(found) = tx.find(OF_JOB, &[job.seq.into()]).await? else { return Ok(None) };
    let (Ok(id), Ok(digest), Ok(text), Ok(has_place)) =
        (found.uuid(0), found.uuid(1), found.text(2), found.int(3))
    else {
        return Ok(None);
    };
    let own = |lifetime: Lifetime| Own {
        id: JobId::from_bytes(id),
        key: UniqueKey { digest: Digest(digest), lifetime },
        has_place: has_place != 0,
    };
    Ok(text.parse().ok().map(own))
}

/// Frees the keys that jobs have taken which came after this one, before they are deleted.
pub(crate) fn take_back(session: &Session<'_>, before: i64) -> Result<(), Fault> {
    session.prepare(GIVE_UP_SINCE)?.execute([before])?;
    Ok(())
}

/// Whether the time of a key is over that is still there.
pub(crate) fn is_any_over(connection: &Connection, now: Timestamp) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(IS_ANY_OVER)?.query_row([now.as_micros()], |row| row.get(0))?)
}

/// Forgets keys whose time is over, at most so many. Answers how many.
pub(crate) fn forget_over(session: &Session<'_>, limit: u32) -> Result<u32, Fault> {
    let fields = [session.now.as_micros(), limit.into()];
    Ok(session.prepare(FORGET_OVER)?.execute(fields)? as u32)
}

/// Forgets keys of a queue that is being removed, at most so many. Answers how many.
pub(crate) fn forget_queue(session: &Session<'_>, queue: &Name, limit: u32) -> Result<u32, Fault> {
    Ok(session.prepare(FORGET_QUEUE)?.execute(rusqlite::params![queue.as_str(), limit])? as u32)
}

fn corrupt(error: SqlError) -> Fault {
    Fault::Corrupt(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SPAN: Duration = Duration::from_secs(1);
    const LIFETIMES: [Lifetime; 4] =
        [Lifetime::Start, Lifetime::End, Lifetime::Window(SPAN), Lifetime::Slot(SPAN)];

    /// Files hold it.
    #[test]
    fn a_place_is_six_bytes_and_does_not_change() {
        let queue = |text| Name::new(text).unwrap();
        assert_eq!(place(&queue("default"), Digest([0; 16])), 40_778_669_803_006);
        assert_ne!(place(&queue("other"), Digest([0; 16])), 40_778_669_803_006);
        for byte in 0..=u8::MAX {
            let digest = Digest([byte, byte, 3, 4, 5, byte, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
            assert!((-1 << 47..1 << 47).contains(&place(&queue("q"), digest)));
        }
    }

    /// So the statements that find due jobs, and those that are no longer kept, need not look for keys.
    #[test]
    fn no_key_ends_when_a_job_is_due_or_is_removed_after_its_end() {
        for lifetime in LIFETIMES {
            assert!(!lifetime.ends_with(Some(State::Ready)));
            for end in State::TERMINAL {
                assert_eq!(lifetime.ends_with(Some(end)), lifetime.ends_with(None));
            }
        }
    }
}
