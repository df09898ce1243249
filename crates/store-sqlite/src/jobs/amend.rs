//! Changes that a person asks for: cancel, retry and delete. Pruning removes in the same way.

use rusqlite::{CachedStatement, params};
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
const DELETE: &str = include_str!("../../queries/jobs/delete.sql");
const DELETE_PAYLOAD: &str = include_str!("../../queries/jobs/delete_payload.sql");
const DELETE_ATTEMPTS: &str = include_str!("../../queries/jobs/delete_attempts.sql");

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
    let mut removal = Removal::new(session)?;
    each(session, ids, |job| {
        if job.state == State::Running {
            return Ok(Amended::Refused(job.state));
        }
        removal.remove(job.seq)?;
        session.left(&job.queue, job.state, 1);
        // Whoever waits for its end should hear that it is gone.
        session.ring_about(Topic::Finish);
        Ok(Amended::Done(job.state))
    })
}

/// Removes finished jobs of one queue.
pub(crate) fn remove(session: &Session<'_>, queue: &Name, state: State, seqs: &[i64]) -> Result<(), Fault> {
    let mut removal = Removal::new(session)?;
    seqs.iter().try_for_each(|&seq| removal.remove(seq))?;
    session.left(queue, state, seqs.len());
    Ok(())
}

/// Takes jobs away with all that belongs to them. Counters are the caller's to move.
struct Removal<'c> {
    job: CachedStatement<'c>,
    payload: CachedStatement<'c>,
    attempts: CachedStatement<'c>,
}

impl<'c> Removal<'c> {
    fn new(session: &Session<'c>) -> Result<Self, Fault> {
        Ok(Self {
            job: session.prepare(DELETE)?,
            payload: session.prepare(DELETE_PAYLOAD)?,
            attempts: session.prepare(DELETE_ATTEMPTS)?,
        })
    }

    fn remove(&mut self, seq: i64) -> Result<(), Fault> {
        self.job.execute([seq])?;
        self.payload.execute([seq])?;
        self.attempts.execute([seq])?;
        Ok(())
    }
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
