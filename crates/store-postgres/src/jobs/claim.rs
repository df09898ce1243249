//! The claim: what is due becomes ready, and whose turn it is becomes running, in one statement.

mod floor;
mod keys;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::Timestamp;
use windlass_core::job::ClaimedJob;
use windlass_core::queue::RULES;
use windlass_core::size::Caps;
use windlass_core::store::{ClaimAnswer, ClaimRequest, PROMOTE_MAX, SickQueue};
use windlass_core::{Fence, Name, StoreErrorKind};

use crate::Tools;
use crate::error::Fault;
use crate::functions::{CLAIM, CLAIM_ONE};
use crate::row::{self, at};
use crate::session::Session;
pub(crate) use floor::Floors;
use floor::{Beginning, Met};
use keys::Order;

pub(super) async fn claim(
    tools: &Tools,
    session: &Session,
    request: &ClaimRequest,
) -> Result<ClaimAnswer, Fault> {
    let asking = Asking::new(tools, request);
    let rows = match asking.one() {
        Some(parameters) => session.call(&CLAIM_ONE, &parameters).await,
        None => session.call(&CLAIM, &asking.all()).await,
    };
    let rows = match rows {
        Err(Fault::Server(error)) if error.code == LEASE_LOST => return Ok(ClaimAnswer::LeaseLost),
        rows => rows?,
    };
    asking.read(tools, session, &rows).await
}

/// A claim as parameters, and what its answer is read with.
pub(super) struct Asking<'r> {
    request: &'r ClaimRequest,
    began: Instant,
    beginning: Beginning,
    lease: Uuid,
    stored_nonce: i64,
    queues: Vec<&'r str>,
    shares: Vec<i64>,
    /// In their order.
    kinds: Vec<&'r str>,
    /// The same.
    names: Vec<&'r Name>,
    limit: i64,
    at_once: i64,
    bytes: i64,
    /// By which the first queue is known to have no rules; nothing where it has some.
    definitions: Option<i64>,
}

/// What a claim fails with whose lease was lost when jobs had passed gates.
const LEASE_LOST: &str = "WL005";

/// How many expired and how many due jobs a claim moves per queue, at most.
const MOVE_MAX: i64 = PROMOTE_MAX as i64;

impl<'r> Asking<'r> {
    pub(super) fn new(tools: &Tools, request: &'r ClaimRequest) -> Self {
        let mut names: Vec<_> = request.kinds.iter().collect();
        names.sort_unstable();
        names.dedup();
        Self {
            request,
            began: Instant::now(),
            beginning: tools.floors.beginning(request),
            lease: row::lease_uuid(request.lease),
            stored_nonce: row::to_stored(request.nonce),
            queues: request.queues.iter().map(|share| share.queue.as_str()).collect(),
            shares: request.queues.iter().map(|share| i64::from(share.limit)).collect(),
            kinds: names.iter().map(|name| name.as_str()).collect(),
            names,
            limit: i64::from(request.limit),
            at_once: i64::from(request.at_once),
            bytes: i64::try_from(request.bytes).unwrap_or(i64::MAX),
            definitions: request
                .queues
                .first()
                .and_then(|share| tools.definitions.version_without_rules(&share.queue)),
        }
    }

    /// The parameters of `jobs/claim.sql`.
    pub(super) fn all(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.lease,
            &self.stored_nonce,
            &self.queues,
            &self.shares,
            &self.kinds,
            &self.limit,
            &self.bytes,
            &MOVE_MAX,
            &self.beginning.moved_to,
            &self.beginning.queues,
            &self.beginning.priorities,
            &self.beginning.dues,
            &self.at_once,
        ]
    }

    /// The parameters of `jobs/claim/one.sql`, if that is for this claim: no queue with rules, as far as is known.
    pub(super) fn one(&self) -> Option<[&(dyn ToSql + Sync); 11]> {
        const NO_KIND: &Option<&str> = &None;
        const NO_KINDS: &[&str] = &[];
        let ([queue], [share], [moved_to]) =
            (&self.queues[..], &self.shares[..], &self.beginning.moved_to[..])
        else {
            return None;
        };
        if !self.beginning.queues.is_empty() || self.kinds.is_empty() || self.limit.min(*share) == 0 {
            return None;
        }
        let (kind, kinds): (&(dyn ToSql + Sync), &(dyn ToSql + Sync)) =
            if let [kind] = &self.kinds[..] { (kind, &NO_KINDS) } else { (NO_KIND, &self.kinds) };
        let limit = (&self.limit).min(share);
        let (bytes, definitions) = (&self.bytes, self.definitions.as_ref()?);
        Some([
            &self.lease,
            &self.stored_nonce,
            queue,
            kind,
            kinds,
            limit,
            bytes,
            &MOVE_MAX,
            moved_to,
            definitions,
            &self.at_once,
        ])
    }

    /// Reads what the server answered.
    pub(super) async fn read(
        &self,
        tools: &Tools,
        session: &Session,
        rows: &[Row],
    ) -> Result<ClaimAnswer, Fault> {
        let request = self.request;
        let Some((end, jobs)) = rows.split_last() else {
            return Err(Fault::Corrupt("a claim gave no row".to_owned()));
        };
        if at::<&str>(end, 0)? == "lost" {
            return Ok(ClaimAnswer::LeaseLost);
        }
        let next_due = at::<Option<i64>>(end, 15)?.map(row::span);
        let claimed_at = row::time(at(end, 16)?);
        if at::<i64>(end, 7)? > 0 {
            tools.ring(Rings::about(Topic::Finish));
        }
        let met = Met {
            looked_at: at(end, 8)?,
            took: self.began.elapsed(),
            moved_to: next_due.is_none_or(|span| !span.is_zero()).then_some(claimed_at),
            is_locked: at::<i64>(end, 9)? > 0,
        };
        let learn = |jobs: &[ClaimedJob]| {
            let again = tools.floors.learn(request, &self.beginning, jobs, met);
            [next_due, again].into_iter().flatten().min()
        };
        let rules = row::rules(at(end, 10)?);
        if jobs.is_empty() && rules == 0 {
            return Ok(ClaimAnswer::jobs(Vec::new(), learn(&[])));
        }
        tools.definitions.expect(at(end, 1)?);
        let names = request.queues.iter().map(|share| &share.queue);
        // The jobs are claimed by now: a caller that is not told of them must hear that they may be.
        let definitions = tools.definitions.of(session, names).await.map_err(Fault::partial)?;
        let places = request.queues.iter().enumerate().map(|(place, share)| (share.queue.as_str(), place));
        let places = places.collect();
        let order = Order::read(at(end, 13)?, at(end, 12)?).map_err(Fault::partial)?;
        let reading = Reading { request, kinds: &self.names, claimed_at, places, order };
        let (mut claimed, mut unreadable) = (Vec::with_capacity(jobs.len()), Vec::new());
        for found in jobs {
            let place = reading.place(found).map_err(Fault::partial)?;
            let queue = &request.queues[place.queue].queue;
            match reading.job(found, queue, definitions.of(queue).caps) {
                Ok(Some(job)) => claimed.push((place, job)),
                // It is said of this job alone: the others are handed out.
                Ok(None) | Err(_) => {
                    let fence = reading.fence(found).map_err(Fault::partial)?;
                    let job = row::job::unreadable(found, fence, queue, at(end, 4)?);
                    unreadable.push(job.map_err(Fault::partial)?);
                }
            }
        }
        claimed.sort_by_key(|(place, _)| *place);
        let jobs: Vec<_> = claimed.into_iter().map(|(_, job)| job).collect();
        let next_due = learn(&jobs);
        let sick = definitions.unknown().map(|(queue, error)| SickQueue {
            queue: queue.clone(),
            what: error.to_string(),
            kind: StoreErrorKind::Unavailable,
        });
        let sick = if rules > RULES { sick.collect() } else { Vec::new() };
        let limited = if rules > 0 { definitions.limited() } else { Vec::new() };
        let ample = at::<Option<&str>>(end, 3)?.unwrap_or_default();
        let ample = limited.iter().filter(|queue| ample.split(',').any(|name| name == queue.as_str()));
        let ample = ample.cloned().collect();
        Ok(ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited, ample })
    }
}

/// The order in which jobs should start: queues as requested, then as the claim says, or by turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    queue: usize,
    said: Option<usize>,
    priority: Reverse<i16>,
    due_at: Timestamp,
    seq: i64,
}

struct Reading<'r> {
    request: &'r ClaimRequest,
    /// In their order.
    kinds: &'r [&'r Name],
    claimed_at: Timestamp,
    /// The places of the queues in the request.
    places: HashMap<&'r str, usize>,
    order: Order,
}

impl Reading<'_> {
    fn place(&self, found: &Row) -> Result<Place, Fault> {
        let queue: &str = at(found, 3)?;
        let place = self.places.get(queue);
        let seq = at(found, 1)?;
        Ok(Place {
            queue: *place.ok_or_else(|| Fault::Corrupt(format!("a claim named queue {queue}")))?,
            said: self.order.place(seq),
            priority: Reverse(at(found, 6)?),
            due_at: row::time(at(found, 15)?),
            seq,
        })
    }

    fn fence(&self, found: &Row) -> Result<Fence, Fault> {
        Ok(Fence { number: row::number(at(found, 7)?), nonce: self.request.nonce })
    }

    /// Nothing for a job in a form that a newer program has written.
    fn job(&self, found: &Row, queue: &Name, caps: Caps) -> Result<Option<ClaimedJob>, Fault> {
        if !row::job::is_known_form(found)? {
            return Ok(None);
        }
        let kind: &str = at(found, 4)?;
        let known = self.kinds.binary_search_by(|name| name.as_str().cmp(kind));
        Ok(Some(ClaimedJob {
            id: row::job_id(found, 2)?,
            queue: queue.clone(),
            kind: known.map_or_else(|_| row::name(found, 4), |place| Ok(self.kinds[place].clone()))?,
            payload: row::bytes(found, 5)?,
            priority: at(found, 6)?,
            key: self.order.key(at(found, 1)?)?,
            fence: self.fence(found)?,
            facts: row::facts(found, 8, 12)?,
            caps,
            tags: row::names(found, 13)?,
            enqueued_at: row::time(at(found, 14)?),
            due_at: row::time(at(found, 15)?),
            claimed_at: self.claimed_at,
        }))
    }
}
