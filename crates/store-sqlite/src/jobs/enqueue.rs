//! Enqueue: all of a call's jobs or none.
//!
//! A fresh id is the rule, so jobs are inserted without asking first, many per statement. When one is refused,
//! the rows that the call has inserted are deleted again; nobody saw them, and the neighbours in the
//! transaction go on.

use std::collections::HashSet;

use rusqlite::{CachedStatement, OptionalExtension, ToSql, params};
use windlass_core::CallId;
use windlass_core::job::NewJob;
use windlass_core::store::{Enqueued, Taken};

use super::calls;
use crate::error::Fault;
use crate::row;
use crate::session::Session;

const NEWEST: &str = include_str!("../../queries/jobs/newest.sql");
const INSERT: &str = include_str!("../../queries/jobs/insert.sql");
const INSERT_16: &str = include_str!("../../queries/jobs/insert_16.sql");
pub(crate) const INSERT_PAYLOAD: &str = include_str!("../../queries/jobs/insert_payload.sql");
const BY_ID: &str = include_str!("../../queries/jobs/by_id.sql");
pub(crate) const EXISTING: &str = include_str!("../../queries/jobs/existing.sql");
const DELETE_SINCE: &str = include_str!("../../queries/jobs/delete_since.sql");
const DELETE_PAYLOADS_SINCE: &str = include_str!("../../queries/jobs/delete_payloads_since.sql");

/// Payloads above this length, in bytes, do not stand in the job's own row; see docs/decisions.
pub(crate) const INLINE_MAX: usize = 512;
/// Rows of the statement that inserts many. Opening it costs more than a row.
pub(crate) const MANY: usize = 16;
/// Parameters of one row.
const FIELDS: usize = 11;

/// All of a call's jobs, unless the call was accepted before.
pub(super) fn enqueue_once(
    session: &Session<'_>,
    call: CallId,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    if !calls::remember(session, call)? {
        return Ok(vec![Enqueued::Repeated; jobs.len()]);
    }
    let entered = enqueue(session, jobs);
    if matches!(entered, Err(Fault::Refused(_))) {
        calls::take_back(session, call);
    }
    entered
}

fn enqueue(session: &Session<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Fault> {
    let mut entry = Entry { session, answers: Vec::with_capacity(jobs.len()) };
    match jobs {
        // A lone job that is refused has inserted nothing.
        [job] => entry.accept(job)?,
        jobs => {
            let before = newest(session)?;
            if let Err(fault) = entry.accept_all(jobs) {
                if matches!(fault, Fault::Refused(_)) {
                    // Nothing but this call has inserted since.
                    session.prepare(DELETE_SINCE)?.execute([before])?;
                    session.prepare(DELETE_PAYLOADS_SINCE)?.execute([before])?;
                }
                return Err(fault);
            }
        }
    }
    for (job, answer) in jobs.iter().zip(&entry.answers) {
        if *answer == Enqueued::New {
            session.entered(&job.queue, job.entry(session.now).0, 1);
        }
    }
    Ok(entry.answers)
}

/// The newest job's place in the order of acceptance.
fn newest(session: &Session<'_>) -> Result<i64, Fault> {
    Ok(session.prepare(NEWEST)?.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

/// A call on its way in.
struct Entry<'a, 'c> {
    session: &'a Session<'c>,
    answers: Vec<Enqueued>,
}

impl Entry<'_, '_> {
    fn accept_all(&mut self, jobs: &[NewJob]) -> Result<(), Fault> {
        let mut many = jobs.chunks_exact(MANY);
        for chunk in &mut many {
            if self.has_too_large(chunk)? {
                // One by one, so that the first job that something is wrong with names the refusal.
                chunk.iter().try_for_each(|job| self.accept(job))?;
            } else {
                self.accept_many(chunk)?;
            }
        }
        many.remainder().iter().try_for_each(|job| self.accept(job))
    }

    fn has_too_large(&self, jobs: &[NewJob]) -> Result<bool, Fault> {
        for job in jobs {
            if job.check_payload(self.session.config(&job.queue)?.caps.payload).is_err() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn accept_many(&mut self, jobs: &[NewJob]) -> Result<(), Fault> {
        let before = newest(self.session)?;
        let mut insert = self.session.prepare(INSERT_16)?;
        for (index, job) in jobs.iter().enumerate() {
            self.bind(&mut insert, index * FIELDS, job)?;
        }
        if insert.raw_execute()? == jobs.len() {
            let first = self.session.connection.last_insert_rowid() - (jobs.len() as i64 - 1);
            for (seq, job) in (first..).zip(jobs) {
                self.put_long_payload(seq, job)?;
                self.answers.push(Enqueued::New);
            }
            return Ok(());
        }
        // Some were there, or stand twice in the call: the first of those was inserted.
        let mut new = HashSet::new();
        for job in jobs {
            let seq: i64 = self.session.prepare(BY_ID)?.query_row([job.id.as_bytes()], |row| row.get(0))?;
            if seq > before && new.insert(job.id) {
                self.put_long_payload(seq, job)?;
                self.answers.push(Enqueued::New);
            } else {
                self.repeat(job)?;
            }
        }
        Ok(())
    }

    fn accept(&mut self, job: &NewJob) -> Result<(), Fault> {
        let cap = self.session.config(&job.queue)?.caps.payload;
        if let Err(too_large) = job.check_payload(cap) {
            // A repeat is answered even if the cap has shrunk since.
            self.answers.push(existing(self.session, job)?.ok_or(too_large)?);
            return Ok(());
        }
        let mut insert = self.session.prepare(INSERT)?;
        self.bind(&mut insert, 0, job)?;
        if insert.raw_execute()? == 0 {
            return self.repeat(job);
        }
        self.put_long_payload(self.session.connection.last_insert_rowid(), job)?;
        self.answers.push(Enqueued::New);
        Ok(())
    }

    /// Answers a job whose id is there.
    fn repeat(&mut self, job: &NewJob) -> Result<(), Fault> {
        let missing = || Fault::Corrupt(format!("job {} is in an index only", job.id));
        self.answers.push(existing(self.session, job)?.ok_or_else(missing)?);
        Ok(())
    }

    fn put_long_payload(&self, seq: i64, job: &NewJob) -> Result<(), Fault> {
        if job.payload.len() > INLINE_MAX {
            self.session.prepare(INSERT_PAYLOAD)?.execute(params![seq, &job.payload[..]])?;
        }
        Ok(())
    }

    /// Binds the fields of one row after so many others.
    fn bind(&self, insert: &mut CachedStatement<'_>, others: usize, job: &NewJob) -> Result<(), Fault> {
        let now = self.session.now;
        let (state, due_at) = job.entry(now);
        let mut next = others;
        let mut field = |value: &dyn ToSql| {
            next += 1;
            insert.raw_bind_parameter(next, value)
        };
        field(job.id.as_bytes())?;
        field(&job.queue.as_str())?;
        field(&job.kind.as_str())?;
        field(&state.code())?;
        field(&job.priority)?;
        field(&due_at.as_micros())?;
        field(&now.as_micros())?;
        field(&job.expires.map(|expiry| now.plus(expiry).as_micros()))?;
        field(&job.spec.text())?;
        field(&row::stored_tags(&job.tags)?)?;
        field(&(job.payload.len() <= INLINE_MAX).then_some(&job.payload[..]))?;
        debug_assert_eq!(next, others + FIELDS, "the fields of a row are all bound");
        Ok(())
    }
}

/// The answer for a job whose id may be there; nothing if it is not.
fn existing(session: &Session<'_>, job: &NewJob) -> Result<Option<Enqueued>, Fault> {
    let mut statement = session.prepare(EXISTING)?;
    let mut rows = statement.query([job.id.as_bytes()])?;
    let Some(found) = rows.next()? else { return Ok(None) };
    let text = |column: usize| found.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let payload = found.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
    let taken = Taken { state: row::state(found, 0)?, queue: text(1)?, kind: text(2)?, payload };
    Ok(Some(taken.answer(job)?))
}
