//! Marks queues whose jobs may expire with something to follow. Such a job dies inside the store, and maintenance looks for it
//! only where there is a mark: queues without such jobs cost it nothing.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::{JobId, Name, NewJob, Options};

use super::Client;
use super::defaults::Lookup;
use crate::dead::{EXPIRING, HOME};
use crate::error::Result;
use crate::job::Job;

/// How long a client takes a queue for marked before it looks again.
const FRESH: Duration = Duration::from_secs(24 * 3600);
/// The most queues that are remembered; beyond that all are forgotten, which costs a write for each.
const REMEMBERED_MAX: usize = 10_000;

/// How often a mark is tried that no caller waits for, and the pause between.
const ASIDE_TRIES: u32 = 4;
const ASIDE_PAUSE: Duration = Duration::from_secs(1);

/// When this client has marked queues.
#[derive(Debug, Default)]
pub(super) struct Expiring {
    marked: Mutex<HashMap<Name, Instant>>,
    /// Marks that are written and that no caller waits for: many jobs of a transaction begin one write.
    under_way: Mutex<HashSet<Name>>,
}

impl Expiring {
    fn is_marked(&self, queue: &Name) -> bool {
        let marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        marked.get(queue).is_some_and(|at| at.elapsed() < FRESH)
    }

    fn note(&self, queue: Name) {
        let mut marked = self.marked.lock().unwrap_or_else(PoisonError::into_inner);
        if marked.len() >= REMEMBERED_MAX {
            marked.clear();
        }
        marked.insert(queue, Instant::now());
    }

    /// Whether the caller is to write the mark of a queue; then it says when that has ended.
    fn begin(&self, queue: &Name) -> bool {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).insert(queue.clone())
    }

    fn end(&self, queue: &Name) {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).remove(queue);
    }
}

impl Client {
    /// A job as it is stored, with the defaults of its queue, for a handler whose own transaction may be open.
    pub(crate) async fn new_following_job<J: Job>(
        &self,
        job: J,
        id: Option<JobId>,
        options: Options,
    ) -> Result<NewJob> {
        let enqueue = self.enqueue(job).options(options);
        let enqueue = match id {
            Some(id) => enqueue.id(id),
            None => enqueue,
        };
        Ok(enqueue.into_job(Lookup::Within).await?.1)
    }

    /// Sees to it that a job with these options is followed also if it expires: before it is stored.
    pub(super) async fn mark_expiring(&self, options: &Options, lookup: Lookup) -> Result<()> {
        match options.queue_name() {
            Ok(queue) if options.is_followed_when_expired() => self.mark(queue, lookup).await,
            // A name that is not one is refused by the enqueue.
            _ => Ok(()),
        }
    }

    /// The same for a job that was put together by hand.
    pub(super) async fn mark_expiring_job(&self, job: &NewJob) -> Result<()> {
        match job.is_followed_when_expired() {
            true => self.mark(job.queue.clone(), Lookup::Wait).await,
            false => Ok(()),
        }
    }

    async fn mark(&self, queue: Name, lookup: Lookup) -> Result<()> {
        if self.store().records().is_none() || self.shared.expiring.is_marked(&queue) {
            return Ok(());
        }
        match lookup {
            Lookup::Wait => self.put_mark(queue).await,
            Lookup::Within | Lookup::Known => {
                if self.shared.expiring.begin(&queue) {
                    let client = self.clone();
                    self.shared.defaults.runtime().spawn(async move { client.put_mark_aside(queue).await });
                }
                Ok(())
            }
        }
    }

    /// Puts a mark that no caller waits for. The caller's transaction may keep it waiting for longer than the store tries. If
    /// it fails each time, the next such job tries again.
    async fn put_mark_aside(&self, queue: Name) {
        for tries_left in (0..ASIDE_TRIES).rev() {
            match self.put_mark(queue.clone()).await {
                Ok(()) => break,
                Err(error) if tries_left == 0 => {
                    tracing::warn!(%queue, %error, "what follows jobs that expire may not be enqueued: no mark");
                }
                Err(_) => tokio::time::sleep(ASIDE_PAUSE).await,
            }
        }
        self.shared.expiring.end(&queue);
    }

    async fn put_mark(&self, queue: Name) -> Result<()> {
        // The instant of the first write counts: what expires from then on is followed.
        let marked =
            self.records(HOME)?.put(format!("{EXPIRING}{queue}"), &serde_json::json!({})).if_absent();
        match marked.await {
            Err(error) if !error.is_conflict() => return Err(error),
            _ => {}
        }
        self.shared.expiring.note(queue);
        Ok(())
    }
}
