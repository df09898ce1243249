//! The calls that were accepted lately, so that a repeat is known again although its jobs may be gone.

use std::collections::{HashSet, VecDeque};

use windlass_core::CallId;
use windlass_core::clock::{Step, Timestamp};
use windlass_core::store::CALL_MEMORY;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    known: HashSet<CallId>,
    /// In the order of acceptance, so that the oldest are forgotten first.
    accepted: VecDeque<(Timestamp, CallId)>,
}

/// How many old calls one new call forgets: more than it adds, so the book shrinks, and few, so that no call waits.
const FORGOTTEN_MAX: usize = 8;

impl Calls {
    pub(crate) fn knows(&self, call: CallId) -> bool {
        self.known.contains(&call)
    }

    /// The clock was set: what was accepted so long ago is so long ago still.
    pub(crate) fn outlive(&mut self, step: Step) {
        for (at, _) in &mut self.accepted {
            *at = Timestamp::from_micros(at.as_micros().saturating_add(step.micros()));
        }
    }

    pub(crate) fn remember(&mut self, call: CallId, now: Timestamp) {
        for _ in 0..FORGOTTEN_MAX {
            match self.accepted.front() {
                Some(&(at, oldest)) if at.plus(CALL_MEMORY) <= now => {
                    self.accepted.pop_front();
                    self.known.remove(&oldest);
                }
                _ => break,
            }
        }
        if self.known.insert(call) {
            self.accepted.push_back((now, call));
        }
    }
}
