//! The claim: what is due becomes ready, and whose turn it is becomes running, in one transaction.
//!
//! Ready jobs stand in an index by queue, kind and turn. A claim looks at the first few of each kind that it
//! wants and merges them, so jobs of other kinds cost nothing. A kind is looked at again only when all that
//! was seen of it has been taken, and by then those have left the index.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::time::Duration;

use rusqlite::params;
use windlass_core::job::ClaimedJob;
use windlass_core::size::Caps;
use windlass_core::store::{ClaimAnswer, ClaimRequest, PROMOTE_MAX, QueueShare};
use windlass_core::{Fence, Name, State};

use crate::error::Fault;
use crate::leases::{self, Living};
use crate::session::Session;
use crate::{maintenance, row};

const READY: &str = include_str!("../../queries/jobs/ready.sql");
const CLAIMABLE: &str = include_str!("../../queries/jobs/claimable.sql");
const CLAIM: &str = include_str!("../../queries/jobs/claim.sql");

/// The fewest jobs to look at per kind when there are many kinds.
const GLANCE_MIN: usize = 8;

pub(super) fn claim(session: &Session<'_>, request: &ClaimRequest) -> Result<ClaimAnswer, Fault> {
    let Some(lease) = leases::living(session, request.lease)? else { return Ok(ClaimAnswer::LeaseLost) };
    let mut filling =
        Filling { request, lease, nonce: Fence::nonce(), jobs: Vec::new(), bytes: 0, is_full: false };
    let mut next_due: Option<Duration> = None;
    for share in &request.queues {
        let moved = maintenance::promote_queue(session, &share.queue, PROMOTE_MAX, PROMOTE_MAX)?;
        if moved.expired == PROMOTE_MAX && maintenance::has_expired(session, &share.queue)? {
            // More than one call moves: they could be next in turn, and must not be handed out.
            next_due = Some(Duration::ZERO);
            continue;
        }
        filling.fill_from(session, share)?;
        next_due = [next_due, maintenance::next_due(session, &share.queue)?].into_iter().flatten().min();
    }
    Ok(ClaimAnswer::Jobs { jobs: filling.jobs, next_due })
}

/// A claim that is being filled.
struct Filling<'a> {
    request: &'a ClaimRequest,
    lease: Living,
    nonce: u64,
    jobs: Vec<ClaimedJob>,
    bytes: usize,
    /// Whether a job did not fit. Nothing after it is handed out, or it would lose its turn.
    is_full: bool,
}

impl Filling<'_> {
    /// Takes jobs of one queue, in their turn.
    fn fill_from(&mut self, session: &Session<'_>, share: &QueueShare) -> Result<(), Fault> {
        let room = (self.request.limit as usize).saturating_sub(self.jobs.len());
        let wanted = room.min(share.limit as usize);
        if wanted == 0 || self.is_full {
            return Ok(());
        }
        let caps = session.config(&share.queue)?.caps;
        let mut line = Line::new(&share.queue, &self.request.kinds, wanted);
        let mut taken = 0;
        while taken < wanted && !self.is_full {
            let Some((kind, seq)) = line.next(session)? else { break };
            self.take(session, &share.queue, kind, seq, caps)?;
            taken += usize::from(!self.is_full);
        }
        session.moved(&share.queue, State::Ready, State::Running, taken);
        Ok(())
    }

    fn take(
        &mut self,
        session: &Session<'_>,
        queue: &Name,
        kind: &Name,
        seq: i64,
        caps: Caps,
    ) -> Result<(), Fault> {
        let mut claimable = session.prepare(CLAIMABLE)?;
        let mut rows = claimable.query([seq])?;
        let found = rows.next()?.ok_or_else(|| Fault::Corrupt(format!("job {seq} is in an index only")))?;
        let payload = row::bytes(found, 14)?;
        if !self.jobs.is_empty() && self.bytes.saturating_add(payload.len()) > self.request.bytes {
            self.is_full = true;
            return Ok(());
        }
        let mut facts = row::facts(found, 5, 10, 12)?;
        facts.counters.attempt = facts.counters.attempt.saturating_add(1);
        let fence = Fence { number: row::fence_number(found.get(4)?) + 1, nonce: self.nonce };
        self.bytes += payload.len();
        let job = ClaimedJob {
            id: row::job_id(found, 0)?,
            queue: queue.clone(),
            kind: kind.clone(),
            payload,
            priority: found.get(1)?,
            fence,
            timeout: found.get::<_, Option<i64>>(11)?.map(row::span),
            caps,
            tags: row::tags(found, 13)?,
            enqueued_at: row::time(found.get(3)?),
            due_at: row::time(found.get(2)?),
            claimed_at: session.now,
            facts,
        };
        session.prepare(CLAIM)?.execute(params![
            seq,
            row::to_stored(fence.number),
            job.facts.counters.attempt,
            row::to_stored(fence.nonce),
            session.now.as_micros(),
            self.lease.key,
            self.lease.worker,
        ])?;
        self.jobs.push(job);
        Ok(())
    }
}

/// Ready jobs of one queue in their turn, merged over kinds.
struct Line<'a> {
    queue: &'a Name,
    kinds: Vec<Kind<'a>>,
    glance: usize,
}

struct Kind<'a> {
    name: &'a Name,
    seen: VecDeque<Place>,
    /// Whether nothing waits behind what was seen.
    is_end_seen: bool,
}

/// The place of a ready job: by priority, then by due instant, then by acceptance.
type Place = (Reverse<i16>, i64, i64);

impl<'a> Line<'a> {
    fn new(queue: &'a Name, kinds: &'a [Name], wanted: usize) -> Self {
        let mut names: Vec<_> = kinds.iter().collect();
        names.sort_unstable();
        names.dedup();
        let glance = (2 * wanted / names.len().max(1)).max(GLANCE_MIN).min(wanted);
        let kinds =
            names.into_iter().map(|name| Kind { name, seen: VecDeque::new(), is_end_seen: false }).collect();
        Self { queue, kinds, glance }
    }

    /// The job whose turn it is. It must be taken before the next call.
    fn next(&mut self, session: &Session<'_>) -> Result<Option<(&'a Name, i64)>, Fault> {
        for kind in &mut self.kinds {
            if kind.seen.is_empty() && !kind.is_end_seen {
                kind.look(session, self.queue, self.glance)?;
            }
        }
        let first =
            self.kinds.iter_mut().filter(|kind| !kind.seen.is_empty()).min_by_key(|kind| kind.seen[0]);
        Ok(first.and_then(|kind| kind.seen.pop_front().map(|(_, _, seq)| (kind.name, seq))))
    }
}

impl Kind<'_> {
    fn look(&mut self, session: &Session<'_>, queue: &Name, glance: usize) -> Result<(), Fault> {
        let mut ready = session.prepare(READY)?;
        let mut rows = ready.query(params![queue.as_str(), self.name.as_str(), glance as i64])?;
        while let Some(row) = rows.next()? {
            self.seen.push_back((Reverse(row.get(1)?), row.get(2)?, row.get(0)?));
        }
        self.is_end_seen = self.seen.len() < glance;
        Ok(())
    }
}
