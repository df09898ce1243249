//! Settle and reap: the outcomes of attempts, each written only if its fence holds.

use std::collections::HashSet;

use bytes::{BufMut, Bytes};
use redis::Value;
use windlass_core::bell::Rings;
use windlass_core::queue::Retention;
use windlass_core::store::{Settled, Settlement};
use windlass_core::{JobId, Name, State};

use super::enqueue::word;
use crate::definitions::{Definition, ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::row::{self, attempt};
use crate::script::{Script, script};
use crate::session::Session;
use crate::{Tools, answer, spread};

static SETTLE: Script =
    script!("jobs/settle", "keys", "clock", "record", "lines", "batch", "blocks", "places");

/// The most outcomes that one script writes, and the most bytes of theirs; a single one may have more.
const ITEMS_MAX: usize = 500;
const BYTES_MAX: usize = 4 << 20;

/// What gives the right to write an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Right {
    /// The fence: the worker itself. That its lease may have run out does not matter as long as nobody has taken the job
    /// back.
    Fence,
    /// The fence and a lease that has run out, tested again in the write: a reaper.
    LostLease,
}

impl Right {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Fence => "fence",
            Self::LostLease => "lost",
        }
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
        for places in steps(&places, |place| (settlements[place].id, size(&settlements[place]))) {
            let batch = Batch { tools, session, queue, settlements, right };
            match batch.write(places).await {
                Ok(said) => answers.extend(places.iter().copied().zip(said)),
                Err(error) => {
                    fault = Some(error);
                    break;
                }
            }
        }
        Ok((answers, fault))
    });
    let (mut answers, mut fault) = (vec![None; settlements.len()], None);
    for (written, error) in written.await? {
        fault = match (fault, error) {
            (Some(first), Some(other)) => Some(Fault::or_worse(first, other)),
            (first, other) => first.or(other),
        };
        for (place, said) in written {
            answers[place] = Some(said);
        }
    }
    let applied = answers.iter().flatten().filter_map(|answer| match answer {
        Settled::Applied(state) => Some(*state),
        _ => None,
    });
    let rings = applied.clone().fold(Rings::NONE, |rings, state| rings.and(Rings::entered(state)));
    tools.ring(rings);
    match fault {
        // What was written is written: to say that nothing was would be wrong.
        Some(fault) if applied.count() > 0 => Err(Fault::Half(Box::new(fault))),
        Some(fault) => Err(fault),
        None => Ok(answers.into_iter().flatten().collect()),
    }
}

/// Places by queue, in the order in which the queues first appear.
pub(super) fn by_queue<'n>(queues: impl Iterator<Item = &'n Name>) -> Vec<(&'n Name, Vec<usize>)> {
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
pub(super) fn steps(places: &[usize], item: impl Fn(usize) -> (JobId, usize)) -> Vec<&[usize]> {
    let (mut steps, mut begin, mut bytes) = (Vec::new(), 0, 0);
    let mut ids = HashSet::with_capacity(places.len().min(ITEMS_MAX));
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

fn size(settlement: &Settlement) -> usize {
    let next = &settlement.transition;
    next.error.as_ref().map_or(0, String::len) + next.output.as_ref().map_or(0, Bytes::len)
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
    async fn write(&self, places: &[usize]) -> Result<Vec<Settled>, Fault> {
        for _ in 0..ROUNDS {
            let Self { tools, session, queue, .. } = self;
            let definition = tools.definitions.of(session, &tools.keys, queue).await?;
            let arguments = self.arguments(places, &definition);
            let answer = session.run(&SETTLE, tools.keys.queue(queue).all(), arguments).await?;
            let (word, mut rest) = word(answer::array(answer)?)?;
            if word[..] == *b"stale" {
                tools.definitions.forget(queue);
                continue;
            }
            let said = answer::bytes(rest.next().unwrap_or(Value::Nil))?;
            if said.len() != places.len() {
                return Err(Fault::Half(Box::new(Fault::Corrupt("an outcome was not answered".to_owned()))));
            }
            return places
                .iter()
                .zip(said)
                .map(|(&place, said)| self.settled(place, said, &definition))
                .collect();
        }
        Err(never_stands_still())
    }

    fn arguments(&self, places: &[usize], definition: &Definition) -> Vec<Bytes> {
        let caps = definition.config.caps;
        let mut arguments = Vec::with_capacity(5 + 3 * places.len());
        arguments.push(self.tools.clock());
        arguments.push(definition.version());
        arguments.push(Bytes::from_static(self.right.as_str().as_bytes()));
        arguments.push(dropped(&definition.config.retention));
        arguments.push(places.len().to_string().into());
        let each = || places.iter().map(|&place| &self.settlements[place]);
        arguments.extend(each().map(|settlement| Bytes::copy_from_slice(settlement.id.as_bytes())));
        arguments.extend(each().map(|settlement| row::fence(settlement.fence)));
        let mut extras = Vec::new();
        for settlement in each() {
            let next = &settlement.transition;
            let mut flags = 0;
            if let Some(delay) = next.delay() {
                flags |= 1;
                extras.push(Bytes::copy_from_slice(&row::micros(delay).to_be_bytes()));
            }
            if next.is_recorded() {
                flags |= 2;
                extras.push(attempt::pack(next.ending, next.bounded_error(caps.error).as_deref()));
            }
            if next.check_output(caps.output).is_err() {
                flags |= 8;
            } else if let Some(output) = next.kept_output() {
                flags |= 4;
                extras.push(output.clone());
            }
            let mut outcome = row::start(next.state, next.reason, &next.counters);
            outcome.put_u8(b'0' + flags);
            arguments.push(outcome.freeze());
        }
        arguments.extend(extras);
        arguments
    }

    fn settled(&self, place: usize, said: u8, definition: &Definition) -> Result<Settled, Fault> {
        match said {
            b'f' => Ok(Settled::Fenced),
            b'l' => {
                let checked = self.settlements[place].transition.check_output(definition.config.caps.output);
                let refused = checked.err().map(Settled::Refused);
                refused.ok_or_else(|| Fault::Corrupt("an output that fits was refused".to_owned()))
            }
            _ => {
                let state = said.checked_sub(b'0').and_then(|code| State::from_code(code.into()));
                state.map(Settled::Applied).ok_or_else(|| {
                    let fault = Fault::Corrupt(format!("an outcome was answered with {said}"));
                    Fault::Half(Box::new(fault))
                })
            }
        }
    }
}

/// The states of which nothing is kept, as records begin with them.
fn dropped(retention: &Retention) -> Bytes {
    State::TERMINAL
        .into_iter()
        .filter(|state| !retention.keeps(*state))
        .map(|state| b'0' + state.code())
        .collect()
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
