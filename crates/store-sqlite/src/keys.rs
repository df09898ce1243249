//! Unique keys and who holds them. Keys are taken by `accept` and by a retry by hand, and given up by `moves`. How long
//! one is held is the rule of [`Lifetime`]; the table only says who has it, and until when if that is an instant.
//!
//! A job says in its row which key it came with. The row of a key names its holder by id, for it may outlive the job.

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

/// The parameters of a job's keys: none, as `accept/insert_unique.sql` takes them, or as `accept/insert_keyed.sql` does.
pub(crate) fn fields(job: &NewJob) -> Vec<Field<'_>> {
    let mut fields = Vec::new();
    match &job.unique {
        Some(UniqueKey { digest, lifetime }) => {
            fields.extend([Field::Id(&digest.0), Some(lifetime.to_string()).into()]);
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
    let found = tx.find(HOLDER, &[queue.as_str().into(), Field::Id(&digest.0)]).await?;
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

/// Gives their keys to as many jobs as are inserted at once, if they are for one queue, each has another key, and none of the
/// keys has a row. Otherwise none takes its key.
pub(crate) async fn take_many<T: Transaction>(tx: &mut T, jobs: &[NewJob]) -> Result<bool, T::Error> {
    if jobs.iter().any(|job| job.queue != jobs[0].queue) {
        return Ok(false);
    }
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
    let Some(key) = job.unique else { return Ok(()) };
    let fields = [job.queue.as_str().into(), Field::Id(&key.digest.0), Field::Id(job.id.as_bytes())];
    tx.run(GIVE_UP, &fields).await
}

/// Gives a key that is free to a job.
pub(crate) async fn take<T: Transaction>(
    tx: &mut T,
    queue: &Name,
    key: UniqueKey,
    id: JobId,
) -> Result<(), T::Error> {
    let free_at = key.lifetime.free_at(tx.now()).map(Timestamp::as_micros);
    let fields = [queue.as_str().into(), Field::Id(&key.digest.0), Field::Id(id.as_bytes()), free_at.into()];
    tx.run(TAKE, &fields).await
}

/// Gives its key once more to a job that begins anew, if it has one that ends with the job. Answers which job holds it
/// instead.
pub(crate) async fn take_again<T: Transaction>(
    tx: &mut T,
    job: Standing<'_>,
) -> Result<Option<JobId>, T::Error> {
    let Some((id, key)) = of_job(tx, job).await? else { return Ok(None) };
    if key.lifetime.free_at(tx.now()).is_some() {
        return Ok(None);
    }
    if let Some(holder) = holder(tx, job.queue, key.digest).await? {
        return Ok(Some(holder.id));
    }
    take(tx, job.queue, key, id).await?;
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
        Some((id, key)) if key.lifetime.ends_with(to) => {
            let fields = [job.queue.as_str().into(), Field::Id(&key.digest.0), Field::Id(id.as_bytes())];
            tx.run(GIVE_UP, &fields).await
        }
        _ => Ok(()),
    }
}

/// The key that a job came with. Nothing if it does not read: it is free when the job has ended; see [`held`].
async fn of_job<T: Transaction>(
    tx: &mut T,
    job: Standing<'_>,
) -> Result<Option<(JobId, UniqueKey)>, T::Error> {
    if !job.has_key {
        return Ok(None);
    }
    let Some(found) = tx.find(OF_JOB, &[job.seq.into()]).await? else { return Ok(None) };
    let (Ok(id), Ok(digest), Ok(text)) = (found.uuid(0), found.uuid(1), found.text(2)) else {
        return Ok(None);
    };
    let key = |lifetime: Lifetime| UniqueKey { digest: Digest(digest), lifetime };
    Ok(text.parse().ok().map(|lifetime| (JobId::from_bytes(id), key(lifetime))))
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
