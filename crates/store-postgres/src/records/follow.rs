//! What attempts write beside their outcomes. Writes that share nothing go by one call of one function, which writes
//! all of them or says what stands in the way; then that is answered, and the rest is written without it.

use std::collections::VecDeque;

use windlass_core::State;
use windlass_core::StoreError;
use windlass_core::judge::Transition;
use windlass_core::record::RecordWrite;
use windlass_core::store::{AttemptWrite, AttemptWritten, Right};

use super::batch::{Batch, BatchAnswer, Planned};
use super::changes::conflict;
use super::runs::runs;
use crate::Tools;
use crate::definitions::{Current, ROUNDS};
use crate::error::{Fault, is_locked};
use crate::jobs::enqueue::{answer, refusal, rings};
use crate::jobs::settle::{Writes, counts_running, holding};
use crate::session::Session;

/// How often a run is tried as a whole: rights, jobs and records may each stand in the way once, and definitions may change.
const TOGETHER: usize = 5;

/// How many attempts that meet a lock are waited for in one call.
const LOCKED_MAX: usize = 3;

pub(super) async fn write_fenced(
    tools: &Tools,
    session: &Session,
    right: Right,
    items: &[AttemptWrite],
) -> Result<Vec<AttemptWritten>, Fault> {
    let answers = items.iter().map(|item| at_once(right, item)).collect::<Result<_, _>>()?;
    let mut writer = Writer { tools, session, right, items, answers };
    let open = (0..items.len()).filter(|&place| writer.answers[place].is_none());
    let of_places = |places: Vec<usize>| {
        let items = places.into_iter().map(|place| Planned { place, is_followed: true });
        Run { items: items.collect(), tries: 0 }
    };
    let mut left: VecDeque<Run> = runs(items, open).into_iter().map(of_places).collect();
    let (mut locked, mut held) = (None, Vec::<&[RecordWrite]>::new());
    while let Some(mut run) = left.pop_front() {
        // Each lock is waited for once, and not many of them: other attempts wait for the answer of this call.
        if let [planned] = &run.items[..]
            && (held.len() == LOCKED_MAX || shares_record(&held, &items[planned.place].then.records))
        {
            continue;
        }
        let is_apart = match writer.write(&mut run).await {
            Ok(is_apart) => is_apart,
            // What an open transaction holds, as that of a user who writes records, holds up no other attempt.
            Err(fault) if is_locked(&fault) && run.items.len() > 1 => true,
            Err(fault) if is_locked(&fault) => {
                locked = Some(fault);
                held.extend(run.items.iter().map(|planned| &items[planned.place].then.records[..]));
                continue;
            }
            Err(fault) => return Err(writer.failed(fault)),
        };
        run.tries += 1;
        if run.items.len() > 1 && (is_apart || run.tries == TOGETHER) {
            for item in run.items.into_iter().rev() {
                left.push_front(Run { items: vec![item], tries: 0 });
            }
        } else if run.tries == ROUNDS && !run.items.is_empty() {
            let fault = Fault::Defect("the definitions of queues never stand still".to_owned());
            return Err(writer.failed(fault));
        } else if !run.items.is_empty() {
            left.push_front(run);
        }
    }
    if let Some(fault) = locked {
        return Err(writer.failed(fault));
    }
    let missing = || Fault::Defect("a write of an attempt has no answer".to_owned());
    writer.answers.into_iter().map(|answer| answer.ok_or_else(missing)).collect()
}

/// Whether one of these records is among those that were found locked.
fn shares_record(held: &[&[RecordWrite]], records: &[RecordWrite]) -> bool {
    let is_held = |write: &RecordWrite| held.iter().any(|some| some.iter().any(|held| held.key == write.key));
    records.iter().any(is_held)
}

/// The answer that needs no look at the job.
fn at_once(right: Right, item: &AttemptWrite) -> Result<Option<AttemptWritten>, Fault> {
    if let Err(error) = item.check() {
        return Ok(Some(AttemptWritten::Refused(error)));
    }
    let may_be = |transition: &Transition| State::Running.may_become(transition.state);
    if let Some(transition) = item.transition.as_ref().filter(|transition| !may_be(transition)) {
        return Err(Fault::Defect(format!("a running job was told to become {}", transition.state)));
    }
    let has_right = match right {
        Right::Fence => true,
        Right::LostLease => item.transition.is_some(),
        // Else the job is back already.
        Right::Late => item.transition.as_ref().is_some_and(|transition| transition.state.is_terminal()),
    };
    Ok((!has_right).then_some(AttemptWritten::Fenced))
}

/// Writes that go together, and how often that was tried.
struct Run {
    items: Vec<Planned>,
    tries: usize,
}

struct Writer<'a> {
    tools: &'a Tools,
    session: &'a Session,
    right: Right,
    items: &'a [AttemptWrite],
    answers: Vec<Option<AttemptWritten>>,
}

impl Writer<'_> {
    /// Writes all of a run, or answers what stands in the way. What has no answer is left in it. Whether they must be written
    /// one after the other.
    async fn write(&mut self, run: &mut Run) -> Result<bool, Fault> {
        let mut queues = Vec::new();
        for item in run.items.iter().map(|planned| &self.items[planned.place]) {
            queues.push(&item.queue);
            queues.extend(item.then.jobs.iter().map(|job| &job.queue));
        }
        let definitions = self.tools.definitions.of(self.session, queues.into_iter()).await?;
        self.refuse(run, &definitions).await?;
        if run.items.is_empty() {
            return Ok(false);
        }
        let batch = Batch::new(self.right, &definitions, self.items, &run.items);
        match batch.send(self.session).await? {
            BatchAnswer::Apart => return Ok(true),
            BatchAnswer::Stale => self.tools.definitions.forget(),
            BatchAnswer::Done(states) => self.applied(run, &batch, &definitions, &states),
            BatchAnswer::Unfollowed(states) => self.unfollowed(run, &batch, &states),
            BatchAnswer::Refused(said) => self.refused(run, &batch, &definitions, said)?,
            BatchAnswer::Conflict(found) => {
                for (at, write, found) in batch.of_changes(found) {
                    self.answer(run, at, AttemptWritten::Refused(conflict(write, found)));
                }
            }
        }
        run.items.retain(|planned| self.answers[planned.place].is_none());
        Ok(false)
    }

    /// What a fault means for the call. What was written is written: to say that nothing was would be wrong.
    fn failed(&self, fault: Fault) -> Fault {
        let is_applied = |answer: &AttemptWritten| matches!(answer, AttemptWritten::Applied(_));
        if self.answers.iter().flatten().any(is_applied) { fault.partial() } else { fault }
    }

    /// Answers one of a run, if it has no answer yet: the first thing that stands in its way is named.
    fn answer(&mut self, run: &Run, at: usize, answer: AttemptWritten) {
        self.answers[run.items[at].place].get_or_insert(answer);
    }

    /// Refuses outputs above their cap, if their right holds.
    async fn refuse(&mut self, run: &mut Run, definitions: &Current) -> Result<(), Fault> {
        let check = |place: usize| {
            let AttemptWrite { id, queue, transition, .. } = &self.items[place];
            let error = transition.as_ref()?.check_output(definitions.of(queue).caps.output).err()?;
            Some((place, StoreError::TooLarge { id: *id, error }))
        };
        let refused = run.items.iter().filter_map(|planned| check(planned.place));
        let refused: Vec<_> = refused.collect();
        if refused.is_empty() {
            return Ok(());
        }
        let item = |place: usize| {
            let AttemptWrite { id, queue, fence, .. } = &self.items[place];
            (*id, queue, *fence)
        };
        let writes = Writes::of(refused.iter().map(|(place, _)| item(*place)));
        let held = holding(self.session, self.right, &writes).await?;
        for (index, (place, error)) in refused.into_iter().enumerate() {
            self.answers[place] = Some(match held.contains(&index) {
                true => AttemptWritten::Refused(error),
                false => AttemptWritten::Fenced,
            });
        }
        run.items.retain(|planned| self.answers[planned.place].is_none());
        Ok(())
    }

    /// All of a run was written.
    fn applied(&mut self, run: &Run, batch: &Batch<'_>, definitions: &Current, states: &[State]) {
        let mut rings = rings(batch.jobs().iter().map(|(_, job)| *job));
        for (at, &state) in states.iter().enumerate() {
            self.answer(run, at, AttemptWritten::Applied(state));
            let queue = &batch.item(at).queue;
            if state == State::Running {
                continue;
            }
            rings.add_entered(state, queue);
            // What ends late has given its place back already.
            if self.right != Right::Late && counts_running(definitions.of(queue)) {
                rings.add_entered(State::Ready, queue);
            }
        }
        self.tools.ring(rings);
    }

    /// Nothing of a run was written, for some rights are lost, or some attempts are cancelled in place of being put back.
    fn unfollowed(&mut self, run: &mut Run, batch: &Batch<'_>, states: &[Option<State>]) {
        for (at, state) in states.iter().enumerate() {
            match state {
                None => self.answer(run, at, AttemptWritten::Fenced),
                Some(State::Cancelled) => run.items[at].is_followed &= batch.item(at).is_followed(true),
                Some(_) => {}
            }
        }
    }

    /// Nothing of a run was written, for jobs of it are refused.
    fn refused(
        &mut self,
        run: &Run,
        batch: &Batch<'_>,
        definitions: &Current,
        said: Vec<String>,
    ) -> Result<(), Fault> {
        if let [alone] = &said[..]
            && let Some(fault) = refusal(alone)
        {
            let Fault::Refused(StoreError::NoKeys { queue }) = fault else { return Err(fault) };
            for (at, _) in batch.jobs().iter().filter(|(_, job)| job.key.is_some() && job.queue == queue) {
                let error = StoreError::NoKeys { queue: queue.clone() };
                self.answer(run, *at, AttemptWritten::Refused(error));
            }
            return Ok(());
        }
        for (at, job, said) in batch.of_jobs(said) {
            match answer(job, definitions, &said) {
                Ok(_) => {}
                Err(Fault::Refused(error)) => self.answer(run, at, AttemptWritten::Refused(error)),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }
}
