//! Changes that a person asks for: cancel, retry and delete.

use windlass_core::bell::Rings;
use windlass_core::outcome::Reason;
use windlass_core::store::{Amended, Amendment, Cause, Seen};
use windlass_core::{JobId, Name, State, stored};

use crate::error::Fault;
use crate::keys;
use crate::moves::{self, Standing};
use crate::row;
use crate::session::Session;
use crate::tallies::KindPlace;
use crate::transaction::at_once;

const BY_ID: &str = include_str!("../../queries/jobs/by_id.sql");
const CANCEL_RUNNING: &str = include_str!("../../queries/jobs/cancel_running.sql");

/// Cancels, or withdraws: then a job that runs is refused.
pub(super) fn cancel(
    session: &Session<'_>,
    ids: &[JobId],
    amendment: Amendment,
) -> Result<Vec<Amended>, Fault> {
    each(session, &all(ids), |job| {
        let is_running = job.state == State::Running;
        if job.state.is_terminal() || (is_running && amendment == Amendment::Withdraw) {
            return Ok(Amended::Refused(job.state));
        }
        if is_running {
            session.prepare(CANCEL_RUNNING)?.execute([job.seq])?;
            session.ring(Rings::cancel(job.id));
            return Ok(Amended::Done(State::Running));
        }
        let why = (Reason::Requested, Cause::Requested);
        at_once(moves::end(&mut session.tx(), job.standing(), State::Cancelled, why))?;
        Ok(Amended::Done(State::Cancelled))
    })
}

pub(super) fn retry(session: &Session<'_>, jobs: &[Asked]) -> Result<Vec<Amended>, Fault> {
    each(session, jobs, |job| {
        if matches!(job.state, State::Ready | State::Running | State::Completed) {
            return Ok(Amended::Refused(job.state));
        }
        if job.state.is_terminal()
            && let Some(holder) = at_once(keys::take_again(&mut session.tx(), job.standing()))?
        {
            return Ok(Amended::Held(holder));
        }
        at_once(moves::restart(&mut session.tx(), job.standing()))?;
        Ok(Amended::Done(State::Ready))
    })
}

pub(super) fn delete(session: &Session<'_>, jobs: &[Asked]) -> Result<Vec<Amended>, Fault> {
    each(session, jobs, |job| {
        if job.state == State::Running {
            return Ok(Amended::Refused(job.state));
        }
        at_once(moves::remove(&mut session.tx(), &[job.standing()], Cause::Requested))?;
        Ok(Amended::Done(job.state))
    })
}

/// A job, and how it must still be, if that matters.
pub(super) type Asked = (JobId, Option<Seen>);

/// Jobs, however they are.
pub(super) fn all(ids: &[JobId]) -> Vec<Asked> {
    ids.iter().map(|&id| (id, None)).collect()
}

/// Jobs that are still as they were seen.
pub(super) fn seen(jobs: &[Seen]) -> Vec<Asked> {
    jobs.iter().map(|&seen| (seen.id, Some(seen))).collect()
}

struct Found {
    id: JobId,
    seq: i64,
    queue: Name,
    state: State,
    has_key: bool,
    has_gate: bool,
    kind: KindPlace,
}

impl Found {
    fn standing(&self) -> Standing<'_> {
        let Self { seq, ref queue, state, has_key, has_gate, kind, .. } = *self;
        Standing { seq, queue, state, has_key, has_gate, kind, since: None }
    }
}

/// Amends one job after the other; an id that comes twice sees what its first turn did.
fn each(
    session: &Session<'_>,
    jobs: &[Asked],
    mut amend: impl FnMut(Found) -> Result<Amended, Fault>,
) -> Result<Vec<Amended>, Fault> {
    let mut by_id = session.prepare(BY_ID)?;
    let mut answers = Vec::with_capacity(jobs.len());
    for (id, seen) in jobs {
        let mut rows = by_id.query([id.as_bytes()])?;
        let found = match rows.next()? {
            Some(row) => {
                let (seq, queue, state) = (row.get(0)?, row::name(row, 1)?, row::state(row, 2)?);
                let fence = stored::number(row.get(5)?);
                if seen.is_some_and(|seen| !seen.is(state, fence)) {
                    answers.push(Amended::Refused(state));
                    continue;
                }
                let kind = session.kind(row.get_ref(6)?.as_str().unwrap_or_default());
                Some(Found { id: *id, seq, queue, state, has_key: row.get(3)?, has_gate: row.get(4)?, kind })
            }
            None => None,
        };
        drop(rows);
        answers.push(found.map_or(Ok(Amended::Missing), &mut amend)?);
    }
    Ok(answers)
}
