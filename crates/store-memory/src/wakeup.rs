//! Wake-ups: which rings a call owes, gathered while it holds the table and rung after.

use windlass_core::State;
use windlass_core::bell::{Bell, Topic};
use windlass_core::store::Wakeup;

use crate::MemoryStore;

impl Wakeup for MemoryStore {
    fn bell(&self) -> &Bell {
        &self.bell
    }
}

/// What a call has to ring about.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    work: bool,
    cancel: bool,
    finish: bool,
}

impl Rings {
    /// A job came into this state.
    pub(crate) fn entered(&mut self, state: State) {
        self.work |= matches!(state, State::Ready | State::Scheduled);
        self.finish |= state.is_terminal();
    }

    /// A running job is asked to stop.
    pub(crate) fn asked_to_stop(&mut self) {
        self.cancel = true;
    }

    /// A job is gone, and whoever waits for its end should hear of that.
    pub(crate) fn removed(&mut self) {
        self.finish = true;
    }

    /// Owes no ring about work.
    pub(crate) fn forget_work(&mut self) {
        self.work = false;
    }

    pub(crate) fn ring(self, bell: &Bell) {
        for (owed, topic) in
            [(self.work, Topic::Work), (self.cancel, Topic::Cancel), (self.finish, Topic::Finish)]
        {
            if owed {
                bell.ring(topic);
            }
        }
    }
}
