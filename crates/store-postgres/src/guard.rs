//! Whether this program may still work with the schema. A step of a newer program can end that at any time; a program that
//! is running looks again every few seconds, with one of its calls, and then stays out until it is replaced.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::StoreError;
use windlass_store_server::remote::Admit;

use crate::error::{Fault, Unreachable};
use crate::session::Session;
use crate::{Tools, migrate};

/// How long a look is good for. With the deadline of a call that fails on top, a newer schema is noticed within a minute.
const INTERVAL: Duration = Duration::from_secs(20);

/// How often a program says which functions it uses, so that no newer one drops them.
const INTERVAL_USE: Duration = Duration::from_secs(6 * 60 * 60);

/// How often a program that stays out looks whether it may come back.
const INTERVAL_OUT: Duration = Duration::from_secs(5);

/// Stands before every call of a store.
#[derive(Debug)]
pub(crate) struct Guard {
    schema: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// When the next call looks.
    next: Instant,
    /// What the schema asks for, if it is more than this program knows.
    refused: Option<i64>,
    /// When the program last said which functions it uses.
    noted: Instant,
}

impl Admit<Session> for Tools {
    /// After a look if one is due.
    async fn admit(self: &Arc<Self>, session: &Session) -> Result<(), Fault> {
        let guard = &self.guard;
        if !guard.takes_turn() {
            return guard.state().refused.map_or(Ok(()), |found| Err(migrate::too_new(found).into()));
        }
        if guard.takes_note() {
            migrate::note_use(session, &guard.schema).await;
        }
        let looked = migrate::versions(session, &guard.schema).await;
        let mut state = guard.state();
        match looked {
            Ok(versions) => {
                let fits = versions.check();
                state.refused = match fits {
                    Err(StoreError::SchemaTooNew { found, .. }) => Some(found),
                    _ => None,
                };
                fits.map_err(Fault::from)
            }
            Err(fault) => {
                // The next call looks.
                state.next = Instant::now();
                // Nothing was sent but a question.
                Err(match fault {
                    Fault::Lost(what) => Unreachable::passing(what).into(),
                    fault => fault,
                })
            }
        }
    }
}

impl Guard {
    /// For a schema that was just found to fit; quoted.
    pub(crate) fn new(schema: String) -> Self {
        let now = Instant::now();
        Self { schema, state: Mutex::new(State { next: now + INTERVAL, refused: None, noted: now }) }
    }

    /// Of the calls that find a look due, one takes it.
    fn takes_turn(&self) -> bool {
        let (mut state, now) = (self.state(), Instant::now());
        let is_due = now >= state.next;
        if is_due {
            state.next = now + if state.refused.is_some() { INTERVAL_OUT } else { INTERVAL };
        }
        is_due
    }

    /// Whether it is time to say which functions are used.
    fn takes_note(&self) -> bool {
        let (mut state, now) = (self.state(), Instant::now());
        let is_due = now.duration_since(state.noted) >= INTERVAL_USE;
        if is_due {
            state.noted = now;
        }
        is_due
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As if the time for the next look had come.
    #[cfg(test)]
    fn let_time_pass(&self) {
        self.state().next = Instant::now();
    }
}

#[cfg(test)]
mod tests;
