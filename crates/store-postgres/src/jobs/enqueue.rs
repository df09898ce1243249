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
use crate::definitions::{Current, ROUNDS};
use crate::error::{Effect, Fault, spoils};
use crate::functions::{ENQUEUE, HAND_OVER};
use crate::row;
use crate::session::{Parameters, Session};

pub(super) async fn enqueue(
    tools: &Tools,
    session: &Session,
    call: CallId,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let call: &[Uuid] = &[Uuid::from_bytes(*call.as_bytes())];
    for _ in 0..ROUNDS {
        let definitions = tools.definitions.of(session, queues(jobs)).await?;
        let columns = Columns::of(jobs, &definitions)?;
        let parameters = columns.parameters(&definitions.version, &call);
        let rows = if tools.wakeups.is_heard(Topic::Work)
            && let Some(met) =
                tools.handover.offer(jobs, || tools.wakeups.ring_here(Rings::accepted(jobs))).await
            && let Some(rows) = columns.hand_over(tools, session, &parameters, jobs, met).await?
        {
            rows
        } else {
            let rows = session.call(&ENQUEUE, &parameters).await?;
            if said(&rows)?.iter().any(|said| [STORED, "new"].contains(said)) {
                tools.ring(Rings::accepted(jobs));
            }
            rows
        };
        match columns.answers(jobs, &definitions, said(&rows)?)? {
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

/// Jobs as columns, one array each, in the order of their ids: in that order rows are locked everywhere, so that calls
/// about the same ids never wait for each other in a circle.
pub(crate) struct Columns<'j> {
    pub(crate) ids: Vec<Uuid>,
    /// Where each of them stands in the call, counted from 1.
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
    /// Which payloads are within their cap, as 1 and 0.
    pub(crate) fits: Vec<i64>,
}

impl<'j> Columns<'j> {
    /// Fails when a queue uses a rule that this program does not know.
    pub(crate) fn of(jobs: &'j [NewJob], definitions: &Current) -> Result<Self, StoreError> {
        definitions.check_rules()?;
        let mut order: Vec<(usize, &NewJob)> = jobs.iter().enumerate().collect();
        // Repeats of an id stay in their order.
        order.sort_by_key(|(_, job)| job.id);
        let fits = |job: &NewJob| job.check_payload(definitions.of(&job.queue).caps.payload).is_ok();
        let each = || order.iter().map(|&(_, job)| job);
        Ok(Self {
            ids: each().map(|job| row::uuid(job.id)).collect(),
            places: order.iter().map(|&(place, _)| place as i64 + 1).collect(),
            queues: each().map(|job| job.queue.as_str()).collect(),
            kinds: each().map(|job| job.kind.as_str()).collect(),
            payloads: each().map(|job| &job.payload[..]).collect(),
            priorities: each().map(|job| i64::from(job.priority)).collect(),
            delays: each().map(|job| job.due.delay().map(row::micros)).collect(),
            times: each().map(|job| job.due.time().map(Timestamp::as_micros)).collect(),
            expiries: each().map(|job| job.expires.map(row::micros)).collect(),
            specs: each().map(|job| job.spec.text()).collect(),
            tags: each().map(|job| row::stored_names(&job.tags)).collect(),
            fits: each().map(|job| i64::from(fits(job))).collect(),
        })
    }

    /// The columns as parameters, in the order of the function.
    fn parameters<'a>(&'a self, version: &'a i64, call: &'a &'a [Uuid]) -> [&'a (dyn ToSql + Sync); 14] {
        [
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
            call,
            &self.fits,
        ]
    }

    /// Reads the answers of `jobs/enqueue.sql`, in the order of the call; nothing when the definitions have changed.
    pub(crate) fn answers(
        &self,
        jobs: &[NewJob],
        definitions: &Current,
        said: Vec<&str>,
    ) -> Result<Option<Vec<Enqueued>>, Fault> {
        let all = |answer| Ok(Some(vec![answer; jobs.len()]));
        match said[..] {
            ["stale"] => return Ok(None),
            [STORED] => return all(Enqueued::New),
            ["repeated"] => return all(Enqueued::Repeated),
            _ => {}
        }
        if said.len() != jobs.len() {
            return Err(Fault::Corrupt(format!("{} answers for {} jobs", said.len(), jobs.len())));
        }
        let mut said: Vec<_> = self.places.iter().zip(said).collect();
        // The first job of the call that something is wrong with names the refusal.
        said.sort_unstable_by_key(|(place, _)| **place);
        let answer = |(job, (_, said)): (&NewJob, (&i64, &str))| match said.split_once(' ') {
            None if said == "new" => Ok(Enqueued::New),
            None if said == "taken" => Err(StoreError::IdTaken { id: job.id }.into()),
            None if said == "large" => {
                job.check_payload(definitions.of(&job.queue).caps.payload)?;
                Err(Fault::Corrupt("a payload that fits was called too large".to_owned()))
            }
            Some(("known", state)) if let Ok(code) = state.parse() => {
                row::state(code).map(Enqueued::Existing)
            }
            _ => Err(Fault::Corrupt(format!("job {} was answered with {said:?}", job.id))),
        };
        jobs.iter().zip(said).map(answer).collect::<Result<_, _>>().map(Some)
    }

    /// Stores the jobs and makes a claim in one transaction; nothing if that has come to nothing, for the claim may be
    /// the reason, and is none to refuse jobs.
    async fn hand_over(
        &self,
        tools: &Tools,
        session: &Session,
        enqueue: Parameters<'_>,
        jobs: &[NewJob],
        (open_offer, pending): (OpenOffer<'_>, PendingClaim),
    ) -> Result<Option<Vec<Row>>, Fault> {
        if !pending.is_wanted() {
            return Ok(None);
        }
        let asking = Asking::new(tools, &pending.request);
        let parameters = [enqueue, &asking.parameters()[..]].concat();
        let rows = match session.call(&HAND_OVER, &parameters).await {
            Ok(rows) => rows,
            Err(fault) if fault.is_rolled_back() => {
                pending.decline();
                return if spoils(&fault) { Err(fault) } else { Ok(None) };
            }
            Err(fault) => return Err(fault),
        };
        let said = said(&rows)?;
        if said != [STORED] {
            pending.decline();
            if said.contains(&"new") {
                tools.ring(Rings::accepted(jobs));
            }
            return Ok(Some(rows));
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
        Ok(Some(rows))
    }
}

/// The queues that jobs go to.
pub(crate) fn queues(jobs: &[NewJob]) -> impl Iterator<Item = &Name> {
    jobs.iter().map(|job| &job.queue)
}
