//! Settle and reap: the outcomes of attempts, each written only if its fence holds; and the ends of attempts that were
//! reaped before.

use redis::Value;
use windlass_core::bell::Rings;
use windlass_core::store::{Right, Settled, Settlement};
use windlass_core::{JobId, Name, State};

use super::outcomes::{self, Attempt, Runs, partly_corrupt};
use crate::agenda::Notes;
use crate::definitions::{Definition, ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::ids::{IdSet, Secret};
use crate::script::Script;
use crate::scripts::{SETTLE, SETTLE_LATE};
use crate::session::Session;
use crate::{Tools, answer, spread};

/// The most outcomes that one script writes, and the most bytes of theirs; a single one may have more.
const ITEMS_MAX: usize = 500;
const BYTES_MAX: usize = 1 << 20;

const fn script(right: Right) -> &'static Script {
    match right {
        Right::Fence | Right::LostLease => &SETTLE,
        Right::Late => &SETTLE_LATE,
    }
}

pub(crate) async fn settle(
    tools: &Tools,
    session: &Session,
    settlements: &[Settlement],
    right: Right,
) -> Result<Vec<Settled>, Fault> {
    if let Some(wrong) = settlements.iter().find(|each| !State::Running.may_become(each.transition.state)) {
        return Err(Fault::Defect(format!("a running job was told to become {}", wrong.transition.state)));
    }
    let queues = by_queue(settlements.iter().map(|settlement| &settlement.queue));
    let written = spread::each(queues, |(queue, places)| async move {
        let mut answers = Vec::with_capacity(places.len());
        let mut fault = None;
        for places in
            steps(&places, |place| (settlements[place].id, Attempt::from(&settlements[place]).size()))
        {
            let batch = Batch { tools, session, queue, settlements, right };
            match batch.write(places).await {
                Ok(said) => answers.extend(said),
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        Ok((answers, fault))
    });
    let (mut answers, mut fault, mut has_answered) = (vec![None; settlements.len()], None, false);
    for (written, error) in written.await? {
        has_answered |= error.is_none();
        fault = match (fault, error) {
            (Some(first), Some(other)) => Some(Fault::or_worse(first, other)),
            (first, other) => first.or(other),
        };
        for (place, said) in written {
            answers[place] = Some(said);
        }
    }
    let mut rings = Rings::NONE;
    for (settlement, answer) in settlements.iter().zip(&answers) {
        if let Some(Settled::Applied(state)) = answer {
            rings.add_entered(*state, &settlement.queue);
        }
    }
    let has_applied = !rings.is_empty();
    tools.ring(rings);
    match fault {
        // A reaper finds again what one queue did not take, and must go on with those of the others.
        Some(fault) if right == Right::LostLease && has_answered => {
            tracing::warn!(?fault, "lost jobs of a queue are not taken back; others are");
            Ok(answers.into_iter().map(|answer| answer.unwrap_or(Settled::Fenced)).collect())
        }
        // What was written is written: to say that nothing was would be wrong.
        Some(fault) if has_applied => Err(fault.partial()),
        Some(fault) => Err(fault),
        None => Ok(answers.into_iter().flatten().collect()),
    }
}

/// Places by queue, in the order in which the queues first appear.
pub(crate) fn by_queue<'n>(queues: impl Iterator<Item = &'n Name>) -> Vec<(&'n Name, Vec<usize>)> {
    let mut found: Vec<(&Name, Vec<usize>)> = Vec::new();
    for (place, queue) in queues.enumerate() {
        // Calls are about few queues, and mostly about the one before.
        match found.iter_mut().rev().find(|(name, _)| *name == queue) {
            Some((_, places)) => places.push(place),
            None => found.push((queue, vec![place])),
        }
    }
    found
}

/// Cuts places into steps of at most [`ITEMS_MAX`] and about [`BYTES_MAX`], in which no id stands twice: what stands
/// later in a call takes effect later.
pub(crate) fn steps(places: &[usize], item: impl Fn(usize) -> (JobId, usize)) -> Vec<&[usize]> {
    let (mut steps, mut begin, mut bytes) = (Vec::new(), 0, 0);
    let mut ids = IdSet::with_capacity_and_hasher(places.len().min(ITEMS_MAX), Secret::default());
    for (index, &place) in places.iter().enumerate() {
        let (id, more) = item(place);
        let is_repeat = !ids.insert(id);
        if index > begin && (is_repeat || index - begin >= ITEMS_MAX || bytes + more > BYTES_MAX) {
            steps.push(&places[begin..index]);
            (begin, bytes) = (index, 0);
            ids.clear();
            ids.insert(id);
        }
        bytes += more;
    }
    steps.push(&places[begin..]);
    steps
}

/// Where few jobs may run at once, in all or of a key, another one may start for each that ran and has ended.
pub(crate) fn ring_room(tools: &Tools, queue: &Name, right: Right, definition: &Definition, ended: usize) {
    let of_keys = definition.config.keys.as_ref().and_then(|keys| keys.concurrency);
    if definition.config.concurrency.or(of_keys).is_none() || right == Right::Late {
        return;
    }
    let mut rings = Rings::NONE;
    (0..ended).for_each(|_| rings.add_entered(State::Ready, queue));
    tools.ring(rings);
}

/// Outcomes of one queue.
struct Batch<'a> {
    tools: &'a Tools,
    session: &'a Session,
    queue: &'a Name,
    settlements: &'a [Settlement],
    right: Right,
}

impl Batch<'_> {
    /// Writes the outcomes at these places; each answer comes with its place.
    async fn write(&self, places: &[usize]) -> Result<Vec<(usize, Settled)>, Fault> {
        for _ in 0..ROUNDS {
            let Self { tools, session, queue, .. } = self;
            let definition = tools.definitions.of(session, &tools.keys, queue).await?;
            let attempt = |place: usize| Attempt::from(&self.settlements[place]);
            let runs = Runs::of(places, attempt, &definition.config.caps);
            let mut arguments = vec![tools.clock(), definition.version()];
            runs.push_to(&mut arguments, attempt, self.right.as_str(), &definition);
            let needs = runs.needs(attempt, &definition.config.retention);
            let note = Notes::note(tools, session, queue, needs);
            let write = session.run(script(self.right), tools.keys.queue(queue).all(), arguments);
            let answer = tokio::join!(note, write).1?;
            // What the script did is done: an answer that does not read leaves it unknown what.
            let (word, mut rest) = answer::word(answer).map_err(Fault::partial)?;
            if word[..] == *b"stale" {
                tools.definitions.forget(queue);
                continue;
            }
            let said = answer::bytes(rest.next().unwrap_or(Value::Nil)).map_err(Fault::partial)?;
            if said.len() != places.len() {
                return Err(partly_corrupt("an outcome was not answered".to_owned()));
            }
            let settled = |(place, said)| Ok((place, self.settled(place, said, &definition)?));
            let settled = runs.places().zip(said).map(settled).collect::<Result<Vec<_>, Fault>>()?;
            let applied =
                settled.iter().filter(|(_, settled)| matches!(settled, Settled::Applied(_))).count();
            ring_room(tools, queue, self.right, &definition, applied);
            return Ok(settled);
        }
        Err(never_stands_still())
    }

    fn settled(&self, place: usize, said: u8, definition: &Definition) -> Result<Settled, Fault> {
        match said {
            b'f' => Ok(Settled::Fenced),
            b'l' => {
                let checked = self.settlements[place].transition.check_output(definition.config.caps.output);
                let refused = checked.err().map(Settled::Refused);
                refused.ok_or_else(|| partly_corrupt("an output that fits was refused".to_owned()))
            }
            _ => outcomes::state(said).map(Settled::Applied),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_bounded_and_hold_everything() {
        let (places, ids): (Vec<_>, Vec<_>) = (0..1_200).map(|place| (place, JobId::new())).unzip();
        let sizes = |size: fn(usize) -> usize| {
            let steps = steps(&places, |place| (ids[place], size(place)));
            steps.iter().map(|step| step.len()).collect::<Vec<_>>()
        };
        assert_eq!(sizes(|_| 0), [500, 500, 200]);
        assert_eq!(sizes(|place| if place == 3 { BYTES_MAX + 1 } else { 0 }), [3, 1, 500, 500, 196]);
    }

    #[test]
    fn no_id_stands_twice_in_a_step() {
        let ids = [JobId::new(), JobId::new()];
        let places = [0, 1, 1, 0, 0];
        let steps = steps(&places, |place| (ids[place], 0));
        assert_eq!(steps, [&[0, 1][..], &[1, 0], &[0]]);
    }

    #[test]
    fn places_are_found_by_queue() {
        let names = ["a", "b", "a"].map(|name| Name::new(name).unwrap());
        let found = by_queue(names.iter());
        assert_eq!(found, [(&names[0], vec![0, 2]), (&names[1], vec![1])]);
    }
}
