//! What attempts write beside their outcome, by one script for many attempts of a queue. Jobs for other queues are delivered
//! when the script has posted them; what cannot be delivered at once maintenance delivers.

use bytes::Bytes;
use redis::Value;
use windlass_core::bell::Rings;
use windlass_core::job::NewJob;
use windlass_core::options::Due;
use windlass_core::store::{AttemptWrite, AttemptWritten, Right};
use windlass_core::{Name, State, StoreError};

use super::plan::{Item, Step, cost};
use super::stored;
use crate::agenda::Notes;
use crate::definitions::{Definition, ROUNDS, never_stands_still};
use crate::error::{Effect, Fault};
use crate::jobs::enqueue::{Refusal, refusal};
use crate::jobs::outcomes::{Attempt, Runs, partly_corrupt, state};
use crate::jobs::packed::{Bodies, Packed};
use crate::jobs::settle::{by_queue, ring_room, steps};
use crate::script::Script;
use crate::scripts::{FOLLOW, FOLLOW_LATE};
use crate::session::Session;
use crate::transfers::{self, Posting};
use crate::{Tools, answer, spread};

const fn script(right: Right) -> &'static Script {
    match right {
        Right::Fence | Right::LostLease => &FOLLOW,
        Right::Late => &FOLLOW_LATE,
    }
}

pub(super) async fn write_fenced(
    tools: &Tools,
    session: &Session,
    right: Right,
    items: &[AttemptWrite],
) -> Result<Vec<AttemptWritten>, Fault> {
    let mut states = items.iter().filter_map(|item| item.transition.as_ref().map(|next| next.state));
    if let Some(wrong) = states.find(|state| !State::Running.may_become(*state)) {
        return Err(Fault::Defect(format!("a running job was told to become {wrong}")));
    }
    let mut answers: Vec<_> = items.iter().map(|item| unsent(right, item)).collect();
    let open: Vec<_> = (0..items.len()).filter(|&place| answers[place].is_none()).collect();
    let queues = by_queue(open.iter().map(|&place| &items[place].queue));
    let written = spread::each(queues, |(queue, places)| {
        let places: Vec<_> = places.into_iter().map(|place| open[place]).collect();
        async move {
            let (mut answers, mut fault) = (Vec::with_capacity(places.len()), None);
            for places in steps(&places, |place| cost(&items[place])) {
                let batch = Batch { tools, session, queue, items, right };
                match batch.write(places).await {
                    Ok(said) => answers.extend(said),
                    Err(error) => {
                        fault = Some(error);
                        break;
                    }
                }
            }
            Ok((answers, fault))
        }
    });
    let (mut fault, mut has_answered, mut has_applied) = (None, false, false);
    for (written, error) in written.await? {
        has_answered |= error.is_none();
        fault = match (fault, error) {
            (Some(first), Some(other)) => Some(Fault::or_worse(first, other)),
            (first, other) => first.or(other),
        };
        for (place, said) in written {
            has_applied |= matches!(said, AttemptWritten::Applied(_));
            answers[place] = Some(said);
        }
    }
    match fault {
        // A reaper finds again what one queue did not take, and must go on with those of the others.
        Some(fault) if right == Right::LostLease && has_answered => {
            tracing::warn!(?fault, "lost jobs of a queue are not taken back; others are");
            Ok(answers.into_iter().map(|answer| answer.unwrap_or(AttemptWritten::Fenced)).collect())
        }
        // What was written is written: to say that nothing was would be wrong.
        Some(fault) if has_applied => Err(fault.partial()),
        Some(fault) => Err(fault),
        None => Ok(answers.into_iter().flatten().collect()),
    }
}

/// The answer for what is not sent: it is too much, or nothing gives a right to it.
fn unsent(right: Right, item: &AttemptWrite) -> Option<AttemptWritten> {
    if let Err(refused) = item.check() {
        return Some(AttemptWritten::Refused(refused));
    }
    let may_be_right = match (right, &item.transition) {
        (Right::Fence, _) | (Right::LostLease, Some(_)) => true,
        (Right::Late, Some(next)) => next.state.is_terminal(),
        (_, None) => false,
    };
    (!may_be_right).then_some(AttemptWritten::Fenced)
}

/// What attempts of one queue write.
struct Batch<'a> {
    tools: &'a Tools,
    session: &'a Session,
    queue: &'a Name,
    items: &'a [AttemptWrite],
    right: Right,
}

/// What a script said.
struct Reply {
    /// Two bytes for each attempt.
    answers: Bytes,
    /// Which job or record is refused, and the version of the record; for each attempt that one of them refuses.
    details: std::vec::IntoIter<Value>,
    posting: Option<Posting>,
}

impl Reply {
    fn read(mut rest: std::vec::IntoIter<Value>, count: usize) -> Result<Self, Fault> {
        let mut next = || rest.next().unwrap_or(Value::Nil);
        let (answers, details) = (answer::bytes(next())?, answer::array(next())?.into_iter());
        if answers.len() != 2 * count {
            return Err(Fault::Corrupt("what follows an attempt was not answered".to_owned()));
        }
        let (first, seq, at) = (answer::bytes(next())?, answer::bytes(next())?, answer::bytes(next())?);
        let waiting = answer::integer(next())?;
        let first = std::str::from_utf8(&first).ok().and_then(|first| first.parse().ok());
        let posting = first.map(|first| Posting { first, seq, at, waiting });
        Ok(Self { answers, details, posting })
    }

    fn is_followed(&self, index: usize) -> bool {
        self.answers[2 * index + 1] == b'1'
    }
}

impl Batch<'_> {
    /// Writes what stands at these places; each answer comes with its place.
    async fn write(&self, places: &[usize]) -> Result<Vec<(usize, AttemptWritten)>, Fault> {
        let Self { tools, session, queue, .. } = self;
        for _ in 0..ROUNDS {
            let definition = tools.definitions.of(session, &tools.keys, queue).await?;
            let mut items: Vec<_> = places.iter().map(|&place| Item::of(&self.items[place])).collect();
            for item in items.iter_mut().filter(|item| !item.write.then.jobs.is_empty()) {
                item.check(tools, &session.hasty(), &definition).await;
            }
            let mut step = Step::of(items);
            let Some(rest) = self.run(places, &step, &definition).await? else {
                tools.definitions.forget(queue);
                continue;
            };
            // What the script did is done: an answer that does not read leaves it unknown what.
            let mut said = Reply::read(rest, places.len()).map_err(Fault::partial)?;
            let mut written = Vec::with_capacity(places.len());
            for (index, &place) in places.iter().enumerate() {
                let answer = self.written(&mut step.items[index], index, &mut said, &definition);
                written.push((place, answer.map_err(Fault::partial)?));
            }
            self.follow(&step, &mut said).await?;
            self.ring(&step, &written, &said, &definition);
            return Ok(written);
        }
        Err(never_stands_still())
    }

    /// Runs the script. Answers nothing where the definition is another one by now.
    async fn run(
        &self,
        places: &[usize],
        step: &Step<'_>,
        definition: &Definition,
    ) -> Result<Option<std::vec::IntoIter<Value>>, Fault> {
        let Self { tools, session, queue, .. } = self;
        let attempt = |place: usize| Attempt::from(&self.items[place]);
        let runs = Runs::in_order(places, attempt, &definition.config.caps);
        let packed = Packed::of(step.own(), definition.config.caps.payload)?;
        let mut own = vec![tools.clock(), definition.version()];
        runs.push_to(&mut own, attempt, self.right.as_str(), definition);
        let rest = Bytes::from((own.len() + 1).to_string());
        step.push_to(&mut own)?;
        let needs = runs.needs(attempt, &definition.config.retention).and(packed.needs()).and(step.needs());
        let keys = tools.keys.queue(queue);
        // Payloads that were written before belong to one attempt: either all of them stay, or none.
        let is_alone = places.len() == 1 && session.may_transact();
        let mut bodies = if is_alone { packed.bodies_for_script() } else { Bodies::Given };
        loop {
            let before = if bodies == Bodies::Withheld { packed.writes(&keys) } else { Vec::new() };
            let mut arguments = own.clone();
            packed.push_to(&mut arguments, bodies);
            arguments.push(rest.clone());
            let note = Notes::note(tools, session, queue, needs);
            let write = session.run_acknowledged(&before, script(self.right), keys.all(), arguments);
            match tokio::join!(note, write).1 {
                Err(Fault::Server(error))
                    if matches!(error.code.as_str(), "OOM" | "NOPERM") && bodies == Bodies::Withheld => {}
                result => {
                    let (word, rest) = answer::word(result?).map_err(Fault::partial)?;
                    match &word[..] {
                        b"stale" => return Ok(None),
                        b"whole" if bodies == Bodies::Withheld => {}
                        b"ok" => return Ok(Some(rest)),
                        _ => {
                            return Err(partly_corrupt(
                                "a write was answered with something else".to_owned(),
                            ));
                        }
                    }
                }
            }
            bodies = Bodies::Given;
        }
    }

    fn written(
        &self,
        item: &mut Item<'_>,
        index: usize,
        said: &mut Reply,
        definition: &Definition,
    ) -> Result<AttemptWritten, Fault> {
        let wrong = || Fault::Corrupt("a write was refused for nothing".to_owned());
        let why = said.answers[2 * index];
        let refused = match why {
            b'f' => return Ok(AttemptWritten::Fenced),
            b'x' => item.refusal.take().ok_or_else(wrong)?,
            b'l' => {
                let next = item.write.transition.as_ref();
                let error = next.and_then(|next| next.check_output(definition.config.caps.output).err());
                StoreError::TooLarge { id: item.write.id, error: error.ok_or_else(wrong)? }
            }
            b't' | b'u' | b'g' | b'c' => {
                let mut next = || said.details.next().unwrap_or(Value::Nil);
                let place = usize::try_from(answer::integer(next())? - 1).map_err(|_| wrong())?;
                let found = answer::bytes(next())?;
                let why = match why {
                    b'c' => {
                        let key = item.write.then.records.get(place).ok_or_else(wrong)?.key.clone();
                        return Ok(AttemptWritten::Refused(StoreError::Conflict {
                            key,
                            found: stored::version(&found),
                        }));
                    }
                    b't' => Refusal::Taken,
                    b'u' => Refusal::Strange,
                    _ => Refusal::Large,
                };
                let job = item.own.get(place).ok_or_else(wrong)?;
                refusal(job, definition, why).into_error(Effect::Write)
            }
            _ => return state(why).map(AttemptWritten::Applied),
        };
        Ok(AttemptWritten::Refused(refused))
    }

    /// Delivers what was posted for other queues, and notes where jobs are.
    async fn follow(&self, step: &Step<'_>, said: &mut Reply) -> Result<(), Fault> {
        let Self { tools, session, queue, .. } = self;
        let (posting, said) = (said.posting.take(), &*said);
        for (_, item) in step.items.iter().enumerate().filter(|(index, _)| said.is_followed(*index)) {
            tools.queue_cache.note(queue, item.own.iter().map(|job| job.id));
            for job in &item.elsewhere {
                tools.queue_cache.note(&job.queue, [job.id].into_iter());
            }
        }
        if let Some(posting) = posting {
            let posted = step.transfers(|index| said.is_followed(index)).map_err(Fault::partial)?;
            transfers::deliver_posted(tools, session, queue, posted, posting).await;
        }
        Ok(())
    }

    fn ring(
        &self,
        step: &Step<'_>,
        written: &[(usize, AttemptWritten)],
        said: &Reply,
        definition: &Definition,
    ) {
        let (mut rings, mut ended) = (Rings::NONE, 0);
        for (index, (item, (_, written))) in step.items.iter().zip(written).enumerate() {
            let AttemptWritten::Applied(state) = written else { continue };
            if item.write.transition.is_some() {
                rings.add_entered(*state, self.queue);
                ended += 1;
            }
            if said.is_followed(index) && !item.write.then.jobs.is_empty() {
                // One that is held may have met the holder of its key, which is due earlier now.
                let is_work = |job: &&NewJob| job.due != Due::Held || job.unique.is_some();
                rings = rings.and(Rings::accepted(item.write.then.jobs.iter().filter(is_work)));
            }
        }
        self.tools.ring(rings);
        ring_room(self.tools, self.queue, self.right, definition, ended);
    }
}
