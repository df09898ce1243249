//! Which queues mask the contents of their jobs, as far as that was asked for lately.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Name;
use windlass_worker::{Client, Result};

/// How long a definition is taken for what it was.
const FRESH: Duration = Duration::from_secs(5);
/// The most queues that are remembered; beyond that all are forgotten.
const REMEMBERED_MAX: usize = 10_000;

/// Queues, whether they mask, and since when that is known.
#[derive(Debug, Default)]
pub(crate) struct Masks {
    known: Mutex<HashMap<Name, (bool, Instant)>>,
}

impl Masks {
    /// Whether the contents of this queue's jobs are masked. A definition that does not read masks: it may have said so.
    pub(crate) async fn are_on(&self, client: &Client, queue: &Name) -> Result<bool> {
        let lock = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((masked, at)) = lock().get(queue)
            && at.elapsed() < FRESH
        {
            return Ok(*masked);
        }
        let record = client.queue(queue)?.record().await?;
        let masked = record.is_some_and(|record| record.config.masked || record.unreadable.is_some());
        let mut known = lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(queue.clone(), (masked, Instant::now()));
        Ok(masked)
    }

    /// A definition was changed by this server.
    pub(crate) fn forget(&self, queue: &Name) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }
}
