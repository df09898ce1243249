//! The number of a namespace's layout: whether this program can read what is there.
//!
//! A namespace gets the number with its first queue. A program that does not know the number it finds would misread
//! what is there, and stays out: it is not opened, and one that runs looks again now and then, beside whatever call
//! comes, and answers every call with an error as long as the number is not its own.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::Value;
use windlass_core::StoreError;

use crate::answer;
use crate::error::Fault;
use crate::keys::Keys;
use crate::session::Session;

/// The layout of keys and records that this program writes and reads. Whoever raises it has to convert what is there
/// and to write the new number then: it is entered by itself only where there was none.
pub(crate) const LAYOUT: i64 = 4;

/// How long a look counts: a third of the minute within which a program is to notice.
const LOOKED_FOR: Duration = Duration::from_secs(20);

/// What this process knows of the number.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    last: Mutex<Look>,
}

#[derive(Debug, Default)]
struct Look {
    at: Option<Instant>,
    /// The number, if it is not ours.
    other: Option<i64>,
}

impl Layout {
    /// Whether it is time to look; says so to one caller only.
    pub(crate) fn is_due(&self) -> bool {
        let mut last = self.last();
        let is_due = last.at.is_none_or(|at| at.elapsed() > LOOKED_FOR);
        if is_due {
            last.at = Some(Instant::now());
        }
        is_due
    }

    /// Whether this program may use the namespace, as far as is known.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.last().other.map_or(Ok(()), |found| Err(refusal(found)))
    }

    /// Notes the number that was found, and whether it is ours.
    pub(crate) fn note(&self, found: i64) -> Result<(), Fault> {
        let other = (found != LAYOUT).then_some(found);
        *self.last() = Look { at: Some(Instant::now()), other };
        other.map_or(Ok(()), |found| Err(refusal(found).into()))
    }

    /// Looks at the number. A namespace without one is anybody's.
    pub(crate) async fn look(&self, session: &Session, keys: &Keys) -> Result<(), Fault> {
        let mut get = redis::cmd("GET");
        get.arg(&keys.layout()[..]);
        match session.command(get).await? {
            Value::Nil => self.note(LAYOUT),
            found => self.note(answer::integer(found)?),
        }
    }

    /// The last look was long ago.
    #[cfg(test)]
    pub(crate) fn expire(&self) {
        self.last().at = Instant::now().checked_sub(2 * LOOKED_FOR);
    }

    fn last(&self) -> MutexGuard<'_, Look> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn refusal(found: i64) -> StoreError {
    if found > LAYOUT {
        return StoreError::SchemaTooNew { found, known: LAYOUT };
    }
    StoreError::Address(format!(
        "the namespace has layout {found}, which was never released, and this program reads layout {LAYOUT}: use \
         another namespace, or remove the keys of this one (wl:{{namespace}}:* and wl:{{namespace:*}}:*)"
    ))
}
