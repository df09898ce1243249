//! Writes about attempts: settle, reap and progress. Each is compare-and-set on state and fence.

use std::borrow::Cow;
use std::collections::HashSet;

use rusqlite::{CachedStatement, params};
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::job::{ATTEMPTS_KEPT, Counters};
use windlass_core::judge::Transition;
use windlass_core::queue::QueueConfig;
use windlass_core::size::TooLarge;
use windlass_core::store::{Begin, Cause, Progress, Right, Settled, Settlement};
use windlass_core::{Fence, JobId, Name, State};

use crate::error::Fault;
use crate::moves::{self, Standing};
use crate::session::Session;
use crate::tallies::KindPlace;
use crate::transaction::at_once;
use crate::{leases, row};

pub(crate) const RUNNING: &str = include_str!("../../queries/jobs/running.sql");
const REAPED: &str = include_str!("../../queries/jobs/reaped.sql");
const BEGIN: &str = include_str!("../../queries/jobs/begin.sql");
const INSERT_ATTEMPT: &str = include_str!("../../queries/jobs/insert_attempt.sql");
const FORGET_ATTEMPTS: &str = include_str!("../../queries/jobs/forget_attempts.sql");
const PROGRESS: &str = include_str!("../../queries/jobs/progress.sql");

/// How the attempt is found.
pub(crate) const fn statement(right: Right) -> &'static str {
    match right {
        Right::Fence | Right::LostLease => RUNNING,
        Right::Late => REAPED,
    }
}

pub(crate) fn settle(
    session: &Session<'_>,
    settlements: &[Settlement],
    right: Right,
) -> Result<Vec<Settled>, Fault> {
    let mut found = session.prepare(statement(right))?;
    let mut ends = Ends::default();
    let mut answers = Vec::with_capacity(settlements.len());
    for Settlement { queue, id, fence, transition } in settlements {
        if ends.ids.contains(id) {
            // It stands twice in the call, and its first outcome is not written yet.
            answers.push(Settled::Fenced);
            continue;
        }
        answers.push(match Attempt::find(session, &mut found, queue, *id, *fence)? {
            Some(attempt) if attempt.may_be_settled(session, right, transition)? => {
                attempt.settle(session, transition, right, &mut ends)?
            }
            _ => Settled::Fenced,
        });
    }
    ends.write(session)?;
    Ok(answers)
}

pub(super) fn begin(session: &Session<'_>, attempts: &[Begin]) -> Result<Vec<Settled>, Fault> {
    let mut write = session.prepare(BEGIN)?;
    let mut answers = Vec::with_capacity(attempts.len());
    for Begin { queue, id, fence } in attempts {
        let (number, nonce) = (row::to_stored(fence.number), row::to_stored(fence.nonce));
        let has_begun = write.execute(params![id.as_bytes(), number, nonce, queue.as_str()])? == 1;
        answers.push(if has_begun { Settled::Applied(State::Running) } else { Settled::Fenced });
    }
    Ok(answers)
}

pub(super) fn progress(session: &Session<'_>, reports: &[Progress]) -> Result<Vec<Settled>, Fault> {
    let mut running = session.prepare(RUNNING)?;
    let mut write = session.prepare(PROGRESS)?;
    let mut answers = Vec::with_capacity(reports.len());
    for Progress { queue, id, fence, progress } in reports {
        let Some(attempt) = Attempt::find(session, &mut running, queue, *id, *fence)? else {
            answers.push(Settled::Fenced);
            continue;
        };
        let cap = session.definition(queue)?.config.caps.output;
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

/// Whether another job may start when one of a queue has ended, with or without a key.
pub(crate) fn makes_room(config: &QueueConfig, has_gate: bool) -> bool {
    let limits_keys = || config.keys.as_ref().is_some_and(|keys| keys.concurrency.is_some());
    config.concurrency.is_some() || (has_gate && limits_keys())
}

/// An attempt whose fence holds.
pub(crate) struct Attempt<'a> {
    id: JobId,
    seq: i64,
    fence: Fence,
    queue: &'a Name,
    /// Running, unless it was taken back.
    pub(crate) state: State,
    pub(crate) cancel_requested: bool,
    pub(crate) has_key: bool,
    has_gate: bool,
    lease: i64,
    counters: Counters,
    kind: KindPlace,
    claimed_at: Option<Timestamp>,
}

impl<'a> Attempt<'a> {
    /// Reads no more than is needed, so that a job which does not read can be brought to its end by its fence.
    pub(crate) fn find(
        session: &Session<'_>,
        statement: &mut CachedStatement<'_>,
        queue: &'a Name,
        id: JobId,
        fence: Fence,
    ) -> Result<Option<Self>, Fault> {
        let fields = params![id.as_bytes(), row::to_stored(fence.number), row::to_stored(fence.nonce)];
        let mut rows = statement.query(fields)?;
        let Some(found) = rows.next()? else { return Ok(None) };
        if !found.get_ref(1)?.as_bytes().is_ok_and(|stored| stored == queue.as_str().as_bytes()) {
            return Ok(None);
        }
        Ok(Some(Self {
            id,
            seq: found.get(0)?,
            fence,
            queue,
            state: row::state(found, 8)?,
            cancel_requested: found.get(2)?,
            has_key: found.get(9)?,
            has_gate: found.get(10)?,
            lease: found.get::<_, Option<i64>>(3)?.unwrap_or(0),
            counters: row::counters(found, 4).unwrap_or_default(),
            kind: session.kind(found.get_ref(11)?.as_str().unwrap_or_default()),
            claimed_at: found.get::<_, Option<i64>>(12)?.map(row::time),
        }))
    }

    pub(crate) fn may_be_settled(
        &self,
        session: &Session<'_>,
        right: Right,
        transition: &Transition,
    ) -> Result<bool, Fault> {
        match right {
            Right::Fence => Ok(true),
            Right::LostLease => leases::is_lost(session, self.lease),
            Right::Late => Ok(transition.state.is_terminal()),
        }
    }

    pub(crate) fn settle(
        &self,
        session: &Session<'_>,
        transition: &Transition,
        right: Right,
        ends: &mut Ends<'a>,
    ) -> Result<Settled, Fault> {
        let definition = session.definition(self.queue)?;
        let config = &definition.config;
        if let Err(error) = transition.check_output(config.caps.output) {
            return Ok(Settled::Refused(error));
        }
        let next = match self.cancel_requested {
            true => Cow::Owned(transition.clone().honoring_cancel(true)),
            false => Cow::Borrowed(transition),
        };
        if makes_room(config, self.has_gate) {
            // Another one may start.
            session.ring(Rings::entered(State::Ready, self.queue));
        }
        if !config.retention.keeps(next.state) {
            ends.ids.insert(self.id);
            let (job, cause) = (self.standing(), right.cause());
            ends.removed.push(at_once(moves::end_unkept(&mut session.tx(), job, &next, cause))?);
            return Ok(Settled::Applied(next.state));
        }
        if next.is_recorded() {
            self.record(session, &next, right, config.caps.error)?;
        }
        let is_plain = next.output.is_none() && next.counters == self.counters;
        if next.state == State::Completed && is_plain {
            ends.ids.insert(self.id);
            ends.completed.push(self.standing());
        } else {
            at_once(moves::settle(&mut session.tx(), self.standing(), &next, right.cause()))?;
        }
        Ok(Settled::Applied(next.state))
    }

    fn standing(&self) -> Standing<'a> {
        let Self { seq, queue, state, has_key, has_gate, kind, claimed_at: since, .. } = *self;
        Standing { seq, queue, state, has_key, has_gate, kind, since }
    }

    /// Keeps a record of the attempt, before its outcome is written. Every claim that did not complete leaves
    /// one, so fences have no gaps and the surplus is known by number.
    fn record(
        &self,
        session: &Session<'_>,
        next: &Transition,
        right: Right,
        error_cap: usize,
    ) -> Result<(), Fault> {
        let (now, error) = (session.now.as_micros(), next.bounded_error(error_cap));
        let fields = params![self.seq, now, next.ending.as_str(), error, right == Right::Late];
        session.prepare(INSERT_ATTEMPT)?.execute(fields)?;
        let surplus = row::to_stored(self.fence.number) - ATTEMPTS_KEPT as i64;
        if surplus > 0 {
            session.prepare(FORGET_ATTEMPTS)?.execute([self.seq, surplus])?;
        }
        Ok(())
    }
}

/// Jobs that come to an end that leaves nothing to write but itself: completed without output, as nearly all
/// do, or not kept by their queue. They are written together, because opening a statement costs more than a row.
#[derive(Default)]
pub(crate) struct Ends<'a> {
    /// All of them.
    pub(crate) ids: HashSet<JobId>,
    completed: Vec<Standing<'a>>,
    removed: Vec<Standing<'a>>,
}

impl Ends<'_> {
    pub(crate) fn write(&self, session: &Session<'_>) -> Result<(), Fault> {
        if !self.completed.is_empty() {
            at_once(moves::complete(&mut session.tx(), &self.completed))?;
        }
        if !self.removed.is_empty() {
            at_once(moves::remove(&mut session.tx(), &self.removed, Cause::NotKept))?;
        }
        Ok(())
    }
}
