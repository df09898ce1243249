//! Dead letters, as an operator works with them: search, group, sample, replay, edit and remove.
//!
//! All of it is above the store's traits. Searching reads pages of dead jobs, the newest accepted first, and says how far it
//! looked. Replaying sends jobs back under their own ids, and only those that had died before it began: so a replay that was
//! cut short may simply be begun again with the same instant, and each job is sent back once.

mod edit;
mod filter;
mod groups;
mod index;
mod purge;
mod replay;
mod rules;

use std::sync::Arc;

use windlass_core::fingerprint::Fingerprint;
use windlass_core::store::{Cursor, Filter, PAGE_MAX};
use windlass_core::{JobId, JobRecord, State};

pub use edit::Edited;
pub use filter::DeadFilter;
pub use groups::{DeadGroup, DeadGroups};
pub use index::DeadIndex;
pub(crate) use index::{ENTRIES, INDEXED, entries, entry_id};
pub use purge::Purged;
pub use replay::{Replay, ReplaySummary};
pub use rules::{DeadRule, Redriven};
pub(crate) use rules::{EXPIRING, HOME, REMEMBERED, RULES, place_key, redriven_key};

use crate::client::Client;
use crate::error::Result;

/// How many dead jobs are read at a time.
const PAGE: u32 = 500;

/// The dead jobs of a store.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    client: Client,
    filter: DeadFilter,
}

/// A dead job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The job, with its attempts.
    pub job: JobRecord,
    /// Which error it died of.
    pub fingerprint: Fingerprint,
}

impl DeadLetter {
    /// A job that is dead, by the error that it died of.
    pub fn of(job: JobRecord) -> Self {
        let fingerprint = Fingerprint::of(job.kind.as_str(), &cause(&job));
        Self { job, fingerprint }
    }

    /// Why it is dead: its last error, or the reason where it has none.
    pub fn cause(&self) -> String {
        cause(&self.job)
    }
}

fn cause(job: &JobRecord) -> String {
    match (job.last_error(), job.reason) {
        (Some(error), _) => error.to_owned(),
        (None, Some(reason)) => reason.to_string(),
        (None, None) => String::new(),
    }
}

/// A page of dead jobs.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DeadPage {
    /// Those that match.
    pub letters: Vec<DeadLetter>,
    /// How many dead jobs were looked at.
    pub looked: u64,
    /// Where the next page begins; nothing at the end.
    pub next: Option<Cursor>,
}

impl Client {
    /// The dead jobs: a builder that says which, then a question.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::sync::Arc;
    /// # use windlass_worker::DeadFilter;
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// let mail = client.dead(DeadFilter::new().queue("mail")?.error("timed out"));
    /// for group in mail.groups(100_000).await?.groups {
    ///     println!("{} × {} since {}", group.count, group.pattern, group.first);
    /// }
    /// let summary = mail.replay().rate(50).stop_after(10).run().await?;
    /// println!("{} were sent back", summary.replayed);
    /// # Ok(())
    /// # }
    /// ```
    pub fn dead(&self, filter: DeadFilter) -> DeadLetters {
        DeadLetters { client: self.clone(), filter }
    }
}

impl DeadLetters {
    /// Dead jobs that match, the newest accepted first. Looks at some hundreds, so a page may have none although there are
    /// more.
    ///
    /// # Errors
    /// The store's.
    pub async fn page(&self, after: Option<&Cursor>, limit: u32) -> Result<DeadPage> {
        let page = self.client.list(&self.filter.stored(), after, limit.min(PAGE)).await?;
        let looked = page.jobs.len() as u64;
        let maybe: Arc<[JobId]> =
            page.jobs.iter().filter(|job| self.filter.may_match(job)).map(|job| job.id).collect();
        let found = if maybe.is_empty() { Vec::new() } else { self.client.store().get(maybe).await? };
        let dead = found.into_iter().flatten().filter(|job| job.state == State::Dead).map(DeadLetter::of);
        let letters = dead.filter(|letter| self.filter.matches(letter)).collect();
        Ok(DeadPage { letters, looked, next: page.next })
    }

    /// Calls a function with every dead job that matches, until it answers false or so many dead jobs were looked at. Answers
    /// how many that were, and whether these were all.
    ///
    /// # Errors
    /// The store's, and the function's.
    pub async fn each(
        &self,
        looked_max: u64,
        mut visit: impl AsyncFnMut(DeadLetter) -> Result<bool>,
    ) -> Result<(u64, bool)> {
        let (mut looked, mut after) = (0, None);
        while looked < looked_max {
            let page = self.page(after.as_ref(), PAGE.min(PAGE_MAX)).await?;
            looked += page.looked;
            for letter in page.letters {
                if !visit(letter).await? {
                    return Ok((looked, false));
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok((looked, true));
            }
        }
        Ok((looked, false))
    }

    /// As [`each`](Self::each), for a function that awaits nothing. What calls this may be moved to another thread meanwhile.
    async fn walk(&self, looked_max: u64, mut visit: impl FnMut(DeadLetter) -> bool) -> Result<(u64, bool)> {
        let (mut looked, mut after) = (0, None);
        while looked < looked_max {
            let page = self.page(after.as_ref(), PAGE.min(PAGE_MAX)).await?;
            looked += page.looked;
            for letter in page.letters {
                if !visit(letter) {
                    return Ok((looked, false));
                }
            }
            after = page.next;
            if after.is_none() {
                return Ok((looked, true));
            }
        }
        Ok((looked, false))
    }

    /// A few of those that match, chosen at random, each with the same chance.
    ///
    /// # Errors
    /// The store's.
    pub async fn sample(&self, count: usize, looked_max: u64) -> Result<Vec<DeadLetter>> {
        let (mut sample, mut seen) = (Vec::new(), 0_usize);
        self.walk(looked_max, |letter| {
            seen += 1;
            if sample.len() < count {
                sample.push(letter);
            } else if let Some(place) = sample.get_mut(fastrand::usize(..seen)) {
                *place = letter;
            }
            count > 0
        })
        .await?;
        Ok(sample)
    }

    /// How many match, and whether all dead jobs were looked at.
    ///
    /// # Errors
    /// The store's.
    pub async fn count(&self, looked_max: u64) -> Result<(u64, bool)> {
        let mut count = 0;
        let visit = |_letter| {
            count += 1;
            true
        };
        let (_, is_all) = self.walk(looked_max, visit).await?;
        Ok((count, is_all))
    }
}

/// The part of a filter that stores know.
fn stored(queue: Option<&windlass_core::Name>) -> Filter {
    Filter { queue: queue.cloned(), state: Some(State::Dead), ..Filter::default() }
}
