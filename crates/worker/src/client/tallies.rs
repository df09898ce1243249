//! What happened to jobs, by the minute, as callers ask for it: `client.tallies(["mail"])`. Read in parts that a store
//! answers at once; nothing is computed by looking at jobs.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::store;
use windlass_core::tally::{Interval, Row, Tally, WINDOWS_MAX, Window};
use windlass_core::{Name, Store, StoreError};

use super::Client;
use crate::error::{ConfigError, Result};

/// Queues that one part asks for, at most.
const QUEUES_STEP: usize = 24;

/// A question about what happened to jobs: say more about it, then await it. Without more it is about the last hour, by the
/// minute.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass_worker::Result<()> {
/// # use std::{sync::Arc, time::Duration};
/// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
/// use windlass_core::tally::Count;
///
/// let day = client.tallies(["mail"])?.since(Duration::from_secs(86_400)).await?;
/// let sum = day.total();
/// println!("{} of {} jobs died", sum.dead(), sum.of(Count::Accepted));
/// if let Some(most) = sum.waits().quantile(0.95) {
///     println!("19 of 20 jobs waited {most}");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "tallies are read when this is awaited"]
pub struct Tallies {
    client: Client,
    queues: Vec<Name>,
    kind: Option<Name>,
    since: Duration,
    step: Option<Interval>,
}

/// What was counted in a span of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TallyReport {
    /// From when on, by the store's clock.
    pub from: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// By queue, instant and kind; nothing where nothing happened.
    pub rows: Vec<Row>,
}

impl Client {
    /// What happened to the jobs of these queues.
    ///
    /// # Errors
    /// When a text cannot be the name of a queue.
    pub fn tallies(&self, queues: impl IntoIterator<Item = impl AsRef<str>>) -> Result<Tallies> {
        let name = |text| Name::new(text).map_err(|error| ConfigError::Name { what: "queue", error });
        let mut queues = queues.into_iter().map(name).collect::<Result<Vec<_>, _>>()?;
        queues.sort_unstable();
        queues.dedup();
        let since = Duration::from_secs(3_600);
        Ok(Tallies { client: self.clone(), queues, kind: None, since, step: None })
    }
}

impl Tallies {
    /// Only of this kind.
    ///
    /// # Errors
    /// When the text cannot be the name of a kind.
    pub fn kind(mut self, kind: impl AsRef<str>) -> Result<Self> {
        self.kind = Some(Name::new(kind).map_err(|error| ConfigError::Name { what: "kind", error })?);
        Ok(self)
    }

    /// From so long ago until now; ninety days at most, for no longer is kept.
    pub fn since(mut self, since: Duration) -> Self {
        self.since = since.min(Interval::Hour.kept());
        self
    }

    /// How long the steps are. Without it the shortest that are still kept of the whole span; where shorter ones are asked for than
    /// are kept, older rows are longer.
    pub fn step(mut self, step: Interval) -> Self {
        self.step = Some(step);
        self
    }

    async fn read(self) -> Result<TallyReport> {
        let store = self.client.store();
        let part = part(&**store)?;
        let until = store.now().await?;
        let step = self.step.unwrap_or_else(|| Interval::kept_at(until.minus(self.since), until));
        let first = step.floor(until.minus(self.since));
        let mut rows = Vec::new();
        for queues in self.queues.chunks(QUEUES_STEP) {
            let steps = u32::try_from(WINDOWS_MAX / queues.len() as u64).unwrap_or(1);
            let mut from = first;
            while from <= until {
                // Parts end with an hour, for of an old one there may be one row only. What is counted now is within the last step.
                let to = Interval::Hour
                    .floor(from.plus(step.span() * steps))
                    .min(until.plus(Duration::from_micros(1)));
                let window = Window { queues: queues.to_vec(), from, until: to, interval: step };
                rows.extend(part.tallies(&window).await?);
                from = to;
            }
        }
        if let Some(kind) = &self.kind {
            rows.retain(|row| row.kind.as_ref() == Some(kind));
        }
        rows.sort_by(|one, other| {
            (&one.queue, one.at, &one.kind).cmp(&(&other.queue, other.at, &other.kind))
        });
        Ok(TallyReport { from: first, until, rows })
    }
}

impl IntoFuture for Tallies {
    type Output = Result<TallyReport>;
    type IntoFuture = Pin<Box<dyn Future<Output = Result<TallyReport>> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.read())
    }
}

impl TallyReport {
    /// All of it together.
    pub fn total(&self) -> Tally {
        self.sum(|_| true)
    }

    /// Together what is chosen.
    pub fn sum(&self, chosen: impl Fn(&Row) -> bool) -> Tally {
        let mut sum = Tally::default();
        self.rows.iter().filter(|row| chosen(row)).for_each(|row| sum.merge(&row.tally));
        sum
    }

    /// How often something happened in a second, on average.
    pub fn per_second(&self, times: u64) -> f64 {
        let seconds = self.until.since(self.from).as_secs_f64();
        if seconds > 0.0 { times as f64 / seconds } else { 0.0 }
    }
}

/// The part of a store that counts.
fn part(store: &dyn Store) -> Result<&dyn store::Tallies, StoreError> {
    store.tallies().ok_or_else(|| {
        let scheme = store.about().scheme;
        StoreError::Address(format!(
            "the {scheme} store does not count what happens to jobs: use another one"
        ))
    })
}
