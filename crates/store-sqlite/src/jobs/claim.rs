//! The claim: what is due becomes ready, and whose turn it is becomes running, in one transaction.

mod keyed;
mod line;

use std::time::Duration;

use windlass_core::job::{ClaimedJob, LostJob};
use windlass_core::queue::Aged;
use windlass_core::size::Caps;
use windlass_core::store::{ClaimAnswer, ClaimRequest, PROMOTE_MAX, QueueShare, Room, SickQueue, is_near};
use windlass_core::{Fence, Name, State};

use crate::aged::Order;
use crate::error::Fault;
use crate::leases::{self, Living};
use crate::maintenance;
use crate::moves::{self, Claim, Standing};
use crate::rules::Rules;
use crate::session::Session;
use crate::transaction::at_once;
use line::{Candidate, Line};

pub(crate) fn claim(session: &Session<'_>, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
    let Some(lease) = leases::living(session, request.lease)? else { return Ok(ClaimAnswer::LeaseLost) };
    let room = Room::new(request.limit, request.bytes);
    let mut filling = Filling {
        request,
        lease,
        room,
        jobs: Vec::new(),
        unreadable: Vec::new(),
        sick: Vec::new(),
        limited: Vec::new(),
        ample: Vec::new(),
        is_near: false,
    };
    let mut next_due: Option<Duration> = None;
    for share in &request.queues {
        let moved = maintenance::promote_queue(session, &share.queue, PROMOTE_MAX, PROMOTE_MAX)?;
        if moved.expired == PROMOTE_MAX && maintenance::has_expired(session, &share.queue)? {
            // More than one call moves: they could be next in turn, and must not be handed out.
            next_due = Some(Duration::ZERO);
            continue;
        }
        let definition = session.definition(&share.queue)?;
        if let Some(unknown) = SickQueue::of_rules(&share.queue, definition.rules) {
            filling.sick.push(unknown);
            continue;
        }
        let rules = Rules::of(session, &share.queue, &definition);
        filling.fill_from(session, share, &rules)?;
        if definition.config.limits() {
            filling.limited.push(share.queue.clone());
            filling.ample.extend((!filling.is_near).then(|| share.queue.clone()));
        }
        let due = maintenance::next_due(session, &share.queue)?;
        next_due = [next_due, due, rules.next()?].into_iter().flatten().min();
    }
    let Filling { jobs, unreadable, sick, limited, ample, .. } = filling;
    Ok(ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited, ample })
}

/// A claim that is being filled.
struct Filling<'a> {
    request: &'a ClaimRequest,
    lease: Living,
    room: Room,
    jobs: Vec<ClaimedJob>,
    unreadable: Vec<LostJob>,
    /// Queues that use a rule which this program does not know.
    sick: Vec<SickQueue>,
    /// Queues that gave no more than can begin at once.
    limited: Vec<Name>,
    /// Of these, those whose limits are far.
    ample: Vec<Name>,
    /// Whether limits of the queue that is asked are near, or of one of its keys.
    is_near: bool,
}

/// What jobs without a key are taken by.
#[derive(Clone, Copy)]
struct Plain<'a> {
    queue: &'a Name,
    kinds: &'a [Name],
    caps: Caps,
    /// Their order, where priority is aged.
    aged: Option<Aged>,
}

impl Filling<'_> {
    /// Takes jobs of one queue, in their turn and as far as its rules leave any.
    fn fill_from(
        &mut self,
        session: &Session<'_>,
        share: &QueueShare,
        rules: &Rules<'_>,
    ) -> Result<(), Fault> {
        let (wanted, room) = (self.room.of(share), rules.room()?);
        self.is_near = is_near(room, wanted);
        let wanted = rules.leave(wanted, self.room.at_once(self.request), room);
        let kinds = rules.kinds(&self.request.kinds);
        let plain = Plain {
            queue: &share.queue,
            kinds: &kinds,
            caps: rules.caps(),
            aged: rules.aged(self.request.nonce),
        };
        let taken = match rules.gates() {
            None => self.fill_keyless(session, plain, wanted)?,
            Some(gates) if self.request.keyless_first() => {
                let taken = self.fill_keyless(session, plain, wanted)?;
                taken + self.fill_keyed(&gates, &kinds, wanted - taken)?
            }
            Some(gates) => {
                let taken = self.fill_keyed(&gates, &kinds, wanted)?;
                taken + self.fill_keyless(session, plain, wanted - taken)?
            }
        };
        rules.spend(taken)
    }

    /// Takes jobs without a key, of these kinds. Answers how many.
    fn fill_keyless(&mut self, session: &Session<'_>, plain: Plain<'_>, wanted: u32) -> Result<u32, Fault> {
        if wanted == 0 {
            return Ok(0);
        }
        if let Some(aged) = plain.aged {
            return self.fill_aged(session, plain, aged, wanted);
        }
        let Plain { queue, kinds, caps, .. } = plain;
        let mut line = Line::new(queue, kinds, caps, wanted as usize, self.room.bytes());
        let mut taken = 0;
        let mut unwritten = Vec::with_capacity(wanted.min(1_024) as usize);
        while taken < wanted {
            if line.must_look() {
                // What was taken has to leave the index first, or it would be seen again.
                self.write(session, &mut unwritten)?;
                line.look(session)?;
            }
            let Some(Candidate { seq, has_key, due_at, job, .. }) = line.next() else { break };
            if !self.room.take(job.as_ref().map_or(0, |job| job.payload.len())) {
                break;
            }
            let kind = session.kind(kind_of(&job).as_str());
            let (state, since) = (State::Ready, Some(due_at));
            self.add(session, job);
            unwritten.push(Standing { seq, queue, state, has_key, has_gate: false, kind, since });
            taken += 1;
        }
        self.write(session, &mut unwritten)?;
        Ok(taken)
    }

    /// As `fill_keyless`, where priority is aged.
    fn fill_aged(
        &mut self,
        session: &Session<'_>,
        Plain { queue, kinds, caps, .. }: Plain<'_>,
        aged: Aged,
        wanted: u32,
    ) -> Result<u32, Fault> {
        let mut order = Order::of_kinds(session, queue, kinds, aged, wanted)?;
        let mut unwritten = Vec::with_capacity(wanted.min(1_024) as usize);
        while unwritten.len() < wanted as usize {
            let Some((seq, Some(kind))) = order.next()? else { break };
            let of = line::Of { queue, kind: &kinds[kind], key: None, caps };
            let Some(Candidate { seq, has_key, due_at, job, .. }) = line::one(session, of, seq)? else {
                continue;
            };
            if !self.room.take(job.as_ref().map_or(0, |job| job.payload.len())) {
                break;
            }
            self.add(session, job);
            let (kind, since) = (session.kind(of.kind.as_str()), Some(due_at));
            unwritten.push(Standing {
                seq,
                queue,
                state: State::Ready,
                has_key,
                has_gate: false,
                kind,
                since,
            });
        }
        let taken = u32::try_from(unwritten.len()).unwrap_or(wanted);
        self.write(session, &mut unwritten)?;
        Ok(taken)
    }

    /// Hands a job out, as the claim is about to leave it.
    fn add(&mut self, session: &Session<'_>, job: Result<ClaimedJob, Box<LostJob>>) {
        let nonce = self.request.nonce;
        let next = |fence: Fence| Fence { number: fence.number + 1, nonce };
        match job {
            Ok(mut job) => {
                job.fence = next(job.fence);
                job.facts.counters.attempt = job.facts.counters.attempt.saturating_add(1);
                job.claimed_at = session.now;
                self.jobs.push(job);
            }
            Err(mut job) => {
                job.fence = next(job.fence);
                job.facts.counters.attempt = job.facts.counters.attempt.saturating_add(1);
                job.worker.clone_from(&self.lease.worker);
                self.unreadable.push(*job);
            }
        }
    }

    /// Lets jobs run; one statement for all of them, because opening it costs more than a row.
    fn write(&self, session: &Session<'_>, jobs: &mut Vec<Standing<'_>>) -> Result<(), Fault> {
        if jobs.is_empty() {
            return Ok(());
        }
        let Living { key, worker } = &self.lease;
        let claim = Claim { nonce: self.request.nonce, lease: *key, worker };
        at_once(moves::claim(&mut session.tx(), jobs, claim))?;
        jobs.clear();
        Ok(())
    }
}

fn kind_of(job: &Result<ClaimedJob, Box<LostJob>>) -> &Name {
    match job {
        Ok(job) => &job.kind,
        Err(job) => &job.kind,
    }
}
