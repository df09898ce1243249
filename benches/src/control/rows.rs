//! The rows of the benchmark of flow control: what each runs with a control and without.

use std::time::{Duration, Instant};

use anyhow::Result;
use windlass::queue::{KeyRules, QueueConfig, Rate, Unique};
use windlass::worker::{Job as _, Pausing};
use windlass::{Client, Options};

use super::{Scale, define};
use crate::ours::{self, BULK, Nothing};
use crate::report::Whole;
use crate::subject::Subject;

/// How many keys the jobs have.
const KEYS: u32 = 10_000;
/// Levels of priority that waiting jobs have.
const LEVELS: u32 = 10;

/// A control that does not bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Row {
    Unique,
    Concurrency,
    Rate,
    Aged,
    /// Keys that have turns.
    Turns,
    /// Keys that have a limit each.
    Limits,
    /// Keys behind one that is paused.
    Closed,
}

/// What is said of the keys of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    /// That they have turns.
    Turns,
    /// That so many jobs of one may run, which is never reached.
    Limit,
    /// That one is paused, which has so many jobs in front of the others.
    Closed { front: u32 },
}

impl Row {
    pub(super) const ALL: [Self; 7] =
        [Self::Unique, Self::Concurrency, Self::Rate, Self::Aged, Self::Turns, Self::Limits, Self::Closed];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Unique => "unique",
            Self::Concurrency => "concurrency",
            Self::Rate => "rate",
            Self::Aged => "aged",
            Self::Turns => "turns",
            Self::Limits => "limits",
            Self::Closed => "closed",
        }
    }

    /// What is run, and beside what.
    pub(super) fn title(self, scale: Scale) -> (String, &'static str) {
        let (work, beside) = match self {
            Self::Unique => ("enqueue unique jobs, bulk of 1,000", "plain jobs"),
            Self::Concurrency => ("run jobs that wait, concurrency that does not bind", "no rule"),
            Self::Rate => ("run jobs that wait, rate that does not bind", "no rule"),
            Self::Aged => ("run jobs that wait, aged priority of 10 levels", "strict priority"),
            Self::Turns => ("run jobs of 10,000 keys, in turn", "no key"),
            Self::Limits => ("run jobs of 10,000 keys, with a limit that does not bind", "no key"),
            Self::Closed => {
                return (format!("run jobs behind {} of a closed key", scale.front), "nothing in front");
            }
        };
        (work.to_owned(), beside)
    }

    /// What is reached without the control.
    pub(super) async fn plain(self, subject: Subject, scale: Scale) -> Result<Whole> {
        match self {
            Self::Unique => enqueue(subject, scale.jobs, None).await,
            Self::Aged => drain_levels(subject, scale.jobs, &QueueConfig::default()).await,
            Self::Closed => keyed(subject, scale.jobs / 2, Keys::Closed { front: 0 }).await,
            Self::Concurrency | Self::Rate | Self::Turns | Self::Limits => {
                drain_with(subject, scale.jobs, None).await
            }
        }
    }

    /// What is reached with it.
    pub(super) async fn controlled(self, subject: Subject, scale: Scale) -> Result<Whole> {
        let config = QueueConfig::default();
        match self {
            Self::Unique => enqueue(subject, scale.jobs, Some(Unique::payload())).await,
            Self::Concurrency => {
                let config = QueueConfig { concurrency: Some(1_000_000), ..config };
                drain_with(subject, scale.jobs, Some(&config)).await
            }
            Self::Rate => {
                let rate = Rate::new(1_000_000, Duration::from_secs(1));
                drain_with(subject, scale.jobs, Some(&QueueConfig { rate: Some(rate), ..config })).await
            }
            Self::Aged => {
                // So little that each claim takes from all levels.
                let config = QueueConfig { aging: Some(Duration::from_millis(1)), ..config };
                drain_levels(subject, scale.jobs, &config).await
            }
            Self::Turns => keyed(subject, scale.jobs, Keys::Turns).await,
            Self::Limits => keyed(subject, scale.jobs, Keys::Limit).await,
            Self::Closed => keyed(subject, scale.jobs / 2, Keys::Closed { front: scale.front }).await,
        }
    }
}

/// Jobs per second of bulk enqueues of jobs that are unique by their payload, one after the other.
pub(crate) async fn enqueue_unique(subject: Subject, jobs: u32) -> Result<f64> {
    Ok(enqueue(subject, jobs, Some(Unique::payload())).await?.rate)
}

/// Jobs per second of many keys.
pub(crate) async fn drain_keys(subject: Subject, jobs: u32, keys: Keys) -> Result<f64> {
    Ok(keyed(subject, jobs, keys).await?.rate)
}

/// Bulk enqueues, one after the other.
async fn enqueue(subject: Subject, jobs: u32, unique: Option<Unique>) -> Result<Whole> {
    let place = subject.place()?;
    let client = place.client().await?;
    let (cpu, started) = (subject.server_cpu()?, Instant::now());
    for start in (0..jobs).step_by(BULK as usize) {
        let all = client.enqueue_all((start..jobs.min(start + BULK)).map(|i| Nothing { i }));
        match unique.clone() {
            Some(unique) => drop(all.unique(unique).await?),
            None => drop(all.await?),
        }
    }
    Whole::ended(jobs, started.elapsed(), cpu)
}

async fn keyed(subject: Subject, jobs: u32, keys: Keys) -> Result<Whole> {
    let place = subject.place()?;
    let client = place.client().await?;
    let concurrency = (keys == Keys::Limit).then_some(1_000_000);
    let rules = KeyRules { concurrency, ..KeyRules::default() };
    define(&client, &QueueConfig { keys: Some(rules), ..QueueConfig::default() }).await?;
    if let Keys::Closed { front } = keys {
        client.queue("default")?.pause_key("closed", Pausing::new()).await?;
        fill(&client, front, |_| Options::new().key("closed")).await?;
    }
    fill(&client, jobs, |i| Options::new().key(format!("key-{}", i % KEYS))).await?;
    drain(subject, &client, jobs).await
}

async fn drain_levels(subject: Subject, jobs: u32, config: &QueueConfig) -> Result<Whole> {
    let place = subject.place()?;
    let client = place.client().await?;
    fill(&client, jobs, |i| Options::new().priority(i16::try_from(i % LEVELS).unwrap_or_default())).await?;
    define(&client, config).await?;
    drain(subject, &client, jobs).await
}

async fn drain_with(subject: Subject, jobs: u32, config: Option<&QueueConfig>) -> Result<Whole> {
    let place = subject.place()?;
    let client = place.client().await?;
    ours::fill(&client, jobs).await?;
    if let Some(config) = config {
        define(&client, config).await?;
    }
    drain(subject, &client, jobs).await
}

/// Runs what waits.
async fn drain(subject: Subject, client: &Client, jobs: u32) -> Result<Whole> {
    let (cpu, started) = (subject.server_cpu()?, Instant::now());
    ours::drain_filled(client, jobs).await?;
    Whole::ended(jobs, started.elapsed(), cpu)
}

async fn fill(client: &Client, jobs: u32, options: impl Fn(u32) -> Options) -> Result<()> {
    for start in (0..jobs).step_by(BULK as usize) {
        let some = (start..jobs.min(start + BULK)).map(|i| Nothing { i }.with(options(i)));
        client.enqueue_all(some).await?;
    }
    Ok(())
}
