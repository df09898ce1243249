//! Jobs as people, reapers and workers see them. A row is read field by field: what does not read is noted and
//! left out, and harms neither the rest of the row nor any other.

use rusqlite::Row;
use windlass_core::job::{AttemptRecord, Facts, JobRecord, LastClaim, LostJob, Unreadable};
use windlass_core::{JobId, Name, State};

use super::{
    FORM, bytes, counters, fence, job_id, name, number, optional_bytes, optional_name, readable, spec, state,
    tags, time, unique, word,
};
use crate::error::Fault;

/// A job and what its newest claim left, as `jobs/get.sql` and `inspect/record.sql` select them.
pub(crate) struct JobRow {
    pub(crate) seq: i64,
    pub(crate) record: JobRecord,
    pub(crate) last_claim: Option<LastClaim>,
}

/// What is wrong with a row, as far as it was read.
#[derive(Default)]
struct Reading {
    wrong: Option<Unreadable>,
}

impl Reading {
    /// The field, or what stands for it.
    fn or<T>(&mut self, read: Result<T, Fault>, instead: impl FnOnce() -> T) -> Result<T, Fault> {
        match read {
            Err(fault) if fault.is_unreadable() => {
                self.wrong.get_or_insert_with(|| fault.of_row());
                Ok(instead())
            }
            other => other,
        }
    }

    fn or_default<T: Default>(&mut self, read: Result<T, Fault>) -> Result<T, Fault> {
        self.or(read, T::default)
    }

    /// Why the row does not read, if so. A newer program may read what this one cannot.
    fn end(self, form: i64) -> Option<Unreadable> {
        if form > FORM { Some(Unreadable::Newer { form }) } else { self.wrong }
    }
}

impl JobRow {
    pub(crate) fn read(row: &Row<'_>) -> Result<Self, Fault> {
        let mut reading = Reading::default();
        let state = reading.or(state(row, 4), || State::Blocked)?;
        let reason = get::<Option<String>>(row, 17)
            .and_then(|text| text.map(|text| word("a reason", &text)).transpose());
        let mut record = JobRecord {
            id: reading.or(job_id(row, 1), || JobId::from_bytes(some_bytes(row, 1)))?,
            queue: reading.or(name(row, 2), Name::unreadable)?,
            kind: reading.or(name(row, 3), Name::unreadable)?,
            state,
            priority: reading.or_default(get(row, 5))?,
            key: reading.or_default(optional_name(row, 28))?,
            unique: reading.or_default(unique(row, 26))?,
            due_at: time(row.get(6)?),
            enqueued_at: time(row.get(7)?),
            fence: number(row.get(8)?),
            counters: reading.or_default(counters(row, 9))?,
            cancel_requested: row.get(13)?,
            finished_at: row.get::<_, Option<i64>>(16)?.map(time),
            reason: reading.or_default(reason)?,
            expires_at: row.get::<_, Option<i64>>(18)?.map(time),
            spec: reading.or_default(spec(row, 19))?,
            tags: reading.or_default(tags(row, 20))?,
            progress: optional_bytes(row, 21)?,
            output: optional_bytes(row, 22)?,
            payload: reading.or_default(bytes(row, 23))?,
            has_begun: state == State::Running && has_begun(row, 24)?,
            unreadable: None,
            attempts: Vec::new(),
        };
        let worker = reading.or_default(get(row, 15))?;
        let claimed_at = row.get::<_, Option<i64>>(14)?.map(time);
        let last_claim = claimed_at.zip(worker).map(|(at, worker)| LastClaim { worker, at });
        record.unreadable = reading.end(row.get(25)?);
        Ok(Self { seq: row.get(0)?, record, last_claim })
    }
}

/// A job that its worker does not run, as `leases/lost.sql` and `leases/held.sql` select it. Nothing where not even
/// the id reads: such a row can only be looked at.
pub(crate) fn lost(row: &Row<'_>) -> Result<Option<LostJob>, Fault> {
    let Some(id) = readable(job_id(row, 0))? else { return Ok(None) };
    let mut reading = Reading::default();
    let facts = facts(&mut reading, row, 3, 7)?;
    let mut job = LostJob {
        id,
        fence: fence(row, 1)?,
        facts,
        queue: reading.or(name(row, 8), Name::unreadable)?,
        kind: reading.or(name(row, 9), Name::unreadable)?,
        worker: reading.or_default(get::<Option<String>>(row, 10))?.unwrap_or_default(),
        has_begun: has_begun(row, 11)?,
        unreadable: None,
    };
    job.unreadable = reading.end(row.get(12)?);
    Ok(Some(job))
}

/// What the judge must know, as far as it reads: from the counters and the options at the given columns.
fn facts(reading: &mut Reading, row: &Row<'_>, first: usize, spec: usize) -> Result<Facts, Fault> {
    Ok(Facts {
        counters: reading.or_default(counters(row, first))?,
        spec: reading.or_default(self::spec(row, spec))?,
    })
}

/// The facts of a job that is known not to read.
pub(crate) fn some_facts(row: &Row<'_>, first: usize, spec: usize) -> Result<Facts, Fault> {
    facts(&mut Reading::default(), row, first, spec)
}

/// An attempt as `jobs/attempts.sql` selects it.
pub(crate) fn attempt(row: &Row<'_>) -> Result<AttemptRecord, Fault> {
    let mut reading = Reading::default();
    let ending = get::<String>(row, 5).and_then(|text| word("an ending", &text)).map(Some);
    Ok(AttemptRecord {
        fence: number(row.get(0)?),
        number: reading.or_default(get(row, 1))?,
        worker: reading.or_default(get(row, 2))?,
        started_at: time(row.get(3)?),
        ended_at: Some(time(row.get(4)?)),
        ending: reading.or_default(ending)?,
        error: reading
            .or_default(get::<Option<String>>(row, 6))?
            .or(reading.wrong.map(|why| why.to_string())),
    })
}

fn get<T: rusqlite::types::FromSql>(row: &Row<'_>, column: usize) -> Result<T, Fault> {
    Ok(row.get(column)?)
}

/// Whether the column says that the handler of the newest claim has begun.
fn has_begun(row: &Row<'_>, mark: usize) -> Result<bool, Fault> {
    Ok(row.get::<_, i64>(mark)? == 1)
}

/// What there is of an id that has too few or too many bytes.
fn some_bytes(row: &Row<'_>, column: usize) -> [u8; 16] {
    let mut id = [0; 16];
    if let Ok(stored) = row.get_ref(column)
        && let Ok(stored) = stored.as_bytes()
    {
        id.iter_mut().zip(stored).for_each(|(to, from)| *to = *from);
    }
    id
}
