//! Enqueue: all of a call's jobs or none. Whether an id or the call itself is known is found out by the same statement that
//! stores the jobs (`accept` in `migrations/0012_held.sql`), so a repeat costs no second call.

mod alike;

use std::collections::HashSet;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::Timestamp;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::store::{ClaimAnswer, Enqueued};
use windlass_core::unique::OnConflict;
use windlass_core::{CallId, JobId, Name, StoreError};

use self::alike::Alike;
use super::claim::Asking;
use super::handover::{OpenOffer, PendingClaim};
use super::unique::{self, Keys};
use crate::Tools;
use crate::definitions::{Current, ROUNDS};
use crate::error::{Effect, Fault, spoils};
use crate::functions::{ENQUEUE, ENQUEUE_ALIKE, ENQUEUE_ANY, ENQUEUE_ONE, HAND_OVER, HAND_OVER_ONE};
use crate::row;
use crate::session::Session;

pub(super) async fn enqueue(
    tools: &Tools,
    session: &Session,
    call: CallId,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let calls: &[Uuid] = &[Uuid::from_bytes(*call.as_bytes())];
    for _ in 0..ROUNDS {
        let definitions = tools.definitions.of(session, queues(jobs)).await?;
        let columns = Columns::of(jobs, &definitions)?;
        let is_one = columns.are_short(jobs);
        let call = Call { columns: &columns, is_one, version: definitions.version, calls };
        // Rules may leave nothing to hand over.
        let rows = if tools.wakeups.is_heard(Topic::Work)
            && !definitions.have_rules()
            && let Some(met) =
                tools.handover.offer(jobs, || tools.wakeups.ring_here(Rings::accepted(jobs))).await
            && let Some(rows) = call.hand_over(tools, session, jobs, met).await?
        {
            rows
        } else {
            let is_told = tools.wakeups.ring_behind(session, rings(jobs));
            let rows = call.enqueue(session).await?;
            if !is_told && said(&rows)?.into_iter().any(is_heard) {
                tools.ring(rings(jobs));
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

/// Whether a worker may have something to do, by the answer for a job. A holder that was replaced may be due earlier.
pub(crate) fn is_heard(said: &str) -> bool {
    [STORED, "new"].contains(&said) || said.starts_with("replaced ")
}

/// What is owed for jobs that are accepted: nothing for those that are held, unless one may put the holder of its unique key
/// forward.
pub(crate) fn rings<'j>(jobs: impl IntoIterator<Item = &'j NewJob>) -> Rings {
    let is_rung = |job: &&NewJob| job.due != Due::Held || job.on_conflict != OnConflict::Keep;
    Rings::accepted(jobs.into_iter().filter(is_rung))
}

/// The delay that tells `accept` that a job is held.
const HELD: i64 = -1;

fn delay(due: &Due) -> Option<i64> {
    if *due == Due::Held { Some(HELD) } else { due.delay().map(row::micros) }
}

/// The answers, in the last column of the rows. Beside the jobs of a claim there is one answer for all.
fn said(rows: &[Row]) -> Result<Vec<&str>, Fault> {
    let mut said = rows.iter().map(|row| row::at(row, row.len() - 1)).collect::<Result<Vec<&str>, _>>()?;
    if said.first() == Some(&STORED) {
        said.truncate(1);
    }
    Ok(said)
}

/// Jobs as columns, one array each, in the order of their ids: in that order rows are locked everywhere, so that calls
/// about the same ids never wait for each other in a circle. What all of them have is said once, and defaults are not said;
/// see `accept` in `migrations/0012_held.sql`.
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
    pub(crate) keys: Keys,
    /// The keys that they take turns by.
    pub(crate) lines: Vec<Option<String>>,
    /// Whether a queue of them has a capacity.
    pub(crate) have_capacity: bool,
}

impl<'j> Columns<'j> {
    /// Fails when a queue uses a rule that this program does not know.
    pub(crate) fn of(jobs: &'j [NewJob], definitions: &Current) -> Result<Self, StoreError> {
        definitions.check_rules()?;
        Ok(Self::of_each(jobs, definitions))
    }

    /// The same, but a job for such a queue is told not to fit.
    pub(crate) fn of_each(jobs: impl IntoIterator<Item = &'j NewJob>, definitions: &Current) -> Self {
        let mut order: Vec<(usize, &NewJob)> = jobs.into_iter().enumerate().collect();
        // Repeats of an id stay in their order.
        order.sort_by_key(|(_, job)| job.id);
        let unknown: Vec<&Name> = definitions.unknown().map(|(queue, _)| queue).collect();
        let fits = |job: &NewJob| {
            job.check_payload(definitions.of(&job.queue).caps.payload).is_ok()
                && !unknown.contains(&&job.queue)
        };
        let each = || order.iter().map(|&(_, job)| job);
        let is_in_order = order.iter().enumerate().all(|(index, &(place, _))| index == place);
        let places = if is_in_order { &[] } else { &order[..] };
        let keys = Keys::of(each());
        let lines = unless_all(None, each().map(|job| job.key.as_ref().map(|key| key.as_str().to_owned())));
        Self {
            ids: each().map(|job| row::uuid(job.id)).collect(),
            places: places.iter().map(|&(place, _)| place as i64 + 1).collect(),
            queues: one_for_all(each().map(|job| job.queue.as_str())),
            kinds: one_for_all(each().map(|job| job.kind.as_str())),
            payloads: each().map(|job| &job.payload[..]).collect(),
            priorities: unless_all(0, each().map(|job| i64::from(job.priority))),
            delays: unless_all(None, each().map(|job| delay(&job.due))),
            times: unless_all(None, each().map(|job| job.due.time().map(Timestamp::as_micros))),
            expiries: unless_all(None, each().map(|job| job.expires.map(row::micros))),
            specs: unless_all(None, each().map(|job| job.spec.text())),
            tags: unless_all(None, each().map(|job| row::stored_names(&job.tags))),
            fits: unless_all(1, each().map(|job| i64::from(fits(job)))),
            keys,
            lines,
            have_capacity: definitions.have_capacity(),
        }
    }

    /// Whether `jobs/enqueue_any.sql` is for them: one has a key of any kind, or a queue has a capacity.
    pub(crate) fn are_general(&self) -> bool {
        !self.keys.is_empty() || !self.lines.is_empty() || self.have_capacity
    }

    /// Whether they are one job that the short form is for.
    fn are_short(&self, jobs: &[NewJob]) -> bool {
        matches!(jobs, [job] if job.is_plain()) && self.fits.is_empty() && !self.are_general()
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
        if let [said] = said[..]
            && let Some(refusal) = refusal(said)
        {
            return Err(refusal);
        }
        if said.len() != jobs.len() {
            return Err(Fault::Corrupt(format!("{} answers for {} jobs", said.len(), jobs.len())));
        }
        // The first job of the call that something is wrong with names the refusal.
        let answer = |(job, said)| answer(job, definitions, said);
        jobs.iter().zip(self.in_order(said)).map(answer).collect::<Result<_, _>>().map(Some)
    }

    /// What is said of each job, in the order of the call.
    pub(crate) fn in_order<T>(&self, said: Vec<T>) -> impl Iterator<Item = T> {
        let in_order = 1..=said.len() as i64;
        let places = if self.places.is_empty() { in_order.collect() } else { self.places.clone() };
        let mut said: Vec<_> = places.into_iter().zip(said).collect();
        said.sort_unstable_by_key(|(place, _)| *place);
        said.into_iter().map(|(_, said)| said)
    }
}

/// What `accept` says of one job.
pub(crate) fn answer(job: &NewJob, definitions: &Current, said: &str) -> Result<Enqueued, Fault> {
    match said.split_once(' ') {
        _ if let Some(met) = unique::met(said) => met,
        None if said == "new" => Ok(Enqueued::New),
        None if said == "taken" => Err(StoreError::IdTaken { id: job.id }.into()),
        None if said == "large" => {
            definitions.check_rules_of(&job.queue)?;
            job.check_payload(definitions.of(&job.queue).caps.payload)?;
            Err(Fault::Corrupt("a payload that fits was called too large".to_owned()))
        }
        Some(("known", state)) if let Ok(code) = state.parse() => row::state(code).map(Enqueued::Existing),
        _ => Err(Fault::Corrupt(format!("job {} was answered with {said:?}", job.id))),
    }
}

/// Why a call was refused as a whole, if so: `keyless` and the queue that takes no keys, or `full`, how many jobs wait, how many
/// may, and the queue.
pub(crate) fn refusal(said: &str) -> Option<Fault> {
    let misread = || Fault::Corrupt(format!("a call was answered with {said:?}"));
    let queue = |text: &str| Name::new(text).map_err(|_| misread());
    let full = |words: &[&str]| match words {
        [waiting, capacity, name] => Ok(StoreError::QueueFull {
            queue: queue(name)?,
            capacity: capacity.parse().map_err(|_| misread())?,
            waiting: waiting.parse().map_err(|_| misread())?,
        }),
        _ => Err(misread()),
    };
    let words: Vec<_> = said.split(' ').collect();
    match words[..] {
        ["keyless", name] => Some(queue(name).map(|queue| StoreError::NoKeys { queue })),
        ["full", ref rest @ ..] => Some(full(rest)),
        _ => None,
    }
    .map(|refusal| refusal.map_or_else(|fault| fault, Fault::from))
}

/// A column in which one element stands for all.
pub(crate) fn one_for_all<T: PartialEq>(column: impl Iterator<Item = T>) -> Vec<T> {
    let mut column: Vec<_> = column.collect();
    if column.iter().all(|element| *element == column[0]) {
        column.truncate(1);
    }
    column
}

/// A column, or nothing where all have the default.
pub(crate) fn unless_all<T: PartialEq>(default: T, column: impl Iterator<Item = T>) -> Vec<T> {
    let column: Vec<_> = column.collect();
    if column.iter().all(|element| *element == default) { Vec::new() } else { column }
}

/// What is said to the server.
pub(crate) struct Call<'a> {
    pub(crate) columns: &'a Columns<'a>,
    /// In the short form, for one plain job.
    pub(crate) is_one: bool,
    pub(crate) version: i64,
    pub(crate) calls: &'a [Uuid],
}

impl Call<'_> {
    async fn enqueue(&self, session: &Session) -> Result<Vec<Row>, Fault> {
        if self.is_one {
            return session.call(&ENQUEUE_ONE, &self.one()).await;
        }
        if let Some(alike) = Alike::of(self.columns) {
            return session.call(&ENQUEUE_ALIKE, &alike.values(&self.version, &self.calls[0])).await;
        }
        if !self.columns.are_general() {
            return session.call(&ENQUEUE, &self.all()).await;
        }
        let digests = self.columns.keys.texts();
        session.call(&ENQUEUE_ANY, &[&self.all()[..], &self.keys(&digests)].concat()).await
    }

    /// The parameters of `jobs/enqueue.sql`.
    pub(crate) fn all(&self) -> [&(dyn ToSql + Sync); 14] {
        let Columns {
            ids,
            places,
            queues,
            kinds,
            payloads,
            priorities,
            delays,
            times,
            expiries,
            specs,
            tags,
            fits,
            keys: _,
            lines: _,
            have_capacity: _,
        } = self.columns;
        [
            &self.version,
            ids,
            places,
            queues,
            kinds,
            payloads,
            priorities,
            delays,
            times,
            expiries,
            specs,
            tags,
            &self.calls,
            fits,
        ]
    }

    /// Those of `jobs/enqueue_any.sql` that follow, with the digests of unique keys as it takes them.
    pub(crate) fn keys<'a>(&'a self, digests: &'a Vec<Option<String>>) -> [&'a (dyn ToSql + Sync); 5] {
        let Columns { keys, lines, .. } = self.columns;
        [digests, &keys.lifetimes, &keys.conflicts, &keys.waits, lines]
    }

    /// The parameters of `jobs/enqueue_one.sql`.
    fn one(&self) -> [&(dyn ToSql + Sync); 9] {
        const NO_TEXT: &Option<String> = &None;
        let Columns { ids, queues, kinds, payloads, priorities, specs, tags, .. } = self.columns;
        [
            &self.version,
            &ids[0],
            &queues[0],
            &kinds[0],
            &payloads[0],
            priorities.first().unwrap_or(&0),
            specs.first().unwrap_or(NO_TEXT),
            tags.first().unwrap_or(NO_TEXT),
            &self.calls[0],
        ]
    }

    /// Stores the jobs and makes a claim in one transaction; nothing if that has come to nothing, for the claim may be
    /// the reason, and is none to refuse jobs.
    async fn hand_over(
        &self,
        tools: &Tools,
        session: &Session,
        jobs: &[NewJob],
        (open_offer, pending): (OpenOffer<'_>, PendingClaim),
    ) -> Result<Option<Vec<Row>>, Fault> {
        if !pending.is_wanted() {
            return Ok(None);
        }
        let asking = Asking::new(tools, &pending.request);
        let answer = match asking.one().filter(|_| self.is_one) {
            Some(claim) => session.call(&HAND_OVER_ONE, &[&self.one()[..], &claim].concat()).await,
            None => session.call(&HAND_OVER, &[&self.all()[..], &asking.all()].concat()).await,
        };
        let rows = match answer {
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

#[cfg(test)]
mod tests {
    use windlass_core::Options;
    use windlass_core::unique::Unique;

    use super::*;

    #[test]
    fn nothing_rings_for_a_job_that_is_held() {
        let job = |due, options| {
            let mut job = NewJob::new("k", "", options).unwrap();
            job.due = due;
            job
        };
        let unique = Options::new().unique(Unique::key("u").replace());
        assert!(rings(&[job(Due::Held, Options::new())]).is_empty());
        assert!(!rings(&[job(Due::Held, Options::new()), job(Due::Now, Options::new())]).is_empty());
        assert!(!rings(&[job(Due::Held, unique)]).is_empty(), "the holder may be due earlier");
    }
}
