//! What the definitions of queues say for jobs that say nothing themselves. A client keeps what it has read for a while, so
//! that an enqueue asks for it once; a change is heeded within that time.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime;
use windlass_core::{Name, Options};

use super::Client;

/// How long a definition is taken for what it was.
const FRESH: Duration = Duration::from_secs(10);
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
    /// What is known must do.
    Known,
}

#[derive(Debug, Clone)]
struct Known {
    options: Options,
    read_at: Instant,
}

impl Defaults {
    pub(super) fn new(runtime: runtime::Handle) -> Self {
        Self { known: Mutex::default(), runtime }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, queue: Name, options: Options) {
        let mut known = self.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(queue, Known { options, read_at: Instant::now() });
    }

    /// What is known of a queue. One call in each [`FRESH`] is told that it is too old, and reads it anew.
    fn known(&self, queue: &Name) -> Option<(Options, bool)> {
        let mut all = self.lock();
        let known = all.get_mut(queue)?;
        let is_old = known.read_at.elapsed() >= FRESH;
        if is_old {
            known.read_at = Instant::now();
        }
        Some((known.options.clone(), is_old))
    }
}

impl Client {
    /// These options over the defaults of the queue that they lead to. A store that does not answer is asked again by the
    /// enqueue itself, which says so; a name that is not one is refused there.
    pub(super) async fn over_defaults(&self, options: Options, lookup: Lookup) -> Options {
        let Ok(queue) = options.queue_name() else { return options };
        match self.shared.defaults.known(&queue) {
            Some((defaults, false)) => options.over(defaults),
            Some((defaults, true)) => {
                let client = self.clone();
                self.shared.defaults.runtime.spawn(async move { client.read_defaults(queue).await });
                options.over(defaults)
            }
            None if lookup == Lookup::Known => options,
            None => options.over(self.read_defaults(queue).await.unwrap_or_default()),
        }
    }

    async fn read_defaults(&self, queue: Name) -> Option<Options> {
        let definition = self.queue(&queue).ok()?.definition().await.ok()?;
        let options = definition.defaults.options();
        self.shared.defaults.remember(queue, options.clone());
        Some(options)
    }
}
