//! How a job gets in: the only code that does it, for calls of the store and for transactions of the user's own.
//!
//! A fresh id is the rule, so jobs are inserted without asking first, many per statement. An error means that the caller
//! takes back what was inserted: a call of the store by [`take_back`], a user's transaction by its savepoint.
//!
//! A job with a unique key is inserted only if no job holds the key. What the holder takes over is written last, when no
//! job was refused.

use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::queue::RULE_OF_KEYS;
use windlass_core::sql::SqlError;
use windlass_core::store::{Enqueued, Taken};
use windlass_core::{Name, State, StoreError};

use crate::error::Fault;
use crate::keys::{self, Holder, HolderRow, TakeMany};
use crate::moves;
use crate::row;
use crate::rules;
use crate::session::Session;
use crate::transaction::{Field, Transaction, newest};

/// A statement that inserts jobs, and the same with an answer for each row.
macro_rules! insert {
    ($file:literal) => {
        Insert {
            sql: include_str!(concat!("../queries/accept/", $file)),
            returning: concat!(include_str!(concat!("../queries/accept/", $file)), "RETURNING seq, id"),
        }
    };
}

const INSERT: Insert = insert!("insert.sql");
const INSERT_16: Insert = insert!("insert_16.sql");
const INSERT_UNIQUE: Insert = insert!("insert_unique.sql");
const INSERT_UNIQUE_16: Insert = insert!("insert_unique_16.sql");
const INSERT_KEYED: Insert = insert!("insert_keyed.sql");
pub(crate) const NEWEST: &str = include_str!("../queries/accept/newest.sql");
pub(crate) const BY_ID: &str = include_str!("../queries/jobs/by_id.sql");
const INSERT_PAYLOAD: &str = include_str!("../queries/accept/insert_payload.sql");
const DELETE_PAYLOAD: &str = include_str!("../queries/accept/delete_payload.sql");
const REPLACE: &str = include_str!("../queries/accept/replace.sql");
const EXISTING: &str = include_str!("../queries/accept/existing.sql");
const DELETE_SINCE: &str = include_str!("../queries/accept/delete_since.sql");
const DELETE_PAYLOADS_SINCE: &str = include_str!("../queries/accept/delete_payloads_since.sql");

/// Payloads above this length, in bytes, do not stand in the job's own row; see docs/decisions.
const INLINE_MAX: usize = 512;
/// Rows of the statement that inserts many. Opening it costs more than a row.
pub(crate) const MANY: usize = 16;
/// Parameters of one row, without those of its keys.
pub(crate) const FIELDS: usize = 11;

/// A statement that inserts jobs.
#[derive(Clone, Copy)]
pub(crate) struct Insert {
    pub(crate) sql: &'static str,
    /// The same, with place and id of each row that was inserted.
    pub(crate) returning: &'static str,
}

impl Insert {
    /// The one for a job, or for [`MANY`] of which none has a key, or each has a unique one.
    pub(crate) fn of(jobs: &[NewJob]) -> Self {
        let (is_unique, has_key) =
            jobs.first().map_or((false, false), |job| (job.unique.is_some(), job.key.is_some()));
        debug_assert!(matches!(jobs.len(), 1 | MANY), "there is a statement for so many");
        match (jobs.len() == 1, has_key, is_unique) {
            (true, true, _) => INSERT_KEYED,
            (true, false, true) => INSERT_UNIQUE,
            (true, false, false) => INSERT,
            (false, _, true) => INSERT_UNIQUE_16,
            (false, _, false) => INSERT_16,
        }
    }
}

/// Whether a full queue refuses new jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capacity {
    Binds,
    /// For what an attempt carries: what has been done must be able to end.
    Open,
}

/// Accepts jobs one after the other. One that is refused refuses them all.
pub(crate) async fn accept<T: Transaction>(
    tx: &mut T,
    jobs: &[NewJob],
    capacity: Capacity,
) -> Result<Vec<Enqueued>, T::Error> {
    check_keys(tx, jobs).await?;
    let mut accepted: Vec<(Option<i64>, Enqueued)> = Vec::with_capacity(jobs.len());
    let mut replacing: Vec<(&NewJob, HolderRow)> = Vec::new();
    let (mut rest, mut alone) = (jobs, 0);
    while let Some(first) = rest.first() {
        let many = if alone == 0 { insert_many(tx, rest, &mut alone).await? } else { None };
        let is_many = many.is_some();
        let (some, others) = rest.split_at(if is_many { MANY } else { 1 });
        (rest, alone) = (others, alone.saturating_sub(1));
        if !is_many && let Some(refusal) = refusal(tx, some).await? {
            // A repeat is answered even if the cap has shrunk since.
            accepted.push((None, existing(tx, first).await?.ok_or(Fault::Refused(refusal))?));
            continue;
        }
        if !is_many
            && let Some(key) = first.unique
            && let Some(holder) = keys::holder(tx, &first.queue, key.digest).await?
        {
            let answer = match existing(tx, first).await? {
                Some(answer) => answer,
                None => met(first, &holder, &mut replacing),
            };
            accepted.push((None, answer));
            continue;
        }
        let seqs = match many {
            Some(seqs) => seqs,
            None => tx.insert(some).await?,
        };
        for (job, seq) in some.iter().zip(seqs) {
            let missing = || Fault::Corrupt(format!("job {} is in an index only", job.id));
            let answer = match seq {
                Some(_) => Enqueued::New,
                None => existing(tx, job).await?.ok_or_else(missing)?,
            };
            if let (Some(seq), true) = (seq, job.payload.len() > INLINE_MAX) {
                tx.run(INSERT_PAYLOAD, &[seq.into(), Some(&job.payload).into()]).await?;
            }
            if let (Some(seq), Some(key), false) = (seq, job.unique, is_many) {
                keys::take(tx, (seq, job.id), &job.queue, key).await?;
            }
            accepted.push((seq, answer));
        }
    }
    let new = jobs.iter().zip(&accepted).filter_map(|(job, (seq, _))| seq.map(|seq| (seq, job)));
    let new: Vec<_> = new.collect();
    if capacity == Capacity::Binds {
        check_room(tx, &new).await?;
    }
    for (job, holder) in replacing {
        replace(tx, job, holder).await?;
    }
    moves::enter(tx, &new).await?;
    Ok(accepted.into_iter().map(|(_, answer)| answer).collect())
}

/// Inserts the first [`MANY`] at once, with their keys, if they can go so: all of them fit, and none has a key, or each has a
/// unique key that is free. The first job that something is wrong with names the refusal, so it is looked for one by one;
/// `alone` is how many go so before it is worth while to look again.
async fn insert_many<T: Transaction>(
    tx: &mut T,
    jobs: &[NewJob],
    alone: &mut usize,
) -> Result<Option<Vec<Option<i64>>>, T::Error> {
    let Some(many) = jobs.get(..MANY) else { return Ok(None) };
    let is_unique = many[0].unique.is_some();
    if many.iter().any(|job| job.key.is_some() || job.unique.is_some() != is_unique)
        || refusal(tx, many).await?.is_some()
    {
        return Ok(None);
    }
    let take = if is_unique { keys::take_many(tx, many).await? } else { TakeMany::Taken };
    if take == TakeMany::OneByOne {
        *alone = MANY;
        return Ok(None);
    }
    let seqs = tx.insert(many).await?;
    for (job, _) in many.iter().zip(&seqs).filter(|(_, seq)| seq.is_none()) {
        if take == TakeMany::WithRows {
            // Its key may be held, or its id known. Those that were inserted are the newest.
            if let Some(first) = seqs.iter().flatten().min() {
                tx.run(DELETE_SINCE, &[(first - 1).into()]).await?;
            }
            *alone = MANY;
            return Ok(None);
        }
        keys::leave(tx, job).await?;
    }
    Ok(Some(seqs))
}

/// Fails for the first job with a key whose queue does not use the rule of keys.
async fn check_keys<T: Transaction>(tx: &mut T, jobs: &[NewJob]) -> Result<(), T::Error> {
    for NewJob { queue, .. } in jobs.iter().filter(|job| job.key.is_some()) {
        if tx.definition(queue).await?.rules < RULE_OF_KEYS {
            return Err(Fault::Refused(StoreError::NoKeys { queue: queue.clone() }).into());
        }
    }
    Ok(())
}

/// Fails if a queue has no room for the jobs that were inserted into it, which are not counted yet.
async fn check_room<T: Transaction>(tx: &mut T, new: &[(i64, &NewJob)]) -> Result<(), T::Error> {
    let mut checked: Vec<&Name> = Vec::new();
    for (_, NewJob { queue, .. }) in new {
        if checked.contains(&queue) {
            continue;
        }
        checked.push(queue);
        let definition = tx.definition(queue).await?;
        if definition.config.capacity.is_none() {
            continue;
        }
        let more = new.iter().filter(|(_, other)| other.queue == *queue).count() as u64;
        let waiting = rules::waiting(tx, queue).await?;
        definition.config.check_room(queue, waiting, more).map_err(Fault::Refused)?;
    }
    Ok(())
}

/// The answer for a job whose key another one holds.
fn met<'j>(job: &'j NewJob, holder: &Holder, replacing: &mut Vec<(&'j NewJob, HolderRow)>) -> Enqueued {
    match holder.row {
        Some(row) if job.on_conflict.replaces(holder.state) => {
            replacing.push((job, row));
            Enqueued::Replaced(holder.id)
        }
        _ => Enqueued::Duplicate { id: holder.id, state: holder.state },
    }
}

/// Lets the holder of a key say what a job says that met it. Its place stays, but for the due instant of one that waits
/// for its time.
async fn replace<T: Transaction>(tx: &mut T, job: &NewJob, holder: HolderRow) -> Result<(), T::Error> {
    let HolderRow { seq, is_scheduled, enqueued_at, due_at } = holder;
    let (_, new_due) = job.entry(tx.now());
    let new_due = job.on_conflict.due_at(enqueued_at, new_due).filter(|_| is_scheduled);
    let [spec, tags, payload] = said(job)?;
    let fields = [seq.into(), spec, tags, payload, new_due.map(Timestamp::as_micros).into()];
    tx.run(REPLACE, &fields).await?;
    tx.run(DELETE_PAYLOAD, &[seq.into()]).await?;
    if job.payload.len() > INLINE_MAX {
        tx.run(INSERT_PAYLOAD, &[seq.into(), Some(&job.payload).into()]).await?;
    }
    if new_due.is_some_and(|new_due| new_due < due_at) {
        // Idle workers would sleep until the later instant.
        tx.note(|moves| moves.rings.add_entered(State::Scheduled, &job.queue));
    }
    Ok(())
}

/// What [`take_back`] needs to know of the time before a call: its newest job. A lone job that is refused has inserted
/// nothing, unless its queue turned out to be full.
pub(crate) fn before(session: &Session<'_>, jobs: &[NewJob]) -> Result<Option<i64>, Fault> {
    let may_be_taken_back = match jobs {
        [] => false,
        [job] => session.definition(&job.queue)?.config.capacity.is_some(),
        _ => true,
    };
    may_be_taken_back.then(|| newest(session)).transpose()
}

/// Deletes what a call has inserted, so that the other calls of the transaction go on. None has inserted since.
pub(crate) fn take_back(session: &Session<'_>, before: Option<i64>, jobs: &[NewJob]) -> Result<(), Fault> {
    if let Some(before) = before {
        if jobs.iter().any(|job| job.unique.is_some()) {
            keys::take_back(session, before)?;
        }
        session.prepare(DELETE_SINCE)?.execute([before])?;
        session.prepare(DELETE_PAYLOADS_SINCE)?.execute([before])?;
    }
    Ok(())
}

/// Why the first job is refused whose payload is above the cap of its queue, or whose queue uses a rule that is not known.
async fn refusal<T: Transaction>(tx: &mut T, jobs: &[NewJob]) -> Result<Option<StoreError>, T::Error> {
    for job in jobs {
        let definition = tx.definition(&job.queue).await?;
        let checked = definition.check_rules(&job.queue);
        if let Err(refusal) = checked.and_then(|()| job.check_payload(definition.config.caps.payload)) {
            return Ok(Some(refusal));
        }
    }
    Ok(None)
}

/// The parameters of one row, as `accept/insert.sql` takes them.
pub(crate) fn fields(job: &NewJob, now: Timestamp) -> Result<[Field<'_>; FIELDS], Fault> {
    let (state, due_at) = job.entry(now);
    let [spec, tags, payload] = said(job)?;
    Ok([
        Field::Id(job.id.as_bytes()),
        job.queue.as_str().into(),
        job.kind.as_str().into(),
        i64::from(state.code()).into(),
        i64::from(job.priority).into(),
        due_at.as_micros().into(),
        now.as_micros().into(),
        job.expires.map(|expiry| now.plus(expiry).as_micros()).into(),
        spec,
        tags,
        payload,
    ])
}

/// What stands in a job's row of all that a job with its key may replace.
fn said(job: &NewJob) -> Result<[Field<'_>; 3], Fault> {
    let payload = (job.payload.len() <= INLINE_MAX).then_some(&job.payload);
    Ok([job.spec.text().into(), row::stored_tags(&job.tags)?.into(), payload.into()])
}

/// The answer for a job whose id may be there; nothing if it is not.
async fn existing<T: Transaction>(tx: &mut T, job: &NewJob) -> Result<Option<Enqueued>, T::Error> {
    let Some(found) = tx.find(EXISTING, &[Field::Id(job.id.as_bytes())]).await? else { return Ok(None) };
    let shape = |error: SqlError| Fault::Corrupt(error.to_string());
    let code = found.int(0).map_err(shape)?;
    let unknown = || Fault::Corrupt(format!("a job has state {code}"));
    let state = State::from_code(code).ok_or_else(unknown)?;
    let (queue, kind) = (found.text(1).map_err(shape)?, found.text(2).map_err(shape)?);
    let taken = Taken { state, queue, kind, payload: found.bytes(3).map_err(shape)? };
    Ok(Some(taken.answer(job).map_err(Fault::Refused)?))
}
