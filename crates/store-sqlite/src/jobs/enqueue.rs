//! Enqueue: all of a call's jobs or none.
//!
//! A fresh id is the rule, so each job is inserted without asking first. When one is refused, the rows that
//! the call has inserted are deleted again; nobody saw them, and the neighbours in the transaction go on.

use rusqlite::params;
use windlass_core::job::NewJob;
use windlass_core::options::STALLS_MAX_DEFAULT;
use windlass_core::size::TooLarge;
use windlass_core::store::Enqueued;
use windlass_core::{State, StoreError};

use super::amend::Removal;
use crate::error::Fault;
use crate::row;
use crate::session::Session;

const INSERT: &str = include_str!("../../queries/jobs/insert.sql");
const INSERT_PAYLOAD: &str = include_str!("../../queries/jobs/insert_payload.sql");
const EXISTING: &str = include_str!("../../queries/jobs/existing.sql");

/// Payloads above this length, in bytes, do not stand in the job's own row; see docs/decisions.
const INLINE_MAX: usize = 1_024;

pub(super) fn enqueue(session: &Session<'_>, jobs: &[NewJob]) -> Result<Vec<Enqueued>, Fault> {
    let mut inserted = Vec::with_capacity(jobs.len());
    let mut answers = Vec::with_capacity(jobs.len());
    let accepted = accept_all(session, jobs, &mut inserted, &mut answers);
    if let Err(fault) = accepted {
        if matches!(fault, Fault::Refused(_)) {
            let mut removal = Removal::new(session)?;
            inserted.iter().try_for_each(|&seq| removal.remove(seq))?;
        }
        return Err(fault);
    }
    for (job, answer) in jobs.iter().zip(&answers) {
        if *answer == Enqueued::New {
            session.entered(&job.queue, job.entry(session.now).0, 1);
        }
    }
    Ok(answers)
}

fn accept_all(
    session: &Session<'_>,
    jobs: &[NewJob],
    inserted: &mut Vec<i64>,
    answers: &mut Vec<Enqueued>,
) -> Result<(), Fault> {
    let mut insert = session.prepare(INSERT)?;
    for job in jobs {
        let cap = session.config(&job.queue)?.caps.payload;
        if let Err(error) = TooLarge::check("payload", job.payload.len(), cap) {
            // A repeat is answered even if the cap has shrunk since.
            let Some(state) = existing(session, job)? else {
                return Err(StoreError::TooLarge { id: job.id, error }.into());
            };
            answers.push(Enqueued::Existing(state));
            continue;
        }
        let (state, due_at) = job.entry(session.now);
        let is_long = job.payload.len() > INLINE_MAX;
        let rows = insert.execute(params![
            job.id.as_bytes(),
            job.queue.as_str(),
            job.kind.as_str(),
            state.code(),
            job.priority,
            due_at.as_micros(),
            session.now.as_micros(),
            job.expires.map(|expiry| session.now.plus(expiry).as_micros()),
            row::stored_policy(&job.retry)?,
            job.timeout.map(row::micros),
            (job.stalls_max != STALLS_MAX_DEFAULT).then_some(job.stalls_max),
            row::stored_tags(&job.tags)?,
            (!is_long).then_some(&job.payload[..]),
        ])?;
        if rows == 0 {
            let state = existing(session, job)?
                .ok_or_else(|| Fault::Corrupt(format!("job {} is in an index only", job.id)))?;
            answers.push(Enqueued::Existing(state));
            continue;
        }
        let seq = session.connection.last_insert_rowid();
        if is_long {
            session.prepare(INSERT_PAYLOAD)?.execute(params![seq, &job.payload[..]])?;
        }
        inserted.push(seq);
        answers.push(Enqueued::New);
    }
    Ok(())
}

/// The state of the job under the same id, if it is the same job; refused if it is another.
fn existing(session: &Session<'_>, job: &NewJob) -> Result<Option<State>, Fault> {
    let mut statement = session.prepare(EXISTING)?;
    let mut rows = statement.query([job.id.as_bytes()])?;
    let Some(found) = rows.next()? else { return Ok(None) };
    let text = |column: usize| found.get_ref(column)?.as_str().map_err(rusqlite::Error::from);
    let payload = found.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
    if text(1)? != job.queue.as_str() || text(2)? != job.kind.as_str() || payload != &job.payload[..] {
        return Err(StoreError::IdTaken { id: job.id }.into());
    }
    row::state(found, 0).map(Some)
}
