//! Enqueue: all of a call's jobs or none. Whether an id or the call itself is known is found out by the same statement that
//! stores the jobs (`accept` in `migrations/0003_inner.sql`), so a repeat costs no second call.

use std::collections::HashSet;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::store::{ClaimAnswer, Enqueued};
use windlass_core::{CallId, JobId, Name, StoreError};

use super::claim::Asking;
use super::handover::{OpenOffer, PendingClaim};
use crate::Tools;
use crate::connect::Effect;
use crate::definitions::{Current, ROUNDS};
use crate::error::Fault;
use crate::functions::{ENQUEUE, HAND_OVER};
use crate::row;
use crate::session::Session;
use crate::statement::Parameters;

pub(super) async fn enqueue(
    tools: &Tools,
    session: &Session,
    call: CallId,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let order = Order::of(jobs);
    let columns = Columns::of(&order);
    let calls = [Uuid::from_bytes(*call.as_bytes())];
    let calls: &[Uuid] = &calls;
    for _ in 0..ROUNDS {
        let definitions = tools.definitions.of(session, &tools.statements, queues(jobs)).await?;
        definitions.check_rules()?;
        let fits = fits(&order, &definitions);
        let mut parameters = columns.parameters(&definitions.version);
        parameters.push(&calls);
        parameters.push(&fits);
        let rows = columns.store(tools, session, &parameters, jobs).await?;
        match answers(&order, &definitions, said(&rows)?)? {
            Some(answers) => return Ok(answers),
            None => tools.definitions.forget(),
        }
    }
    Err(Fault::Defect("the definitions of queues never stand still".to_owned()))
}

/// What the call says when all jobs were stored.
const STORED: &str = "stored";

/// The answers, in the last column of the rows. Beside the jobs of a claim there is one answer for all.
fn said(rows: &[Row]) -> Result<Vec<&str>, Fault> {
    let mut said = rows.iter().map(|row| row::at(row, row.len() - 1)).collect::<Result<Vec<&str>, _>>()?;
    if said.first() == Some(&STORED) {
        said.truncate(1);
    }
    Ok(said)
}

/// The jobs of a call in the order of their ids, in which rows are locked everywhere, so that calls about the same
/// ids never wait for each other in a circle.
pub(crate) struct Order<'j> {
    jobs: Vec<&'j NewJob>,
    /// Where each of them stands in the call.
    places: Vec<usize>,
}

impl<'j> Order<'j> {
    pub(crate) fn of(jobs: &'j [NewJob]) -> Self {
        let mut places: Vec<usize> = (0..jobs.len()).collect();
        // Repeats of an id stay in their order.
        places.sort_by_key(|&place| jobs[place].id);
        Self { jobs: places.iter().map(|&place| &jobs[place]).collect(), places }
    }
}

/// Which payloads are within their cap, as 1 and 0.
pub(crate) fn fits(order: &Order<'_>, definitions: &Current) -> Vec<i64> {
    let fits = |job: &NewJob| job.check_payload(definitions.of(&job.queue).caps.payload).is_ok();
    order.jobs.iter().map(|job| i64::from(fits(job))).collect()
}

/// Reads the answers of `jobs/enqueue.sql`, in the order of the call; nothing when the definitions have changed.
pub(crate) fn answers(
    order: &Order<'_>,
    definitions: &Current,
    said: Vec<&str>,
) -> Result<Option<Vec<Enqueued>>, Fault> {
    let all = |answer| Ok(Some(vec![answer; order.jobs.len()]));
    match said[..] {
        ["stale"] => return Ok(None),
        [STORED] => return all(Enqueued::New),
        ["repeated"] => return all(Enqueued::Repeated),
        _ => {}
    }
    if said.len() != order.jobs.len() {
        return Err(Fault::Corrupt(format!("{} answers for {} jobs", said.len(), order.jobs.len())));
    }
    let mut said: Vec<_> = order.places.iter().zip(&order.jobs).zip(said).collect();
    // The first job of the call that something is wrong with names the refusal.
    said.sort_unstable_by_key(|((place, _), _)| **place);
    let answer = |((_, job), said): ((&usize, &&NewJob), &str)| match said.split_once(' ') {
        None if said == "new" => Ok(Enqueued::New),
        None if said == "taken" => Err(StoreError::IdTaken { id: job.id }.into()),
        None if said == "large" => {
            job.check_payload(definitions.of(&job.queue).caps.payload)?;
            Err(Fault::Corrupt("a payload that fits was called too large".to_owned()))
        }
        Some(("known", state)) if let Ok(code) = state.parse() => row::state(code).map(Enqueued::Existing),
        _ => Err(Fault::Corrupt(format!("job {} was answered with {said:?}", job.id))),
    };
    said.into_iter().map(answer).collect::<Result<_, _>>().map(Some)
}

/// Jobs as columns, one array each.
pub(crate) struct Columns<'j> {
    pub(crate) ids: Vec<Uuid>,
    pub(crate) places: Vec<i64>,
    pub(crate) queues: Vec<&'j str>,
    pub(crate) kinds: Vec<&'j str>,
    pub(crate) payloads: Vec<&'j [u8]>,
    pub(crate) priorities: Vec<i64>,
    pub(crate) delays: Vec<Option<i64>>,
    pub(crate) times: Vec<Option<i64>>,
    pub(crate) expiries: Vec<Option<i64>>,
    pub(crate) specs: Vec<Option<String>>,
    pub(crate) tags: Vec<Option<String>>,
}

impl<'j> Columns<'j> {
    pub(crate) fn of(order: &Order<'j>) -> Self {
        let jobs = &order.jobs;
        Self {
            ids: jobs.iter().map(|job| row::uuid(job.id)).collect(),
            places: order.places.iter().map(|&place| place as i64 + 1).collect(),
            queues: jobs.iter().map(|job| job.queue.as_str()).collect(),
            kinds: jobs.iter().map(|job| job.kind.as_str()).collect(),
            payloads: jobs.iter().map(|job| &job.payload[..]).collect(),
            priorities: jobs.iter().map(|job| i64::from(job.priority)).collect(),
            delays: jobs.iter().map(|job| job.due.delay().map(row::micros)).collect(),
            times: jobs.iter().map(|job| job.due.time().map(Timestamp::as_micros)).collect(),
            expiries: jobs.iter().map(|job| job.expires.map(row::micros)).collect(),
            specs: jobs.iter().map(|job| job.spec.text()).collect(),
            tags: jobs.iter().map(|job| row::stored_names(&job.tags)).collect(),
        }
    }

    /// The columns as parameters, in the order of the function; the call and what fits follow.
    fn parameters<'a>(&'a self, version: &'a i64) -> Vec<&'a (dyn ToSql + Sync)> {
        vec![
            version,
            &self.ids,
            &self.places,
            &self.queues,
            &self.kinds,
            &self.payloads,
            &self.priorities,
            &self.delays,
            &self.times,
            &self.expiries,
            &self.specs,
            &self.tags,
        ]
    }

    /// Stores the jobs, and rings for workers that wait.
    async fn store(
        &self,
        tools: &Tools,
        session: &Session,
        parameters: Parameters<'_>,
        jobs: &[NewJob],
    ) -> Result<Vec<Row>, Fault> {
        let ring = || tools.wakeups.ring_here(Rings::accepted(jobs));
        if tools.wakeups.is_heard(Topic::Work)
            && let Some((open_offer, pending)) = tools.handover.offer(jobs, ring).await
            && pending.is_wanted()
        {
            match self.hand_over(tools, session, parameters, jobs, open_offer, pending).await {
                // The claim may be the reason, and is none to refuse jobs.
                Err(fault) if fault.is_rolled_back() && !fault.spoils() => {}
                stored => return stored,
            }
        }
        let rows = tools.statements.run(session, &ENQUEUE, parameters).await?;
        if said(&rows)?.iter().any(|said| [STORED, "new"].contains(said)) {
            tools.ring(Rings::accepted(jobs));
        }
        Ok(rows)
    }

    /// Stores the jobs and makes a claim in one transaction.
    async fn hand_over(
        &self,
        tools: &Tools,
        session: &Session,
        enqueue: Parameters<'_>,
        jobs: &[NewJob],
        open_offer: OpenOffer<'_>,
        pending: PendingClaim,
    ) -> Result<Vec<Row>, Fault> {
        let asking = Asking::new(tools, &pending.request);
        let parameters = [enqueue, &asking.parameters()[..]].concat();
        let rows = match tools.statements.run(session, &HAND_OVER, &parameters).await {
            Ok(rows) => rows,
            Err(fault) => {
                if fault.is_rolled_back() {
                    pending.decline();
                }
                return Err(fault);
            }
        };
        let said = said(&rows)?;
        if said != [STORED] {
            pending.decline();
            if said.contains(&"new") {
                tools.ring(Rings::accepted(jobs));
            }
            return Ok(rows);
        }
        let everyone_here_knows = open_offer.arrive();
        let answer = asking.read(tools, session, &rows).await;
        let claimed: HashSet<JobId> = match &answer {
            Ok(ClaimAnswer::Jobs { jobs, .. }) => jobs.iter().map(|job| job.id).collect(),
            _ => HashSet::new(),
        };
        let left = Rings::accepted(jobs.iter().filter(|job| !claimed.contains(&job.id)));
        if !everyone_here_knows {
            tools.ring(left);
        } else if !left.is_empty() {
            tools.wakeups.ring_elsewhere(left);
        }
        pending.answer(answer.map_err(|fault| fault.into_error(Effect::Write)));
        Ok(rows)
    }
}

/// The queues that jobs go to.
pub(crate) fn queues(jobs: &[NewJob]) -> impl Iterator<Item = &Name> {
    jobs.iter().map(|job| &job.queue)
}
