//! A run of writes of attempts as the parameters of one function, and what the server says of it. See
//! `queries/records/follow.sql`.

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::State;
use windlass_core::job::NewJob;
use windlass_core::record::RecordWrite;
use windlass_core::store::{AttemptWrite, Right, Settlement};

use super::changes::Changes;
use crate::definitions::Current;
use crate::error::Fault;
use crate::functions::FOLLOW;
use crate::jobs::enqueue::{Call, Columns, one_for_all};
use crate::jobs::settle::{Outcomes, Writes, is_plain};
use crate::row::{self, at};
use crate::session::Session;

/// A write of an attempt that is on its way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    /// Where it stands in the call.
    pub(super) place: usize,
    /// Not where its attempt is asked to stop and would be put back.
    pub(super) is_followed: bool,
}

/// Writes that go together. Its own numbers for them, `usize`, are their places in the run.
pub(super) struct Batch<'a> {
    right: Right,
    definitions: &'a Current,
    run: Vec<(Planned, &'a AttemptWrite)>,
    /// The same by ascending id of the job.
    by_id: Vec<usize>,
    /// What follows, and which of the run it follows.
    jobs: Vec<(usize, &'a NewJob)>,
    records: Vec<(usize, &'a RecordWrite)>,
    columns: Columns<'a>,
    changes: Changes<'a>,
}

/// What became of a batch.
pub(super) enum BatchAnswer {
    /// All of it was written, and these are the states of the attempts.
    Done(Vec<State>),
    /// Nothing was, because the definitions of queues have changed.
    Stale,
    /// Nothing was: one after the other they leave something else than together.
    Apart,
    /// Nothing was. Some rights do not hold, or these attempts are cancelled: the state that each would have, if its right holds.
    Unfollowed(Vec<Option<State>>),
    /// Nothing was: what is said of each job, or of all of them.
    Refused(Vec<String>),
    /// Nothing was: these records were found otherwise, by their places in the columns.
    Conflict(Vec<(usize, Option<i64>)>),
}

impl<'a> Batch<'a> {
    pub(super) fn new(
        right: Right,
        definitions: &'a Current,
        items: &'a [AttemptWrite],
        run: &[Planned],
    ) -> Self {
        let run: Vec<_> = run.iter().map(|planned| (*planned, &items[planned.place])).collect();
        let mut by_id: Vec<usize> = (0..run.len()).collect();
        by_id.sort_unstable_by_key(|&at| run[at].1.id);
        let followed = || run.iter().enumerate().filter(|(_, (planned, _))| planned.is_followed);
        let jobs: Vec<_> =
            followed().flat_map(|(at, (_, item))| item.then.jobs.iter().map(move |job| (at, job))).collect();
        let records: Vec<_> = followed()
            .flat_map(|(at, (_, item))| item.then.records.iter().map(move |write| (at, write)))
            .collect();
        let columns = Columns::of_each(jobs.iter().map(|(_, job)| *job), definitions);
        let changes = Changes::of(records.iter().map(|&(at, write)| (&run[at].1.queue, write)));
        Self { right, definitions, run, by_id, jobs, records, columns, changes }
    }

    pub(super) fn item(&self, at: usize) -> &'a AttemptWrite {
        self.run[at].1
    }

    pub(super) fn jobs(&self) -> &[(usize, &'a NewJob)] {
        &self.jobs
    }

    /// What is said of each job, in the order of [`jobs`](Self::jobs).
    pub(super) fn of_jobs(&self, said: Vec<String>) -> impl Iterator<Item = (usize, &'a NewJob, String)> {
        let said = self.columns.in_order(said);
        self.jobs.iter().zip(said).map(|(&(at, job), said)| (at, job, said))
    }

    /// The changes that these places of columns are about, in the order of the call.
    pub(super) fn of_changes(
        &self,
        found: Vec<(usize, Option<i64>)>,
    ) -> Vec<(usize, &'a RecordWrite, Option<i64>)> {
        let mut found: Vec<_> =
            found.into_iter().map(|(column, found)| (self.changes.places[column], found)).collect();
        found.sort_unstable();
        found
            .into_iter()
            .map(|(place, found)| (self.records[place].0, self.records[place].1, found))
            .collect()
    }

    /// Writes all of it, or nothing.
    pub(super) async fn send(&self, session: &Session) -> Result<BatchAnswer, Fault> {
        let items = || self.by_id.iter().map(|&at| self.run[at].1);
        let ends: Vec<Settlement> = items().filter_map(AttemptWrite::settlement).collect();
        let outcomes = Outcomes::of(&ends.iter().collect::<Vec<_>>(), self.definitions);
        let way = self.way(&outcomes);
        let mut writes = Writes::of(items().map(|item| (item.id, &item.queue, item.fence)));
        if way == "complete" {
            writes.queues = one_for_all(writes.queues.into_iter());
        }
        let Writes { ids, queues, fences, nonces } = &writes;
        let follows = self.by_id.iter().map(|&at| {
            let (planned, item) = &self.run[at];
            i64::from(planned.is_followed && !item.then.is_empty())
        });
        let follows: Vec<i64> = follows.collect();
        let orders: Vec<i64> = self.by_id.iter().map(|&at| at as i64).collect();
        let wanted = self.jobs.iter().filter_map(|(at, job)| Some((job.unique?, *at as i64)));
        let (wanted, wanters): (Vec<Uuid>, Vec<i64>) =
            wanted.map(|(key, at)| (Uuid::from_bytes(key.digest.0), at)).unzip();
        let version = self.definitions.version;
        let jobs = Call { columns: &self.columns, is_one: false, version, calls: &[] };
        let (jobs_all, digests) = (jobs.all(), self.columns.keys.texts());
        let first: [&(dyn ToSql + Sync); 8] =
            [&way, &version, ids, queues, fences, nonces, &outcomes.states, &outcomes.delays];
        let about: [&(dyn ToSql + Sync); 4] = [&follows, &orders, &wanted, &wanters];
        let parameters = [
            &first[..],
            &outcomes.columns(),
            &about,
            // Without the version and the call.
            &jobs_all[1..12],
            &jobs_all[13..],
            &jobs.keys(&digests),
            &self.changes.columns(),
        ]
        .concat();
        let row = session.call_one(&FOLLOW, &parameters).await?;
        self.said(&row)
    }

    /// How the attempts end.
    fn way(&self, outcomes: &Outcomes<'_>) -> &'static str {
        let transitions = || self.run.iter().filter_map(|(_, item)| item.transition.as_ref());
        let is_plain = || {
            transitions().all(|transition| is_plain(transition) && transition.output.is_none())
                && outcomes.dropped.iter().all(|dropped| *dropped == outcomes.dropped[0])
        };
        match self.right {
            Right::Fence if transitions().next().is_none() => "hold",
            Right::Fence if is_plain() => "complete",
            right => right.as_str(),
        }
    }

    fn said(&self, row: &tokio_postgres::Row) -> Result<BatchAnswer, Fault> {
        let places: Option<Vec<i64>> = at(row, 1)?;
        let numbers: Option<Vec<Option<i64>>> = at(row, 2)?;
        let known = |place: &i64, count: usize| {
            let index = usize::try_from(place - 1).ok().filter(|index| *index < count);
            index.ok_or_else(|| Fault::Corrupt(format!("an answer is about place {place}")))
        };
        let states = || {
            let Some(places) = &places else { return Ok(vec![Some(State::Completed); self.run.len()]) };
            let mut states = vec![None; self.run.len()];
            for (nth, place) in places.iter().enumerate() {
                let code = numbers.as_ref().and_then(|numbers| numbers.get(nth).copied().flatten());
                let state = code.map_or(Ok(State::Completed), row::state)?;
                states[self.by_id[known(place, self.run.len())?]] = Some(state);
            }
            Ok::<_, Fault>(states)
        };
        Ok(match at::<&str>(row, 0)? {
            "done" => BatchAnswer::Done(states()?.into_iter().flatten().collect()),
            "stale" => BatchAnswer::Stale,
            "apart" => BatchAnswer::Apart,
            "unfollowed" => BatchAnswer::Unfollowed(states()?),
            "refused" => BatchAnswer::Refused(at(row, 3)?),
            "conflict" => {
                let found = places.iter().flatten().zip(numbers.iter().flatten());
                let found = found.map(|(place, found)| Ok((known(place, self.records.len())?, *found)));
                BatchAnswer::Conflict(found.collect::<Result<_, Fault>>()?)
            }
            other => return Err(Fault::Corrupt(format!("follow-ups were answered with {other:?}"))),
        })
    }
}
