//! What the definitions of queues say for jobs that say nothing themselves. A client keeps what it has read for a while, so
//! that an enqueue asks for it once; a change is heeded within that time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime;
use windlass_core::{Name, Options};

use super::Client;
use crate::error::{Error, Result};

/// How long a definition is taken for what it was.
const FRESH: Duration = Duration::from_secs(10);
/// How often a definition is asked for, and the pause that grows between.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(5);
/// The most queues that are remembered; beyond that all are forgotten, which costs a look at each.
const REMEMBERED_MAX: usize = 10_000;

/// The defaults of queues, and since when they are known.
#[derive(Debug)]
pub(super) struct Defaults {
    known: Mutex<HashMap<Name, Known>>,
    runtime: runtime::Handle,
}

/// Whether a caller can wait for a definition that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lookup {
    /// It is read first.
    Wait,
    /// It is read first, and no write is waited for: the caller's own transaction may be what that write waits for.
    Within,
    /// What is known must do.
    Known,
}

#[derive(Debug, Clone)]
struct Known {
    /// Nothing where the definition says nothing, as nearly all do.
    options: Option<Options>,
    read_at: Instant,
}

impl Defaults {
    pub(super) fn new(runtime: runtime::Handle) -> Self {
        Self { known: Mutex::default(), runtime }
    }

    /// Where work is done that no caller waits for.
    pub(super) fn runtime(&self) -> &runtime::Handle {
        &self.runtime
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, queue: Name, options: Options) {
        let options = Some(options).filter(|options| *options != Options::new());
        let mut known = self.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(queue, Known { options, read_at: Instant::now() });
    }

    /// What is known of a queue, and for how long. One call in each [`FRESH`] is told that it is too old, and reads it anew.
    fn known(&self, queue: &str) -> Option<(Option<Options>, Duration)> {
        let mut all = self.lock();
        let known = all.get_mut(queue)?;
        let age = known.read_at.elapsed();
        if age >= FRESH {
            known.read_at = Instant::now();
        }
        Some((known.options.clone(), age))
    }
}

impl Client {
    /// These options over the defaults of the queue that they lead to. A name that is not one is refused by the enqueue.
    pub(super) async fn over_defaults(&self, options: Options, lookup: Lookup) -> Result<Options> {
        let options = self.with_defaults(options, lookup).await?;
        self.mark_expiring(&options, lookup).await?;
        Ok(options)
    }

    async fn with_defaults(&self, options: Options, lookup: Lookup) -> Result<Options> {
        let over = |options: Options, defaults: Option<Options>| match defaults {
            Some(defaults) => options.over(defaults),
            None => options,
        };
        let known = match self.shared.defaults.known(options.queue_text()) {
            Some((defaults, age)) if age < FRESH => return Ok(over(options, defaults)),
            known => known,
        };
        let Ok(queue) = options.queue_name() else { return Ok(options) };
        match known {
            // After a rest nothing says that they still hold.
            Some((_, age)) if age >= 2 * FRESH && lookup != Lookup::Known => {
                Ok(options.over(self.read_defaults(queue).await?))
            }
            None if lookup != Lookup::Known => Ok(options.over(self.read_defaults(queue).await?)),
            known => {
                let client = self.clone();
                // If it fails, the next call asks again.
                self.shared
                    .defaults
                    .runtime
                    .spawn(async move { client.read_defaults(queue).await.map(drop) });
                Ok(over(options, known.and_then(|(defaults, _)| defaults)))
            }
        }
    }

    /// The defaults of a queue are to be read anew.
    pub(super) fn forget_defaults(&self, queue: &Name) {
        self.shared.defaults.lock().remove(queue);
    }

    /// Asks a few times, as an enqueue is repeated: a store that is away for a moment is none the caller's business.
    async fn read_defaults(&self, queue: Name) -> Result<Options> {
        let handle = self.queue(&queue)?;
        let mut tries = 1;
        let definition = loop {
            match handle.definition().await {
                Err(Error::Store(error)) if error.is_transient() && tries < TRIES => {
                    tokio::time::sleep(PAUSE * 4_u32.pow(tries)).await;
                    tries += 1;
                }
                answer => break answer?,
            }
        };
        let options = definition.defaults.options();
        self.shared.defaults.remember(queue, options.clone());
        Ok(options)
    }
}
