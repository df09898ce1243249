//! Settle and reap: the outcomes of attempts, each written only if its fence holds; and the ends of attempts that were
//! reaped before.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use redis::Value;
use windlass_core::bell::Rings;
use windlass_core::queue::{Keep, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{Right, Settled, Settlement};
use windlass_core::{JobId, Name, State};

use crate::agenda::{Needs, Notes};
use crate::definitions::{Definition, ROUNDS, never_stands_still};
use crate::error::Fault;
use crate::format::OUTCOME;
use crate::ids::{IdSet, Secret};
use crate::row::{self, attempt};
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
        for places in steps(&places, |place| (settlements[place].id, size(&settlements[place]))) {
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
    /// Writes the outcomes at these places; each answer comes with its place.
    async fn write(&self, places: &[usize]) -> Result<Vec<(usize, Settled)>, Fault> {
        for _ in 0..ROUNDS {
            let Self { tools, session, queue, .. } = self;
            let definition = tools.definitions.of(session, &tools.keys, queue).await?;
            let runs = Runs::of(self.settlements, places, &definition.config.caps);
            let arguments = self.arguments(&runs, &definition);
            let needs = self.needs(&runs, &definition.config.retention);
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
            self.ring_room(&settled, &definition);
            return Ok(settled);
        }
        Err(never_stands_still())
    }

    /// Where few jobs may run at once, in all or of a key, another one may start for each that ran and has ended.
    fn ring_room(&self, settled: &[(usize, Settled)], definition: &Definition) {
        let of_keys = definition.config.keys.as_ref().and_then(|keys| keys.concurrency);
        if definition.config.concurrency.or(of_keys).is_none() || self.right == Right::Late {
            return;
        }
        let mut rings = Rings::NONE;
        for _ in settled.iter().filter(|(_, settled)| matches!(settled, Settled::Applied(_))) {
            rings.add_entered(State::Ready, self.queue);
        }
        self.tools.ring(rings);
    }

    /// What these outcomes leave to maintenance. Most leave nothing, or jobs that are pruned later.
    fn needs(&self, runs: &Runs, retention: &Retention) -> Needs {
        let mut needs = Needs::default();
        for (_, places) in &runs.0 {
            let next = &self.settlements[places[0]].transition;
            let keep = retention.of(next.state);
            // One that goes back may have been asked to stop, and is cancelled then. One that did not begin may expire.
            needs.prune |= keep.is_none_or(|keep| !keep.is_none() && keep != Keep::FOREVER);
            needs.promote |=
                !next.state.is_terminal() && (next.state == State::Scheduled || next.counters.attempt == 0);
        }
        needs
    }

    fn arguments(&self, runs: &Runs, definition: &Definition) -> Vec<Bytes> {
        let caps = &definition.config.caps;
        let count = runs.places().count();
        let mut arguments = Vec::with_capacity(6 + 2 * runs.0.len() + count);
        arguments.push(self.tools.clock());
        arguments.push(definition.version());
        arguments.push(Bytes::from_static(self.right.as_str().as_bytes()));
        arguments.push(dropped(&definition.config.retention));
        arguments.push(count.to_string().into());
        arguments.push(runs.0.len().to_string().into());
        for (common, places) in &runs.0 {
            arguments.push(Bytes::copy_from_slice(common));
            arguments.push(places.len().to_string().into());
        }
        let each = || runs.places().map(|place| &self.settlements[place]);
        // Out of one piece: each by itself would have to be allocated.
        let mut ids = BytesMut::with_capacity(16 * count);
        each().for_each(|settlement| ids.put_slice(settlement.id.as_bytes()));
        let mut ids = ids.freeze();
        arguments.extend((0..count).map(|_| ids.split_to(16)));
        for settlement in each() {
            let next = &settlement.transition;
            arguments
                .extend(next.delay().map(|delay| Bytes::copy_from_slice(&row::micros(delay).to_be_bytes())));
            if next.is_recorded() {
                arguments.push(attempt::pack(next.ending, next.bounded_error(caps.error).as_deref()));
            }
            if next.check_output(caps.output).is_ok() {
                arguments.extend(next.kept_output().cloned());
            }
        }
        arguments
    }

    fn settled(&self, place: usize, said: u8, definition: &Definition) -> Result<Settled, Fault> {
        match said {
            b'f' => Ok(Settled::Fenced),
            b'l' => {
                let checked = self.settlements[place].transition.check_output(definition.config.caps.output);
                let refused = checked.err().map(Settled::Refused);
                refused.ok_or_else(|| partly_corrupt("an output that fits was refused".to_owned()))
            }
            _ => {
                let state = said.checked_sub(b'0').and_then(|code| State::from_code(code.into()));
                let wrong = || partly_corrupt(format!("an outcome was answered with {said}"));
                state.map(Settled::Applied).ok_or_else(wrong)
            }
        }
    }
}

/// Outcomes by what a script needs to know of them once only: fence, next state and counters, and what follows for each.
/// Jobs of one claim that came to the same end, as most do, share all of it.
struct Runs(Vec<(Common, Vec<usize>)>);

/// How much that is.
const COMMON_BYTES: usize = OUTCOME.width();

/// As the script takes it, [`OUTCOME`].
type Common = [u8; COMMON_BYTES];

impl Runs {
    fn of(settlements: &[Settlement], places: &[usize], caps: &Caps) -> Self {
        let mut runs: Vec<(Common, Vec<usize>)> = Vec::new();
        let (mut known, mut newest) = (HashMap::new(), 0);
        for &place in places {
            let common = common(&settlements[place], caps);
            if runs.get(newest).is_none_or(|(before, _)| *before != common) {
                newest = *known.entry(common).or_insert(runs.len());
                if newest == runs.len() {
                    runs.push((common, Vec::with_capacity(places.len() / (1 + newest))));
                }
            }
            runs[newest].1.push(place);
        }
        Self(runs)
    }

    /// All places, in the order in which the script gets them and answers.
    fn places(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|(_, places)| places.iter().copied())
    }
}

fn common(settlement: &Settlement, caps: &Caps) -> Common {
    let next = &settlement.transition;
    let mut follows = b'0';
    follows += u8::from(next.delay().is_some());
    follows += 2 * u8::from(next.is_recorded());
    follows += match next.check_output(caps.output) {
        Ok(()) => 4 * u8::from(next.kept_output().is_some()),
        Err(_) => 8,
    };
    let mut common = [0; COMMON_BYTES];
    let mut rest = &mut common[..];
    row::put_fence(&mut rest, settlement.fence);
    row::put_start(&mut rest, next.state, next.reason, &next.counters);
    rest.put_u8(follows);
    common
}

/// The states of which nothing is kept, as records begin with them.
fn dropped(retention: &Retention) -> Bytes {
    State::TERMINAL
        .into_iter()
        .filter(|state| !retention.keeps(*state))
        .map(|state| b'0' + state.code())
        .collect()
}

/// The script has written, and what it says of it makes no sense.
fn partly_corrupt(what: String) -> Fault {
    Fault::Corrupt(what).partial()
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
