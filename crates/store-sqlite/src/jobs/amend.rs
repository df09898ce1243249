//! Changes that a person asks for: cancel, retry and delete. Pruning removes in the same way.

use rusqlite::params;
use windlass_core::bell::Topic;
use windlass_core::outcome::Reason;
use windlass_core::store::Amended;
use windlass_core::{JobId, Name, State};

use crate::error::Fault;
use crate::row;
use crate::session::Session;

const BY_ID: &str = include_str!("../../queries/jobs/by_id.sql");
const CANCEL_WAITING: &str = include_str!("../../queries/jobs/cancel_waiting.sql");
const CANCEL_RUNNING: &str = include_str!("../../queries/jobs/cancel_running.sql");
const RESTART: &str = include_str!("../../queries/jobs/restart.sql");
const HASTEN: &str = include_str!("../../queries/jobs/hasten.sql");
pub(crate) const DELETE: &str = include_str!("../../queries/jobs/delete.sql");
pub(crate) const DELETE_PAYLOADS: &str = include_str!("../../queries/jobs/delete_payloads.sql");
pub(crate) const DELETE_ATTEMPTS: &str = include_str!("../../queries/jobs/delete_attempts.sql");

pub(super) fn cancel(session: &Session<'_>, ids: &[JobId]) -> Result<Vec<Amended>, Fault> {
    each(session, ids, |job| {
        if job.state.is_terminal() {
            return Ok(Amended::Refused(job.state));
        }
        if job.state == State::Running {
            session.prepare(CANCEL_RUNNING)?.execute([job.seq])?;
            session.ring_about(Topic::Cancel);
            return Ok(Amended::Done(State::Running));
        }
        let fields = params![job.seq, Reason::Requested.as_str(), session.now.as_micros()];
        session.prepare(CANCEL_WAITING)?.execute(fields)?;
        session.moved(&job.queue, job.state, State::Cancelled, 1);
        Ok(Amended::Done(State::Cancelled))
    })
}

pub(super) fn retry(session: &Session<'_>, ids: &[JobId]) -> Result<Vec<Amended>, Fault> {
    each(session, ids, |job| {
        let sql = match job.state {
            // Begins anew: its expiry no longer counts, for whoever asks for it now wants it now.
            State::Dead | State::Cancelled => RESTART,
            State::Scheduled => HASTEN,
            _ => return Ok(Amended::Refused(job.state)),
        };
        session.prepare(sql)?.execute([job.seq, session.now.as_micros()])?;
        session.moved(&job.queue, job.state, State::Ready, 1);
        Ok(Amended::Done(State::Ready))
    })
}

pub(super) fn delete(session: &Session<'_>, ids: &[JobId]) -> Result<Vec<Amended>, Fault> {
    each(session, ids, |job| {
        if job.state == State::Running {
            return Ok(Amended::Refused(job.state));
        }
        remove(session, &[job.seq])?;
        session.removed(&job.queue, job.state, 1);
        Ok(Amended::Done(job.state))
    })
}

/// Takes jobs away with all that belongs to them. Counters and rings are the caller's.
pub(crate) fn remove(session: &Session<'_>, seqs: &[i64]) -> Result<(), Fault> {
    let seqs = row::list(seqs);
    for sql in [DELETE, DELETE_PAYLOADS, DELETE_ATTEMPTS] {
        session.prepare(sql)?.execute([&seqs])?;
    }
    Ok(())
}

struct Found {
    seq: i64,
    queue: Name,
    state: State,
}

/// Amends one job after the other; an id that comes twice sees what its first turn did.
fn each(
    session: &Session<'_>,
    ids: &[JobId],
    mut amend: impl FnMut(Found) -> Result<Amended, Fault>,
) -> Result<Vec<Amended>, Fault> {
    let mut by_id = session.prepare(BY_ID)?;
    let mut answers = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = by_id.query([id.as_bytes()])?;
        let found = match rows.next()? {
            Some(row) => {
                Some(Found { seq: row.get(0)?, queue: row::name(row, 1)?, state: row::state(row, 2)? })
            }
            None => None,
        };
        drop(rows);
        answers.push(found.map_or(Ok(Amended::Missing), &mut amend)?);
    }
    Ok(answers)
}
