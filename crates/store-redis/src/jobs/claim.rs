//! The claim: what is due becomes ready, and whose turn it is becomes running, in one script for each queue.

use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use redis::Value;
use tokio::time::timeout;
use windlass_core::bell::{Rings, Topic};
use windlass_core::job::ClaimedJob;
use windlass_core::store::{ClaimAnswer, ClaimRequest, PROMOTE_MAX, QueueShare, Settlement};
use windlass_core::{Fence, JobId, Name, Outcome, judge};

use super::enqueue::word;
use super::settle::{Right, settle};
use crate::error::Fault;
use crate::leases::Holders;
use crate::row::Row;
use crate::script::{Script, script};
use crate::session::Session;
use crate::{Tools, answer, spread};

static CLAIM: Script =
    script!("jobs/claim", "keys", "clock", "record", "lines", "batch", "blocks", "places", "promote");

/// The most jobs that one script hands out.
const JOBS_MAX: u32 = 500;

/// How many expired and how many due jobs one script moves.
const MOVED_MAX: u32 = 250;

/// How often a claim comes again because it met nothing but members that jobs left behind.
const PASSES_MAX: u32 = 20;

pub(super) async fn claim(
    tools: &Tools,
    session: &Session,
    request: &ClaimRequest,
) -> Result<ClaimAnswer, Fault> {
    let Some(holder) = Holders::of(tools, session, request.lease).await? else {
        return Ok(ClaimAnswer::LeaseLost);
    };
    let mut claim = Claim::new(tools, session, request, &holder.label);
    // One server that hangs must leave time to put back what others gave.
    let patience = session.servers().options.timeout / 2;
    let mut is_lost = false;
    for (place, share) in request.queues.iter().enumerate() {
        if claim.left() == 0 {
            // Nothing more will be taken; these queues are only moved along, and need not wait for each other.
            is_lost |= claim.move_along(&request.queues[place..]).await?;
            break;
        }
        let filled = timeout(patience, claim.fill(share)).await;
        match filled.unwrap_or(Err(Fault::Timeout(patience))) {
            Ok(lives) => is_lost |= !lives,
            // It changed nothing: one queue that is away does not hold up the others.
            Err(fault @ (Fault::Away(_) | Fault::Said(_))) => {
                claim.fault = claim.fault.take().or(Some(fault));
            }
            // Jobs may have been handed out that nobody knows of: whoever asks must hear of it.
            Err(fault) if claim.jobs.is_empty() => return Err(fault),
            Err(fault) => {
                claim.give_back().await;
                return Err(Fault::Half(Box::new(fault)));
            }
        }
    }
    match claim.fault {
        Some(fault) if claim.jobs.is_empty() => Err(fault),
        _ if is_lost && claim.jobs.is_empty() => Ok(ClaimAnswer::LeaseLost),
        _ => Ok(ClaimAnswer::Jobs { jobs: claim.jobs, next_due: claim.next_due }),
    }
}

/// A claim that is being filled.
struct Claim<'a> {
    tools: &'a Tools,
    session: &'a Session,
    request: &'a ClaimRequest,
    nonce: Bytes,
    label: Bytes,
    kinds: Vec<Bytes>,
    jobs: Vec<ClaimedJob>,
    /// Bytes of payload that are taken.
    bytes: usize,
    /// A payload did not fit: the claim ends, so that its job does not lose its turn to smaller ones.
    is_full: bool,
    next_due: Option<Duration>,
    /// The first that kept a queue from giving anything.
    fault: Option<Fault>,
}

impl<'a> Claim<'a> {
    fn new(tools: &'a Tools, session: &'a Session, request: &'a ClaimRequest, label: &str) -> Self {
        let mut packed = BytesMut::with_capacity(2 + label.len());
        packed.put_u16(u16::try_from(label.len()).expect("a kept label is short"));
        packed.put_slice(label.as_bytes());
        let mut kinds: Vec<_> = request.kinds.iter().map(Name::as_str).collect();
        kinds.sort_unstable();
        kinds.dedup();
        Self {
            tools,
            session,
            request,
            nonce: Bytes::copy_from_slice(&Fence::nonce().to_be_bytes()),
            label: packed.freeze(),
            kinds: kinds.into_iter().map(|kind| Bytes::copy_from_slice(kind.as_bytes())).collect(),
            jobs: Vec::new(),
            bytes: 0,
            is_full: false,
            next_due: None,
            fault: None,
        }
    }

    /// How many jobs may still be taken.
    fn left(&self) -> u32 {
        if self.is_full || self.kinds.is_empty() {
            return 0;
        }
        let taken = u32::try_from(self.jobs.len()).unwrap_or(u32::MAX);
        self.request.limit.saturating_sub(taken)
    }

    /// Takes jobs of one queue, in their turn. Answers whether the lease lives there.
    async fn fill(&mut self, share: &QueueShare) -> Result<bool, Fault> {
        let mut left = self.left().min(share.limit);
        let (mut moving, mut passes) = (Moving::default(), 0);
        loop {
            let wanted = left.min(JOBS_MAX);
            match self.step(&share.queue, wanted, &mut moving).await? {
                Step::Lost => return Ok(false),
                Step::More => {
                    self.due_in(Duration::ZERO);
                    return Ok(true);
                }
                Step::Given(given) => {
                    let count = u32::try_from(given.records.len()).unwrap_or(u32::MAX);
                    let (end, next_due) = (given.end, given.next_due);
                    self.land(&share.queue, given).await?;
                    self.is_full |= end == End::Full;
                    left -= count.min(left);
                    passes += u32::from(end == End::Passed);
                    let is_last = match end {
                        End::Full => true,
                        End::Passed => passes >= PASSES_MAX,
                        End::Plain => count < wanted,
                    };
                    if is_last || left == 0 {
                        let next_due = if end == End::Passed { Some(Duration::ZERO) } else { next_due };
                        next_due.into_iter().for_each(|span| self.due_in(span));
                        return Ok(true);
                    }
                }
            }
        }
    }

    /// Moves queues along that give nothing. Answers whether the lease is lost there.
    async fn move_along(&mut self, shares: &[QueueShare]) -> Result<bool, Fault> {
        let this = &*self;
        let moved = spread::each(shares.iter().collect(), |share: &QueueShare| async move {
            let mut moving = Moving::default();
            // A fault is kept, not raised: it took nothing, and the jobs of others must be told of.
            Ok(this.step(&share.queue, 0, &mut moving).await)
        });
        let mut is_lost = false;
        for step in moved.await? {
            match step {
                Ok(Step::Lost) => is_lost = true,
                Ok(Step::More) => self.due_in(Duration::ZERO),
                Ok(Step::Given(given)) => given.next_due.into_iter().for_each(|span| self.due_in(span)),
                Err(fault) => self.fault = self.fault.take().or(Some(fault)),
            }
        }
        Ok(is_lost)
    }

    fn due_in(&mut self, span: Duration) {
        self.next_due = Some(self.next_due.map_or(span, |known| known.min(span)));
    }

    /// Runs the script in a queue until nothing more is to be moved, as far as one claim goes.
    async fn step(&self, queue: &Name, wanted: u32, moving: &mut Moving) -> Result<Step, Fault> {
        loop {
            let (most, is_last) = moving.next();
            let answer = self.run(queue, wanted, most, is_last).await?;
            // What the script did is done: an answer that does not read leaves it unknown what.
            let half = |fault| Fault::Half(Box::new(fault));
            let (word, mut rest) = answer::array(answer).and_then(word).map_err(half)?;
            let mut next = || rest.next().unwrap_or(Value::Nil);
            match &word[..] {
                b"lost" => return Ok(Step::Lost),
                b"more" => {
                    self.ring(answer::integer(next()).map_err(half)?);
                    if is_last {
                        return Ok(Step::More);
                    }
                }
                _ => {
                    self.ring(answer::integer(next()).map_err(half)?);
                    return Given::read(&mut next).map(Step::Given).map_err(half);
                }
            }
        }
    }

    async fn run(&self, queue: &Name, wanted: u32, most: u32, is_last: bool) -> Result<Value, Fault> {
        let flag = |is_set: bool| Bytes::from_static(if is_set { b"1" } else { b"0" });
        let number = |number: u64| Bytes::from(number.min(1 << 53).to_string());
        let mut arguments = vec![
            self.tools.clock(),
            Bytes::copy_from_slice(self.request.lease.as_bytes()),
            self.nonce.clone(),
            self.label.clone(),
            number(wanted.into()),
            number(self.request.bytes as u64),
            number(self.bytes as u64),
            flag(self.jobs.is_empty()),
            number(most.into()),
            flag(is_last),
        ];
        arguments.extend(self.kinds.iter().cloned());
        self.session.run(&CLAIM, self.tools.keys.queue(queue).all(), arguments).await
    }

    /// Takes what the script handed out. The jobs are claimed by now: whoever is not told of them must hear that they
    /// may be.
    async fn land(&mut self, queue: &Name, given: Given) -> Result<(), Fault> {
        if given.records.is_empty() {
            return Ok(());
        }
        let half = |fault| Fault::Half(Box::new(fault));
        self.tools.definitions.expect(queue, given.version);
        let definition =
            self.tools.definitions.of(self.session, &self.tools.keys, queue).await.map_err(half)?;
        let caps = definition.config.caps;
        let (mut bodies, mut fault) = (given.bodies.into_iter(), None);
        for (id, record) in given.records {
            let job = Row::unpack_known(record, &self.request.kinds).and_then(|row| {
                self.bytes = self.bytes.saturating_add(row.payload_length);
                let body = if row.spec.payload.is_none() { bodies.next().flatten() } else { None };
                row.claimed(id, queue, body, caps)
            });
            // One that does not read must not take those beside it along.
            match job {
                Ok(job) => self.jobs.push(job),
                Err(wrong) => fault = fault.or(Some(wrong)),
            }
        }
        self.tools.whereabouts.note(queue, self.jobs.iter().rev().take(given.count).map(|job| job.id));
        fault.map_or(Ok(()), |fault| Err(half(fault)))
    }

    /// Puts back what was taken, as far as that can be done: whoever asked will not hear of it. Left to a reaper, it would
    /// count as stalled, and a job that never began could die of that.
    async fn give_back(&self) {
        let settlements: Vec<_> = self.jobs.iter().map(returned).collect();
        let settled = settle(self.tools, self.session, &settlements, Right::Fence).await;
        if let Err(fault) = settled {
            tracing::debug!(?fault, "jobs of a claim without an answer are left to the reaper");
        }
    }

    fn ring(&self, expired: i64) {
        if expired > 0 {
            self.tools.ring(Rings::about(Topic::Finish));
        }
    }
}

fn returned(job: &ClaimedJob) -> Settlement {
    // No delay is drawn for what goes back as it was.
    let transition = judge(&job.facts, Outcome::Returned, 0.0);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

/// What one run of the script came to.
enum Step {
    /// The lease has run out.
    Lost,
    /// More have expired than one claim moves: they could be next in turn, and must not be handed out.
    More,
    Given(Given),
}

/// Jobs that a script handed out.
struct Given {
    next_due: Option<Duration>,
    version: i64,
    end: End,
    count: usize,
    records: Vec<(JobId, Bytes)>,
    bodies: Vec<Option<Bytes>>,
}

impl Given {
    /// Reads the answer after its first two elements.
    fn read(next: &mut impl FnMut() -> Value) -> Result<Self, Fault> {
        let next_due = u64::try_from(answer::integer(next())?).ok().map(Duration::from_micros);
        let version = answer::integer(next())?;
        let end = match answer::integer(next())? {
            1 => End::Full,
            2 => End::Passed,
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
        Ok(Self { next_due, version, end, count: records.len(), records, bodies })
    }
}

/// Why a script handed out no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It was asked for no more, or has no more.
    Plain,
    /// A payload did not fit.
    Full,
    /// It passed as many members as it may that jobs left behind; more jobs may follow.
    Passed,
}

/// How much of one queue a claim has moved.
#[derive(Default)]
struct Moving {
    moved: u32,
}

impl Moving {
    /// How many the next script may move, and whether it is to take jobs although more are due.
    fn next(&mut self) -> (u32, bool) {
        let most = (PROMOTE_MAX - self.moved).min(MOVED_MAX);
        self.moved += most;
        (most, self.moved >= PROMOTE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_claim_moves_what_it_may_and_then_takes() {
        let mut moving = Moving::default();
        let steps: Vec<_> = (0..6).map(|_| moving.next()).collect();
        let (some, none) = (MOVED_MAX, 0);
        assert_eq!(
            steps,
            [(some, false), (some, false), (some, false), (some, true), (none, true), (none, true)]
        );
    }
}
