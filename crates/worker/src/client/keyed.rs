//! Jobs with a key: a store takes them only into a queue that has rules for keys, so the first one gives its queue empty
//! rules. Which queues have some is remembered, and asked for again when a store says otherwise.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::queue::KeyRules;
use windlass_core::store::Enqueued;
use windlass_core::{Name, NewJob, StoreError};

use super::{Client, QueueHandle};
use crate::error::{Error, Result};

/// The most queues that are remembered; beyond that all are forgotten, which costs a look at each.
const REMEMBERED_MAX: usize = 10_000;

/// Queues that are known to have rules for keys.
#[derive(Debug, Default)]
pub(super) struct KeyedQueues(Mutex<HashSet<Name>>);

impl KeyedQueues {
    fn lock(&self) -> MutexGuard<'_, HashSet<Name>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, queue: Name) {
        let mut known = self.lock();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(queue);
    }
}

impl QueueHandle {
    /// Lets its jobs have a key: gives it rules for keys that limit nothing, if it has none. Enqueues of a client do this by
    /// themselves, but for those within a transaction.
    pub async fn permit_keys(&self) -> Result<()> {
        self.change(|config| {
            config.keys.get_or_insert_with(KeyRules::default);
        })
        .await
        .map(drop)
    }
}

impl Client {
    /// Sees to it that the queues of these jobs take them, as far as keys are concerned.
    pub(crate) async fn permit_keys(&self, jobs: &[NewJob]) -> Result<()> {
        for job in jobs.iter().filter(|job| job.key.is_some()) {
            if !self.shared.keyed.lock().contains(&job.queue) {
                self.queue(&job.queue)?.permit_keys().await?;
                self.shared.keyed.remember(job.queue.clone());
            }
        }
        Ok(())
    }

    /// Hands in jobs, once more if a queue of them has lost its rules for keys: it was removed and has come back.
    pub(super) async fn with_keys<T, F>(&self, jobs: &[NewJob], enqueue: impl Fn() -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        self.permit_keys(jobs).await?;
        match enqueue().await {
            Err(Error::Store(StoreError::NoKeys { queue })) => {
                self.shared.keyed.lock().remove(&queue);
                self.permit_keys(jobs).await?;
                enqueue().await
            }
            answer => answer,
        }
    }

    /// Enqueues one job that has a key. It shares calls with others, and passes through a lane even if it is alone.
    pub(super) async fn enqueue_keyed(&self, job: NewJob) -> Result<Enqueued> {
        let one = [job];
        let enqueue = || {
            let ([job], enqueues) = (one.clone(), &self.shared.enqueues);
            async move {
                let queue = job.queue.clone();
                Ok(enqueues.submit(&queue, job).await.map_err(|_closed| Error::Closed)??)
            }
        };
        self.with_keys(&one, enqueue).await
    }
}
