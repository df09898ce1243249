//! The outcomes of attempts: settle, reap, and what comes late. Each is compare-and-set on the fence.

use std::collections::HashSet;

use tokio_postgres::types::ToSql;
use uuid::Uuid;
use windlass_core::bell::Rings;
use windlass_core::judge::Transition;
use windlass_core::outcome::Reason;
use windlass_core::queue::{QueueConfig, Retention};
use windlass_core::size::TooLarge;
use windlass_core::store::{Right, Settled, Settlement};
use windlass_core::{Fence, JobId, Name, State};

use super::enqueue::one_for_all;
use crate::Tools;
use crate::definitions::{Current, ROUNDS};
use crate::error::Fault;
use crate::functions::{COMPLETE, COMPLETE_ONE, HOLDS, LATE, SETTLE};
use crate::row::{self, at};
use crate::session::{Parameters, Session};

pub(crate) async fn settle(
    tools: &Tools,
    session: &Session,
    settlements: &[Settlement],
    right: Right,
) -> Result<Vec<Settled>, Fault> {
    let mut answers = vec![None; settlements.len()];
    let queues = || settlements.iter().map(|settlement| &settlement.queue);
    for _ in 0..ROUNDS {
        let open: Vec<usize> = (0..settlements.len()).filter(|&place| answers[place].is_none()).collect();
        if open.is_empty() {
            return Ok(answers.into_iter().flatten().collect());
        }
        let definitions = tools.definitions.of(session, queues()).await?;
        let batch = Batch { tools, session, settlements, definitions: &definitions, right };
        if let Err(fault) = batch.settle(&open, &mut answers).await {
            // What was written is written: to say that nothing was would be wrong.
            let is_partial = answers.iter().flatten().any(|answer| matches!(answer, Settled::Applied(_)));
            return Err(if is_partial { fault.partial() } else { fault });
        }
    }
    Err(Fault::Defect("the definitions of queues never stand still".to_owned()))
}

/// The outcomes of one call, decided by one version of the definitions.
struct Batch<'a> {
    tools: &'a Tools,
    session: &'a Session,
    settlements: &'a [Settlement],
    definitions: &'a Current,
    right: Right,
}

impl Batch<'_> {
    /// Answers all of the open ones, or leaves some of them open because the definitions have changed.
    async fn settle(&self, open: &[usize], answers: &mut [Option<Settled>]) -> Result<(), Fault> {
        let mut seen = HashSet::with_capacity(open.len());
        let (mut kept, mut dropped, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let too_large = self.too_large(open, answers).await?;
        for &place in open {
            if answers[place].is_some() || too_large.contains(&place) {
                continue;
            }
            let Settlement { id, fence, transition, queue } = &self.settlements[place];
            if !State::Running.may_become(transition.state) {
                return Err(Fault::Defect(format!("a running job was told to become {}", transition.state)));
            }
            let is_too_late = self.right == Right::Late && !transition.state.is_terminal();
            if is_too_late || !seen.insert((*id, *fence, queue)) {
                // The job is back already; or it stands twice in the call: if the fence holds, it does so for the first.
                answers[place] = Some(Settled::Fenced);
            } else if self.right == Right::Fence
                && is_plain(transition)
                && (transition.output.is_none() || open.len() == 1)
            {
                let keeps = self.definitions.of(queue).retention.keeps(State::Completed);
                if keeps { kept.push(place) } else { dropped.push(place) }
            } else {
                others.push(place);
            }
        }
        for (places, keep) in [(kept, 1_i64), (dropped, 0)] {
            self.complete(places, keep, answers).await?;
        }
        self.write(others, answers).await
    }

    /// Refuses outputs above their cap, if their fence holds.
    async fn too_large(&self, open: &[usize], answers: &mut [Option<Settled>]) -> Result<Vec<usize>, Fault> {
        let check = |place: usize| {
            let Settlement { queue, transition, .. } = &self.settlements[place];
            transition.check_output(self.definitions.of(queue).caps.output)
        };
        let large: Vec<(usize, TooLarge)> =
            open.iter().filter_map(|&place| check(place).err().map(|error| (place, error))).collect();
        if large.is_empty() {
            return Ok(Vec::new());
        }
        let writes = Writes::of(large.iter().map(|&(place, _)| self.settlements[place].write()));
        let places = holding(self.session, self.right, &writes).await?;
        for (index, (place, error)) in large.iter().enumerate() {
            answers[*place] =
                Some(if places.contains(&index) { Settled::Refused(*error) } else { Settled::Fenced });
        }
        Ok(large.into_iter().map(|(place, _)| place).collect())
    }

    /// Writes outcomes that need no more than their end.
    async fn complete(
        &self,
        mut places: Vec<usize>,
        keep: i64,
        answers: &mut [Option<Settled>],
    ) -> Result<(), Fault> {
        match places[..] {
            [] => return Ok(()),
            [place] => return self.complete_one(place, keep, &mut answers[place]).await,
            _ => {}
        }
        places.sort_unstable_by_key(|&place| self.settlements[place].id);
        let attempt = |&place: &usize| -> i64 { self.settlements[place].transition.counters.attempt.into() };
        let attempts = one_for_all(places.iter().map(attempt));
        let Writes { ids, queues, fences, nonces } =
            Writes::of(places.iter().map(|&place| self.settlements[place].write()));
        let (queues, fences, nonces) = (
            one_for_all(queues.into_iter()),
            one_for_all(fences.into_iter()),
            one_for_all(nonces.into_iter()),
        );
        let version = self.definitions.version;
        let parameters: Parameters<'_> = &[&version, &ids, &queues, &fences, &nonces, &attempts, &keep];
        let row = self.session.call_one(&COMPLETE, parameters).await?;
        if at::<&str>(&row, 0)? == "stale" {
            self.tools.definitions.forget();
            return Ok(());
        }
        let applied: Option<Vec<i64>> = at(&row, 1)?;
        let is_applied = |index: usize| applied.as_ref().is_none_or(|all| all.contains(&(index as i64 + 1)));
        let mut rings = Rings::NONE;
        for (index, &place) in places.iter().enumerate() {
            answers[place] = Some(match is_applied(index) {
                true => {
                    rings.add_ends();
                    self.add_room(&mut rings, place);
                    Settled::Applied(State::Completed)
                }
                false => Settled::Fenced,
            });
        }
        self.tools.ring(rings);
        Ok(())
    }

    /// Writes the outcome of one attempt that needs no more than its end and its output.
    async fn complete_one(&self, place: usize, keep: i64, answer: &mut Option<Settled>) -> Result<(), Fault> {
        let Settlement { id, queue, fence, transition } = &self.settlements[place];
        let (number, nonce) = (row::to_stored(fence.number), row::to_stored(fence.nonce));
        let attempt = i64::from(transition.counters.attempt);
        let output = transition.kept_output().map(|output| &output[..]);
        let (version, id, queue) = (self.definitions.version, row::uuid(*id), queue.as_str());
        let parameters: Parameters<'_> = &[&version, &id, &queue, &number, &nonce, &attempt, &output, &keep];
        let row = self.session.call_one(&COMPLETE_ONE, parameters).await?;
        match at(&row, 0)? {
            "stale" => self.tools.definitions.forget(),
            "done" => {
                *answer = Some(Settled::Applied(State::Completed));
                let mut rings = Rings::entered(State::Completed, &self.settlements[place].queue);
                self.add_room(&mut rings, place);
                self.tools.ring(rings);
            }
            _ => *answer = Some(Settled::Fenced),
        }
        Ok(())
    }

    /// Writes outcomes of any kind.
    async fn write(&self, mut places: Vec<usize>, answers: &mut [Option<Settled>]) -> Result<(), Fault> {
        if places.is_empty() {
            return Ok(());
        }
        places.sort_unstable_by_key(|&place| self.settlements[place].id);
        let chosen: Vec<&Settlement> = places.iter().map(|&place| &self.settlements[place]).collect();
        let Writes { ids, queues, fences, nonces } =
            Writes::of(chosen.iter().map(|settlement| settlement.write()));
        let outcomes = Outcomes::of(&chosen, self.definitions);
        let (right, version) = (self.right.as_str(), self.definitions.version);
        let fenced: [&(dyn ToSql + Sync); 4] = [&ids, &queues, &fences, &nonces];
        let (function, parameters) = match self.right {
            Right::Fence | Right::LostLease => {
                let first: [&(dyn ToSql + Sync); 2] = [&version, &right];
                (
                    &SETTLE,
                    [&first[..], &fenced, &[&outcomes.states, &outcomes.delays], &outcomes.columns()]
                        .concat(),
                )
            }
            Right::Late => {
                let first: [&(dyn ToSql + Sync); 1] = [&version];
                (&LATE, [&first[..], &fenced, &[&outcomes.states], &outcomes.columns()].concat())
            }
        };
        let rows = self.session.call(function, &parameters).await?;
        if rows.first().map(|row| at::<&str>(row, 0)).transpose()? == Some("stale") {
            self.tools.definitions.forget();
            return Ok(());
        }
        for &place in &places {
            answers[place] = Some(Settled::Fenced);
        }
        let mut rings = Rings::NONE;
        for row in &rows {
            let state = row::state(at(row, 2)?)?;
            let place = places[index(row, 1, places.len())?];
            answers[place] = Some(Settled::Applied(state));
            rings.add_entered(state, &self.settlements[place].queue);
            self.add_room(&mut rings, place);
        }
        self.tools.ring(rings);
        Ok(())
    }

    /// Adds that another job may run, where an attempt has ended and the queue says how many may.
    fn add_room(&self, rings: &mut Rings, place: usize) {
        let queue = &self.settlements[place].queue;
        // What ends late has given its place back already.
        if self.right != Right::Late && counts_running(self.definitions.of(queue)) {
            rings.add_entered(State::Ready, queue);
        }
    }
}

/// Whether a definition says how many jobs may run, of the queue or of each key.
pub(crate) fn counts_running(config: &QueueConfig) -> bool {
    config.concurrency.is_some() || config.keys.as_ref().is_some_and(|keys| keys.concurrency.is_some())
}

/// Whether an outcome is nothing but a first success.
pub(crate) fn is_plain(transition: &Transition) -> bool {
    let counters = transition.counters;
    transition.state == State::Completed
        && !transition.is_recorded()
        && (counters.stalls, counters.ambiguous) == (0, 0)
        && counters.backoff.is_zero()
}

/// Which of these writes would be accepted, by their places.
pub(crate) async fn holding(
    session: &Session,
    right: Right,
    writes: &Writes<'_>,
) -> Result<HashSet<usize>, Fault> {
    let Writes { ids, queues, fences, nonces } = writes;
    let rows = session.call(&HOLDS, &[&right.as_str(), ids, queues, fences, nonces]).await?;
    rows.iter().map(|row| index(row, 0, ids.len())).collect()
}

/// A place that the server counts from 1.
pub(crate) fn index(row: &tokio_postgres::Row, column: usize, places: usize) -> Result<usize, Fault> {
    let place: i64 = at(row, column)?;
    let index = usize::try_from(place - 1).ok().filter(|index| *index < places);
    index.ok_or_else(|| Fault::Corrupt(format!("an answer is about place {place}")))
}

/// Who may write about what.
pub(crate) trait Fenced {
    fn write(&self) -> (JobId, &Name, Fence);
}

impl Fenced for Settlement {
    fn write(&self) -> (JobId, &Name, Fence) {
        (self.id, &self.queue, self.fence)
    }
}

/// Fenced writes as columns.
pub(crate) struct Writes<'s> {
    pub(crate) ids: Vec<Uuid>,
    pub(crate) queues: Vec<&'s str>,
    pub(crate) fences: Vec<i64>,
    pub(crate) nonces: Vec<i64>,
}

impl<'s> Writes<'s> {
    pub(crate) fn of(writes: impl Iterator<Item = (JobId, &'s Name, Fence)>) -> Self {
        let mut columns =
            Self { ids: Vec::new(), queues: Vec::new(), fences: Vec::new(), nonces: Vec::new() };
        for (id, queue, fence) in writes {
            columns.ids.push(row::uuid(id));
            columns.queues.push(queue.as_str());
            columns.fences.push(row::to_stored(fence.number));
            columns.nonces.push(row::to_stored(fence.nonce));
        }
        columns
    }
}

/// Outcomes as columns.
pub(crate) struct Outcomes<'s> {
    pub(crate) states: Vec<i64>,
    pub(crate) delays: Vec<Option<i64>>,
    pub(crate) attempts: Vec<i64>,
    pub(crate) stalls: Vec<i64>,
    pub(crate) ambiguous: Vec<i64>,
    pub(crate) backoffs: Vec<i64>,
    pub(crate) reasons: Vec<Option<&'static str>>,
    pub(crate) endings: Vec<&'static str>,
    pub(crate) errors: Vec<Option<String>>,
    pub(crate) outputs: Vec<Option<&'s [u8]>>,
    pub(crate) dropped: Vec<i64>,
}

impl<'s> Outcomes<'s> {
    pub(crate) fn of(settlements: &[&'s Settlement], definitions: &Current) -> Self {
        let next = |place: usize| &settlements[place].transition;
        let config = |place: usize| -> &QueueConfig { definitions.of(&settlements[place].queue) };
        let places = 0..settlements.len();
        Self {
            states: places.clone().map(|place| next(place).state.code().into()).collect(),
            delays: places.clone().map(|place| next(place).delay().map(row::micros)).collect(),
            attempts: places.clone().map(|place| next(place).counters.attempt.into()).collect(),
            stalls: places.clone().map(|place| next(place).counters.stalls.into()).collect(),
            ambiguous: places.clone().map(|place| next(place).counters.ambiguous.into()).collect(),
            backoffs: places.clone().map(|place| row::micros(next(place).counters.backoff)).collect(),
            reasons: places.clone().map(|place| next(place).reason.map(Reason::as_str)).collect(),
            endings: places.clone().map(|place| next(place).ending.as_str()).collect(),
            errors: places.clone().map(|place| next(place).bounded_error(config(place).caps.error)).collect(),
            outputs: places
                .clone()
                .map(|place| next(place).kept_output().map(|output| &output[..]))
                .collect(),
            dropped: places.map(|place| dropped(&config(place).retention)).collect(),
        }
    }
}

impl Outcomes<'_> {
    /// The columns behind states and delays, in the order of the functions.
    pub(crate) fn columns(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.attempts,
            &self.stalls,
            &self.ambiguous,
            &self.backoffs,
            &self.reasons,
            &self.endings,
            &self.errors,
            &self.outputs,
            &self.dropped,
        ]
    }
}

/// The states of which nothing is kept, as bits.
fn dropped(retention: &Retention) -> i64 {
    let bits = State::TERMINAL.into_iter().filter(|state| !retention.keeps(*state));
    bits.fold(0, |bits, state| bits | 1 << state.code())
}
