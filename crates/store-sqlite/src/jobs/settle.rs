//! Writes about attempts: settle, reap and progress. Each is compare-and-set on state and fence.

use std::borrow::Cow;

use rusqlite::{CachedStatement, params};
use windlass_core::clock::Timestamp;
use windlass_core::job::ATTEMPTS_KEPT;
use windlass_core::judge::{NextDue, Transition};
use windlass_core::outcome::Ending;
use windlass_core::size::{TooLarge, bounded_text};
use windlass_core::store::{Progress, Settled, Settlement};
use windlass_core::{Fence, JobId, Name, State};

use crate::error::Fault;
use crate::session::Session;
use crate::{leases, row};

const RUNNING: &str = include_str!("../../queries/jobs/running.sql");
const COMPLETE: &str = include_str!("../../queries/jobs/complete.sql");
const SETTLE: &str = include_str!("../../queries/jobs/settle.sql");
const INSERT_ATTEMPT: &str = include_str!("../../queries/jobs/insert_attempt.sql");
const FORGET_ATTEMPTS: &str = include_str!("../../queries/jobs/forget_attempts.sql");
const PROGRESS: &str = include_str!("../../queries/jobs/progress.sql");

/// What gives the right to write an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// The fence: the worker itself. That its lease may have run out does not matter as long as nobody has
    /// taken the job back.
    Fence,
    /// The fence and a lease that has run out, tested again here: a reaper.
    LostLease,
}

pub(crate) fn settle(
    session: &Session<'_>,
    settlements: &[Settlement],
    right: Right,
) -> Result<Vec<Settled>, Fault> {
    let mut running = session.prepare(RUNNING)?;
    let mut complete = session.prepare(COMPLETE)?;
    let mut answers = Vec::with_capacity(settlements.len());
    for Settlement { id, fence, transition } in settlements {
        answers.push(match Attempt::find(&mut running, *id, *fence)? {
            Some(attempt) if attempt.may_be_settled(session, right)? => {
                attempt.settle(session, &mut complete, transition)?
            }
            _ => Settled::Fenced,
        });
    }
    Ok(answers)
}

pub(super) fn progress(session: &Session<'_>, reports: &[Progress]) -> Result<Vec<Settled>, Fault> {
    let mut running = session.prepare(RUNNING)?;
    let mut write = session.prepare(PROGRESS)?;
    let mut answers = Vec::with_capacity(reports.len());
    for Progress { id, fence, progress } in reports {
        let Some(attempt) = Attempt::find(&mut running, *id, *fence)? else {
            answers.push(Settled::Fenced);
            continue;
        };
        let cap = session.config(&attempt.queue)?.caps.output;
        answers.push(match TooLarge::check("progress", progress.len(), cap) {
            Ok(()) => {
                write.execute(params![attempt.seq, &progress[..]])?;
                Settled::Applied(State::Running)
            }
            Err(error) => Settled::Refused(error),
        });
    }
    Ok(answers)
}

/// A running attempt whose fence holds.
struct Attempt {
    seq: i64,
    fence: Fence,
    queue: Name,
    number: u32,
    due_at: Timestamp,
    cancel_requested: bool,
    claimed_at: Timestamp,
    lease: i64,
    worker: String,
}

impl Attempt {
    fn find(running: &mut CachedStatement<'_>, id: JobId, fence: Fence) -> Result<Option<Self>, Fault> {
        let fields = params![id.as_bytes(), row::to_stored(fence.number), row::to_stored(fence.nonce)];
        let mut rows = running.query(fields)?;
        let Some(found) = rows.next()? else { return Ok(None) };
        Ok(Some(Self {
            seq: found.get(0)?,
            fence,
            queue: row::name(found, 1)?,
            number: found.get(2)?,
            due_at: row::time(found.get(3)?),
            cancel_requested: found.get(4)?,
            claimed_at: row::time(found.get(5)?),
            lease: found.get(6)?,
            worker: found.get(7)?,
        }))
    }

    fn may_be_settled(&self, session: &Session<'_>, right: Right) -> Result<bool, Fault> {
        match right {
            Right::Fence => Ok(true),
            Right::LostLease => leases::is_lost(session, self.lease),
        }
    }

    fn settle(
        &self,
        session: &Session<'_>,
        complete: &mut CachedStatement<'_>,
        transition: &Transition,
    ) -> Result<Settled, Fault> {
        let caps = session.config(&self.queue)?.caps;
        let size = transition.output.as_ref().map_or(0, |output| output.len());
        if let Err(error) = TooLarge::check("output", size, caps.output) {
            return Ok(Settled::Refused(error));
        }
        let next = match self.cancel_requested {
            true => Cow::Owned(transition.clone().heeding(true)),
            false => Cow::Borrowed(transition),
        };
        if !State::Running.may_become(next.state) {
            return Err(Fault::Defect(format!("a running job was told to become {}", next.state)));
        }
        if next.ending != Ending::Completed {
            self.record(session, &next, caps.error)?;
        }
        if next.state == State::Completed {
            let counters = next.counters;
            complete.execute(params![
                self.seq,
                counters.attempt,
                counters.stalls,
                counters.ambiguous,
                row::nanos(counters.backoff),
                session.now.as_micros(),
                next.output.as_deref(),
            ])?;
        } else {
            self.put(session, &next)?;
        }
        session.moved(&self.queue, State::Running, next.state, 1);
        Ok(Settled::Applied(next.state))
    }

    /// Writes any outcome but completed.
    fn put(&self, session: &Session<'_>, next: &Transition) -> Result<(), Fault> {
        let due_at = match next.due {
            NextDue::After(delay) if next.state.is_waiting() => session.now.plus(delay),
            _ => self.due_at,
        };
        let counters = next.counters;
        session.prepare(SETTLE)?.execute(params![
            self.seq,
            next.state.code(),
            due_at.as_micros(),
            counters.attempt,
            counters.stalls,
            counters.ambiguous,
            row::nanos(counters.backoff),
            next.reason.map(windlass_core::outcome::Reason::as_str),
            next.state.is_terminal().then_some(session.now.as_micros()),
        ])?;
        Ok(())
    }

    /// Keeps a record of the attempt. Every claim that did not complete leaves one, so fences have no gaps
    /// and the surplus is known by number.
    fn record(&self, session: &Session<'_>, next: &Transition, error_cap: usize) -> Result<(), Fault> {
        let fence = row::to_stored(self.fence.number);
        session.prepare(INSERT_ATTEMPT)?.execute(params![
            self.seq,
            fence,
            self.number,
            self.worker,
            self.claimed_at.as_micros(),
            session.now.as_micros(),
            next.ending.as_str(),
            next.error.as_ref().map(|text| bounded_text(text, error_cap)),
        ])?;
        let surplus = fence - ATTEMPTS_KEPT as i64;
        if surplus > 0 {
            session.prepare(FORGET_ATTEMPTS)?.execute([self.seq, surplus])?;
        }
        Ok(())
    }
}
