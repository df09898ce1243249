//! Enqueue: all of a call's jobs or none.
//!
//! A fresh id is the rule, so jobs are inserted without asking first. When an id or the call itself turns out to be known,
//! or a payload too large, the call is made again in the way that looks at each job.

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::Timestamp;
use windlass_core::job::{ClaimedJob, NewJob};
use windlass_core::store::{ClaimAnswer, Enqueued};
use windlass_core::{CallId, Name, StoreError};

use super::claim::Asking;
use super::handover::{OpenOffer, PendingClaim};
use crate::Tools;
use crate::connect::Effect;
use crate::definitions::{Current, ROUNDS};
use crate::error::Fault;
use crate::functions::{ENQUEUE, ENQUEUE_EACH, HAND_OVER};
use crate::row;
use crate::session::Session;
use crate::statement::Parameters;

/// What is raised when an id, of a job or of the call, is not new: `unique_violation`.
const TAKEN: &str = "23505";

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
    let call = Uuid::from_bytes(*call.as_bytes());
    let mut is_plain = true;
    for _ in 0..ROUNDS {
        let definitions = tools.definitions.of(session, &tools.statements, queues(jobs)).await?;
        let fits = fits(&order, &definitions);
        if is_plain && !fits.contains(&0) {
            match columns.store(tools, session, definitions.version, &call, jobs).await? {
                Stored::Yes => return Ok(vec![Enqueued::New; jobs.len()]),
                Stored::Taken => is_plain = false,
                Stored::Stale => tools.definitions.forget(),
            }
            continue;
        }
        let mut parameters = columns.parameters(&definitions.version);
        let calls = [call];
        let calls: &[Uuid] = &calls;
        parameters.push(&calls);
        parameters.push(&fits);
        let rows = tools.statements.run(session, &ENQUEUE_EACH, &parameters).await?;
        let said = rows.iter().map(|row| Ok((row::at(row, 0)?, row::at(row, 1)?)));
        match answers(&order, &definitions, said.collect::<Result<Vec<(&str, Option<i64>)>, Fault>>()?)? {
            Some(answers) => {
                if answers.contains(&Enqueued::New) {
                    tools.ring(Rings::about(Topic::Work));
                }
                return Ok(answers);
            }
            None => tools.definitions.forget(),
        }
    }
    Err(Fault::Defect("the definitions of queues never stand still".to_owned()))
}

/// What the short way in answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stored {
    Yes,
    Taken,
    Stale,
}

impl Stored {
    /// Reads it in the last column of any row.
    fn read(rows: Result<Vec<Row>, Fault>) -> Result<(Self, Vec<Row>), Fault> {
        match rows {
            Err(fault) if fault.code() == Some(TAKEN) => Ok((Self::Taken, Vec::new())),
            Err(fault) => Err(fault),
            Ok(rows) => {
                let row = rows.first().ok_or_else(|| Fault::Corrupt("an enqueue gave no row".to_owned()))?;
                let stored =
                    if row::at::<&str>(row, row.len() - 1)? == "stored" { Self::Yes } else { Self::Stale };
                Ok((stored, rows))
            }
        }
    }
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

/// Reads the answer of `jobs/enqueue_each.sql`, in the order of the call; nothing when the definitions have changed.
pub(crate) fn answers(
    order: &Order<'_>,
    definitions: &Current,
    rows: Vec<(&str, Option<i64>)>,
) -> Result<Option<Vec<Enqueued>>, Fault> {
    match rows[..] {
        [("stale", _)] => return Ok(None),
        [("repeated", _)] => return Ok(Some(vec![Enqueued::Repeated; order.jobs.len()])),
        _ => {}
    }
    if rows.len() != order.jobs.len() {
        return Err(Fault::Corrupt(format!("{} answers for {} jobs", rows.len(), order.jobs.len())));
    }
    let mut said: Vec<_> = order.places.iter().zip(&order.jobs).zip(rows).collect();
    // The first job of the call that something is wrong with names the refusal.
    said.sort_unstable_by_key(|((place, _), _)| **place);
    let answer = |((_, job), (said, state)): ((&usize, &&NewJob), (&str, Option<i64>))| match said {
        "new" => Ok(Enqueued::New),
        "known" => {
            let state = state.ok_or_else(|| Fault::Corrupt(format!("job {} stands nowhere", job.id)))?;
            row::state(state).map(Enqueued::Existing)
        }
        "taken" => Err(StoreError::IdTaken { id: job.id }.into()),
        _ => {
            job.check_payload(definitions.of(&job.queue).caps.payload)?;
            Err(Fault::Corrupt(format!("a payload that fits was answered with {said:?}")))
        }
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

    /// The columns as parameters, in the order of the functions; the call follows.
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

    /// The short way in, and the ring for whoever waits.
    async fn store(
        &self,
        tools: &Tools,
        session: &Session,
        version: i64,
        call: &Uuid,
        jobs: &[NewJob],
    ) -> Result<Stored, Fault> {
        let work = Rings::about(Topic::Work);
        let mut parameters = self.parameters(&version);
        parameters.push(call);
        let ring = || tools.wakeups.ring_here(work);
        if tools.wakeups.is_heard(Topic::Work)
            && let Some((open_offer, pending)) = tools.handover.offer(jobs, ring).await
            && pending.is_wanted()
        {
            match self.hand_over(tools, session, &parameters, open_offer, pending).await {
                // The claim may be the reason, and is none to refuse jobs.
                Err(fault) if fault.is_rolled_back() && !fault.spoils() => {}
                stored => return stored,
            }
        }
        let rows = tools.statements.run(session, &ENQUEUE, &parameters).await;
        let (stored, _) = Stored::read(rows)?;
        if stored == Stored::Yes {
            tools.ring(work);
        }
        Ok(stored)
    }

    /// Stores the jobs and makes a claim in one transaction.
    async fn hand_over(
        &self,
        tools: &Tools,
        session: &Session,
        enqueue: Parameters<'_>,
        open_offer: OpenOffer<'_>,
        pending: PendingClaim,
    ) -> Result<Stored, Fault> {
        let asking = Asking::new(tools, &pending.request);
        let parameters = [enqueue, &asking.parameters()[..]].concat();
        let rows = tools.statements.run(session, &HAND_OVER, &parameters).await;
        let rows = match Stored::read(rows) {
            Ok((Stored::Yes, rows)) => rows,
            Ok((stored, _)) => {
                pending.decline();
                return Ok(stored);
            }
            Err(fault) => {
                if fault.is_rolled_back() {
                    pending.decline();
                }
                return Err(fault);
            }
        };
        let everyone_here_knows = open_offer.arrive();
        let answer = asking.read(tools, session, &rows).await;
        let work = Rings::about(Topic::Work);
        if !everyone_here_knows {
            tools.ring(work);
        } else if !matches!(&answer, Ok(ClaimAnswer::Jobs { jobs, .. }) if self.are_all_among(jobs)) {
            tools.wakeups.ring_elsewhere(work);
        }
        pending.answer(answer.map_err(|fault| fault.into_error(Effect::Write)));
        Ok(Stored::Yes)
    }

    fn are_all_among(&self, claimed: &[ClaimedJob]) -> bool {
        let ours = claimed.iter().filter(|job| self.ids.binary_search(&row::uuid(job.id)).is_ok());
        ours.count() == self.ids.len()
    }
}

/// The queues that jobs go to.
pub(crate) fn queues(jobs: &[NewJob]) -> impl Iterator<Item = &Name> {
    jobs.iter().map(|job| &job.queue)
}
