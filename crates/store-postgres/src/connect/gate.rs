//! Holds attempts to connect back after one has failed, so that a server that comes back is not run over.
//!
//! While the gate is closed everyone gets the last reason at once. When it opens, one attempt goes first; the others
//! follow when it has succeeded.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;
use windlass_store_server::backoff::{PAUSE_MIN, pause};

use crate::error::{Remedy, Unreachable};

/// One per server, shared by all connections.
#[derive(Debug, Default)]
pub(super) struct Gate {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    closed: Option<Closed>,
    is_trying: bool,
}

#[derive(Debug)]
struct Closed {
    until: Instant,
    why: Unreachable,
}

/// The right to connect once.
#[derive(Debug)]
pub(super) struct Attempt<'g> {
    gate: &'g Gate,
    /// The one that goes first after a failure.
    is_first: bool,
}

impl Gate {
    /// The right to connect now, or why the last attempt failed.
    pub(super) fn enter(&self) -> Result<Attempt<'_>, Unreachable> {
        let mut state = self.state();
        let Some(closed) = &state.closed else { return Ok(Attempt { gate: self, is_first: false }) };
        if state.is_trying || Instant::now() < closed.until {
            return Err(closed.why.clone());
        }
        state.is_trying = true;
        Ok(Attempt { gate: self, is_first: true })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attempt<'_> {
    /// There is a connection.
    pub(super) fn succeeded(self) {
        let mut state = self.gate.state();
        state.failures = 0;
        state.closed = None;
    }

    /// There is none. The next attempts wait for a random time, longer with each failure in a row.
    pub(super) fn failed(self, why: &Unreachable) {
        let mut state = self.gate.state();
        // Several that failed at once count as one.
        if self.is_first || state.closed.is_none() {
            state.failures = state.failures.saturating_add(1);
        }
        // A server that is merely full has room again at any moment, and its callers wait anyway.
        let is_full = why.remedy == Remedy::WaitForOthers;
        let pause = if is_full { PAUSE_MIN } else { pause(state.failures) };
        state.closed = Some(Closed { until: Instant::now() + pause, why: why.clone() });
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if self.is_first {
            self.gate.state().is_trying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_store_server::backoff::PAUSE_MAX;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_one_goes_first_and_the_others_hear_why() {
        let gate = Gate::default();
        let down = Unreachable::passing("down");
        let (first, second) = (gate.enter().unwrap(), gate.enter().unwrap());
        first.failed(&down);
        second.failed(&down);
        assert_eq!(gate.enter().unwrap_err(), down);
        tokio::time::advance(PAUSE_MAX).await;
        let first = gate.enter().expect("the pause is over");
        assert_eq!(gate.enter().unwrap_err(), down, "one at a time");
        first.succeeded();
        let _both = (gate.enter().unwrap(), gate.enter().unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_but_not_beyond_the_longest() {
        let gate = Gate::default();
        for _ in 0..40 {
            gate.enter().expect("the pause is over").failed(&Unreachable::passing("down"));
            let until = gate.state().closed.as_ref().unwrap().until;
            assert!((PAUSE_MIN..=PAUSE_MAX).contains(&(until - Instant::now())));
            tokio::time::advance(PAUSE_MAX).await;
        }
        assert_eq!(gate.state().failures, 40);
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_was_given_up_lets_the_next_one_in() {
        let gate = Gate::default();
        gate.enter().unwrap().failed(&Unreachable::passing("down"));
        tokio::time::advance(PAUSE_MAX).await;
        drop(gate.enter().expect("the pause is over"));
        gate.enter().expect("no attempt is under way");
    }
}
