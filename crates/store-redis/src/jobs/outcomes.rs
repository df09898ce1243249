//! Outcomes of attempts, as `scripts/shared/outcomes.lua` takes them.

use std::collections::HashMap;

use bytes::{BufMut, Bytes, BytesMut};
use windlass_core::judge::Transition;
use windlass_core::queue::{Keep, Retention};
use windlass_core::size::Caps;
use windlass_core::store::{AttemptWrite, Settlement};
use windlass_core::{Fence, JobId, State};

use crate::agenda::Needs;
use crate::definitions::Definition;
use crate::error::Fault;
use crate::format::OUTCOME;
use crate::row::{self, attempt};

/// An attempt, and what the judge decided if it ends.
#[derive(Clone, Copy)]
pub(crate) struct Attempt<'a> {
    pub(crate) id: JobId,
    pub(crate) fence: Fence,
    pub(crate) next: Option<&'a Transition>,
}

impl<'a> From<&'a Settlement> for Attempt<'a> {
    fn from(settlement: &'a Settlement) -> Self {
        Self { id: settlement.id, fence: settlement.fence, next: Some(&settlement.transition) }
    }
}

impl<'a> From<&'a AttemptWrite> for Attempt<'a> {
    fn from(write: &'a AttemptWrite) -> Self {
        Self { id: write.id, fence: write.fence, next: write.transition.as_ref() }
    }
}

impl Attempt<'_> {
    /// How many bytes its end has.
    pub(crate) fn size(&self) -> usize {
        let Some(next) = self.next else { return 0 };
        next.error.as_ref().map_or(0, String::len) + next.output.as_ref().map_or(0, Bytes::len)
    }
}

/// Outcomes by what a script needs to know of them once only: fence, next state and counters, and what follows for each.
/// Jobs of one claim that came to the same end, as most do, share all of it.
pub(crate) struct Runs(Vec<(Common, Vec<usize>)>);

/// How much that is.
const COMMON_BYTES: usize = OUTCOME.width();

/// As the script takes it, [`OUTCOME`].
type Common = [u8; COMMON_BYTES];

impl Runs {
    /// The outcomes at these places; all that have everything in common are one run.
    pub(crate) fn of<'a>(places: &[usize], attempt: impl Fn(usize) -> Attempt<'a>, caps: &Caps) -> Self {
        let mut runs: Vec<(Common, Vec<usize>)> = Vec::new();
        let (mut known, mut newest) = (HashMap::new(), 0);
        for &place in places {
            let common = common(attempt(place), caps);
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

    /// The same in the order of the places: those that stand side by side are one run.
    pub(crate) fn in_order<'a>(
        places: &[usize],
        attempt: impl Fn(usize) -> Attempt<'a>,
        caps: &Caps,
    ) -> Self {
        let mut runs: Vec<(Common, Vec<usize>)> = Vec::new();
        for &place in places {
            let common = common(attempt(place), caps);
            match runs.last_mut() {
                Some((before, places)) if *before == common => places.push(place),
                _ => runs.push((common, vec![place])),
            }
        }
        Self(runs)
    }

    /// All places, in the order in which the script gets them and answers.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        self.0.iter().flat_map(|(_, places)| places.iter().copied())
    }

    /// What these outcomes leave to maintenance. Most leave nothing, or jobs that are pruned later.
    pub(crate) fn needs<'a>(&self, attempt: impl Fn(usize) -> Attempt<'a>, retention: &Retention) -> Needs {
        let mut needs = Needs::default();
        for next in self.0.iter().filter_map(|(_, places)| attempt(places[0]).next) {
            let keep = retention.of(next.state);
            // One that goes back may have been asked to stop, and is cancelled then. One that did not begin may expire.
            needs.prune |= keep.is_none_or(|keep| !keep.is_none() && keep != Keep::FOREVER);
            needs.promote |=
                !next.state.is_terminal() && (next.state == State::Scheduled || next.counters.attempt == 0);
        }
        needs
    }

    /// The arguments of a script, after the clock and the version of the definition.
    pub(crate) fn push_to<'a>(
        &self,
        arguments: &mut Vec<Bytes>,
        attempt: impl Fn(usize) -> Attempt<'a>,
        right: &'static str,
        definition: &Definition,
    ) {
        let caps = &definition.config.caps;
        let count = self.places().count();
        arguments.reserve(4 + 2 * self.0.len() + count);
        arguments.push(Bytes::from_static(right.as_bytes()));
        arguments.push(dropped(&definition.config.retention));
        arguments.push(count.to_string().into());
        arguments.push(self.0.len().to_string().into());
        for (common, places) in &self.0 {
            arguments.push(Bytes::copy_from_slice(common));
            arguments.push(places.len().to_string().into());
        }
        // Out of one piece: each by itself would have to be allocated.
        let mut ids = BytesMut::with_capacity(16 * count);
        self.places().for_each(|place| ids.put_slice(attempt(place).id.as_bytes()));
        let mut ids = ids.freeze();
        arguments.extend((0..count).map(|_| ids.split_to(16)));
        for next in self.places().filter_map(|place| attempt(place).next) {
            arguments
                .extend(next.delay().map(|delay| Bytes::copy_from_slice(&row::micros(delay).to_be_bytes())));
            if next.is_recorded() {
                arguments.push(attempt::pack(next.ending, next.bounded_error(caps.error).as_deref()));
            }
            if next.check_output(caps.output).is_ok() {
                arguments.extend(next.kept_output().cloned());
            }
        }
    }
}

fn common(attempt: Attempt<'_>, caps: &Caps) -> Common {
    let mut common = [0; COMMON_BYTES];
    let mut rest = &mut common[..];
    row::put_fence(&mut rest, attempt.fence);
    let Some(next) = attempt.next else {
        common[COMMON_BYTES - 1] = b'0' + 16;
        return common;
    };
    let mut follows = b'0';
    follows += u8::from(next.delay().is_some());
    follows += 2 * u8::from(next.is_recorded());
    follows += match next.check_output(caps.output) {
        Ok(()) => 4 * u8::from(next.kept_output().is_some()),
        Err(_) => 8,
    };
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
pub(crate) fn partly_corrupt(what: String) -> Fault {
    Fault::Corrupt(what).partial()
}

/// A state that a script answers for an outcome.
pub(crate) fn state(said: u8) -> Result<State, Fault> {
    let state = said.checked_sub(b'0').and_then(|code| State::from_code(code.into()));
    state.ok_or_else(|| partly_corrupt(format!("an outcome was answered with {said}")))
}
