//! What a claim asks each queue: the same script with the same lease, nonce and kinds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use redis::Value;
use windlass_core::bell::{Rings, Topic};
use windlass_core::job::{ClaimedJob, LostJob};
use windlass_core::queue::QueueConfig;
use windlass_core::store::{ClaimRequest, PROMOTE_MAX};
use windlass_core::{JobId, Name};

use super::fill::Taken;
use crate::agenda::Needs;
use crate::definitions::rules;
use crate::error::Fault;
use crate::row::{self, INLINE_MAX, Row};
use crate::scripts::CLAIM;
use crate::session::Session;
use crate::{Tools, answer};

/// How many expired jobs one script moves, and how many due ones at most.
const MOVED_MAX: u32 = 250;

/// How many due jobs the first script of a claim moves at least, however few it wants: about as many as it wants, so that a
/// crowd of them is moved while it is worked off.
const PROMOTED_MIN: u32 = 100;

/// A claim as a script gets it.
pub(super) struct Question<'a> {
    pub(super) tools: &'a Tools,
    pub(super) session: &'a Session,
    pub(super) request: &'a ClaimRequest,
    nonce: Bytes,
    label: Bytes,
    pub(super) kinds: Vec<Bytes>,
    /// The same as names, in their order.
    names: Vec<Name>,
    /// Whether jobs have expired in any queue.
    pub(super) has_expired: AtomicBool,
}

impl<'a> Question<'a> {
    pub(super) fn new(
        tools: &'a Tools,
        session: &'a Session,
        request: &'a ClaimRequest,
        label: &str,
    ) -> Self {
        let mut packed = BytesMut::with_capacity(2 + label.len());
        packed.put_u16(u16::try_from(label.len()).expect("a kept label is short"));
        packed.put_slice(label.as_bytes());
        let mut names = request.kinds.clone();
        names.sort_unstable();
        names.dedup();
        Self {
            tools,
            session,
            request,
            nonce: Bytes::copy_from_slice(&request.nonce.to_be_bytes()),
            label: packed.freeze(),
            kinds: names.iter().map(|kind| Bytes::copy_from_slice(kind.as_str().as_bytes())).collect(),
            names,
            has_expired: AtomicBool::new(false),
        }
    }

    /// Runs the script in a queue until nothing more is to be moved, as far as one claim goes.
    pub(super) async fn step(
        &self,
        queue: &Name,
        wanted: u32,
        taken: Taken,
        moving: &mut Moving,
    ) -> Result<Step, Fault> {
        loop {
            let expired_max = moving.next_expired();
            // In a place of its own: it is large, and one future may hold several.
            let answer =
                Box::pin(self.run(queue, wanted, taken, (expired_max, moving.due_max(wanted)))).await?;
            // What the script did is done: an answer that does not read leaves it unknown what.
            let (word, mut rest) = answer::word(answer).map_err(Fault::partial)?;
            let mut next = || rest.next().unwrap_or(Value::Nil);
            match &word[..] {
                b"lost" => return Ok(Step::Lost),
                b"more" => {
                    self.tell_expired(queue, answer::integer(next()).map_err(Fault::partial)?);
                    if moving.expired >= PROMOTE_MAX {
                        return Ok(Step::More);
                    }
                }
                b"rules" => {
                    self.tell_expired(queue, answer::integer(next()).map_err(Fault::partial)?);
                    return rules(next()).map(Step::Rules).map_err(Fault::partial);
                }
                b"unreadable" => {
                    self.tell_expired(queue, answer::integer(next()).map_err(Fault::partial)?);
                    return Err(Fault::Corrupt("the rules of its definition do not read".to_owned()));
                }
                _ => {
                    moving.promote(wanted);
                    self.tell_expired(queue, answer::integer(next()).map_err(Fault::partial)?);
                    return Given::read(&mut next).map(Step::Given).map_err(Fault::partial);
                }
            }
        }
    }

    async fn run(
        &self,
        queue: &Name,
        wanted: u32,
        taken: Taken,
        (expired_max, due_max): (u32, u32),
    ) -> Result<Value, Fault> {
        let flag = |is_set: bool| Bytes::from_static(if is_set { b"1" } else { b"0" });
        let number = |number: u64| Bytes::from(number.min(1 << 53).to_string());
        let mut arguments = vec![
            self.tools.clock(),
            Bytes::copy_from_slice(self.request.lease.as_bytes()),
            self.nonce.clone(),
            self.label.clone(),
            number(wanted.into()),
            number(self.request.bytes as u64),
            number(taken.bytes as u64),
            flag(taken.jobs == 0),
            number(expired_max.into()),
            number(due_max.into()),
            number(self.request.at_once.saturating_sub(taken.jobs).into()),
            number(taken.gates.passed),
            number(taken.gates.looked),
        ];
        arguments.extend(self.kinds.iter().cloned());
        self.session.run(&CLAIM, self.tools.keys.queue(queue).all(), arguments).await
    }

    /// Reads what the script handed out. The jobs are claimed by now: one that does not read is told of apart, and takes
    /// none of those beside it along.
    pub(super) async fn read(
        &self,
        queue: &Name,
        given: Given,
        jobs: &mut Vec<ClaimedJob>,
        unreadable: &mut Vec<LostJob>,
    ) {
        self.tools.pauses.strange(queue, given.strange);
        if given.records.is_empty() {
            return;
        }
        self.tools.definitions.expect(queue, given.version);
        let definition = self.tools.definitions.of(self.session, &self.tools.keys, queue);
        let caps = match Box::pin(definition).await {
            Ok(definition) => definition.config.caps,
            // What does not fit is refused when it is stored.
            Err(fault) => {
                tracing::debug!(?fault, %queue, "jobs are handed out without the definition of their queue");
                QueueConfig::default().caps
            }
        };
        let mut bodies = given.bodies.into_iter();
        let before = jobs.len();
        jobs.reserve(given.records.len());
        for (id, record) in given.records {
            let is_apart = row::payload_length(&record) > INLINE_MAX;
            let body = if is_apart { bodies.next().flatten() } else { None };
            match Row::unpack_known(record, &self.names).claimed(id, queue, body, caps) {
                Ok(job) => jobs.push(job),
                Err(Some(lost)) => unreadable.push(*lost),
                Err(None) => tracing::error!(%id, %queue, "a job was taken whose fence does not read"),
            }
        }
        self.tools.queue_cache.note(queue, jobs[before..].iter().map(|job| job.id));
    }

    /// Jobs have expired. It is noted for maintenance when all queues were asked: none has to wait for it.
    fn tell_expired(&self, queue: &Name, expired: i64) {
        if expired > 0 {
            self.has_expired.store(true, Ordering::Relaxed);
            self.tools.agenda.notes.later(queue, Needs::BOTH, self.tools.time());
            self.tools.ring(Rings::about(Topic::Finish));
        }
    }
}

/// What one run of the script came to.
pub(super) enum Step {
    /// The lease has run out.
    Lost,
    /// More have expired than one claim moves: they could be next in turn, and must not be handed out.
    More,
    /// The queue uses this rule, which this program does not know. Nothing was taken.
    Rules(u32),
    Given(Given),
}

/// The limits of a queue that was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    None,
    /// It gave no jobs to wait for a slot.
    Near,
    /// As before, but they leave far more than was asked for.
    Far,
}

/// Gates of a queue that scripts of one claim have asked in vain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gates {
    /// How many of them stand first, as they did.
    passed: u64,
    /// How many were asked in all.
    looked: u64,
}

/// Jobs that a script handed out.
pub(super) struct Given {
    pub(super) next_due: Option<Duration>,
    version: i64,
    pub(super) end: End,
    records: Vec<(JobId, Bytes)>,
    bodies: Vec<Option<Bytes>>,
    /// Whether jobs may have been ready before, of any kind; none if the rules of the queue leave none of them.
    pub(super) ready: i64,
    pub(super) limits: Limits,
    pub(super) gates: Gates,
    /// How many were met that this program does not know.
    strange: i64,
}

impl Given {
    /// How many jobs.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.records.len()).unwrap_or(u32::MAX)
    }

    /// How many bytes of payload.
    pub(super) fn bytes(&self) -> usize {
        self.records.iter().map(|(_, record)| row::payload_length(record)).sum()
    }

    /// Reads the answer after its first two elements.
    fn read(next: &mut impl FnMut() -> Value) -> Result<Self, Fault> {
        let next_due = u64::try_from(answer::integer(next())?).ok().map(Duration::from_micros);
        let version = answer::integer(next())?;
        let end = match answer::integer(next())? {
            1 => End::Full,
            2 => End::Passed,
            3 => End::Budget,
            _ => End::Plain,
        };
        let flat = answer::byte_strings(next())?;
        let bodies = answer::array(next())?.into_iter().map(answer::optional_bytes);
        let mut records = Vec::with_capacity(flat.len() / 2);
        let mut flat = flat.into_iter();
        while let (Some(id), Some(record)) = (flat.next(), flat.next()) {
            let id =
                <[u8; 16]>::try_from(&id[..]).map_err(|_| Fault::Corrupt("an id is not whole".to_owned()))?;
            records.push((JobId::from_bytes(id), record));
        }
        let bodies = bodies.collect::<Result<_, _>>()?;
        let (ready, strange) = (answer::integer(next())?, answer::integer(next())?);
        let limits = match answer::integer(next())? {
            0 => Limits::None,
            1 => Limits::Near,
            _ => Limits::Far,
        };
        let mut gates = || answer::integer(next()).map(|number| u64::try_from(number).unwrap_or(0));
        let gates = Gates { passed: gates()?, looked: gates()? };
        Ok(Self { next_due, version, end, records, bodies, ready, limits, gates, strange })
    }
}

/// Why a script handed out no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It was asked for no more, or has no more.
    Plain,
    /// A payload did not fit.
    Full,
    /// It passed as many members as it may that jobs left behind; more jobs may follow.
    Passed,
    /// It handed out as many bytes as one script may; more jobs follow.
    Budget,
}

/// How much of one queue a claim has moved: at most [`PROMOTE_MAX`] each.
#[derive(Default)]
pub(super) struct Moving {
    expired: u32,
    due: u32,
}

impl Moving {
    /// How many expired jobs the next script may move. None of them may be handed out, so they go before all else.
    fn next_expired(&mut self) -> u32 {
        let most = (PROMOTE_MAX - self.expired).min(MOVED_MAX);
        self.expired += most;
        most
    }

    /// How many due jobs the next script may move.
    fn due_max(&self, wanted: u32) -> u32 {
        let about = if self.due == 0 { wanted.clamp(PROMOTED_MIN, MOVED_MAX) } else { MOVED_MAX };
        about.min(PROMOTE_MAX - self.due)
    }

    /// A script has taken jobs, and moved those that were due before.
    fn promote(&mut self, wanted: u32) {
        self.due += self.due_max(wanted);
    }

    /// Whether another script may move due jobs.
    pub(super) fn may_promote(&self) -> bool {
        self.due < PROMOTE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_moves_a_bounded_number_of_expired_jobs() {
        let mut moving = Moving::default();
        let steps: Vec<_> = (0..6).map(|_| moving.next_expired()).collect();
        assert_eq!(steps, [MOVED_MAX, MOVED_MAX, MOVED_MAX, MOVED_MAX, 0, 0]);
    }

    #[test]
    fn one_claim_moves_about_as_many_due_jobs_as_it_wants() {
        for (wanted, first) in [(0, PROMOTED_MIN), (1, PROMOTED_MIN), (180, 180), (500, MOVED_MAX)] {
            let (mut moving, mut moved) = (Moving::default(), 0);
            assert_eq!(moving.due_max(wanted), first);
            while moving.may_promote() {
                moved += moving.due_max(wanted);
                moving.promote(wanted);
            }
            assert_eq!((moved, moving.due_max(wanted)), (PROMOTE_MAX, 0));
        }
    }
}
