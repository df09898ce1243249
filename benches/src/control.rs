//! What flow control costs where it does not bind: unique keys beside plain enqueues, and rules of a queue beside the same
//! queue without any; aged priority beside strict. And how exact a rate is where it binds.

mod keys;

use std::time::{Duration, Instant};

use anyhow::Result;
use windlass::queue::{QueueConfig, Rate, Unique};
use windlass::{Client, Job, Options};

use crate::ours::{self, BULK, Nothing};
use crate::report::{self, Report};
use crate::subject::{Finished, Subject};

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    jobs: u32,
    rounds: u32,
    /// Jobs of a closed key in front of others.
    front: u32,
    /// For how long a rate that binds is measured.
    span: Duration,
}

impl Scale {
    pub(crate) fn new(is_quick: bool) -> Self {
        match is_quick {
            true => Self { jobs: 20_000, rounds: 1, front: 20_000, span: Duration::from_secs(10) },
            false => Self { jobs: 60_000, rounds: 5, front: 100_000, span: Duration::from_secs(60) },
        }
    }
}

/// Jobs a second of the rate that binds.
const BINDING: u32 = 500;

/// Measures the stores whose name contains this.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let scale = Scale::new(is_quick);
    let stores = [Subject::Memory, Subject::SqliteFull, Subject::Postgres, Subject::Redis];
    for subject in stores.into_iter().filter(|subject| only.is_none_or(|only| subject.name().contains(only)))
    {
        enqueues(subject, scale, &mut report).await?;
        rules(subject, scale, &mut report).await?;
        aged(subject, scale, &mut report).await?;
        keys::run(subject, scale, &mut report).await?;
        binding(subject, scale, &mut report).await?;
    }
    report.print();
    Ok(())
}

async fn enqueues(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut plain, mut unique) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: unique keys, round {round} of {}", subject.name(), scale.rounds));
        plain.push(ours::enqueue_bulk(subject, scale.jobs).await?);
        unique.push(enqueue_unique(subject, scale.jobs).await?);
    }
    let (plain, unique) = (report::median(&mut plain), report::median(&mut unique));
    report.rate(subject, "enqueue unique jobs, bulk of 1,000", unique, "plain jobs", plain);
    Ok(())
}

/// Jobs per second of bulk enqueues of jobs that are unique by their payload, one after the other.
pub(crate) async fn enqueue_unique(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    let client = place.client().await?;
    let started = Instant::now();
    for start in (0..jobs).step_by(BULK as usize) {
        let some = (start..jobs.min(start + BULK)).map(|i| Nothing { i });
        client.enqueue_all(some).unique(Unique::payload()).await?;
    }
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

/// A queue with a rule that never binds, beside the same queue without one.
async fn rules(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let concurrency = QueueConfig { concurrency: Some(1_000_000), ..QueueConfig::default() };
    let rate = Rate::new(1_000_000, Duration::from_secs(1));
    let rate = QueueConfig { rate: Some(rate), ..QueueConfig::default() };
    let (mut plain, mut limited, mut rated) = (vec![], vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: rules, round {round} of {}", subject.name(), scale.rounds));
        plain.push(ours::drain(subject, scale.jobs, Finished::Kept).await?);
        limited.push(drain_with(subject, scale.jobs, &concurrency).await?);
        rated.push(drain_with(subject, scale.jobs, &rate).await?);
    }
    let plain = report::median(&mut plain);
    for (work, mut found) in [("concurrency", limited), ("rate", rated)] {
        let work = format!("run jobs that wait, {work} that does not bind");
        report.rate(subject, &work, report::median(&mut found), "no rule", plain);
    }
    Ok(())
}

/// Levels of priority that waiting jobs have.
const LEVELS: u32 = 10;

/// Jobs of several priorities in a queue where those are aged, beside the same queue where the higher one always goes first.
async fn aged(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    // So little that each claim takes from all levels.
    let aging = QueueConfig { aging: Some(Duration::from_millis(1)), ..QueueConfig::default() };
    let (mut strict, mut aged) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: aged priority, round {round} of {}", subject.name(), scale.rounds));
        strict.push(drain_levels(subject, scale.jobs, &QueueConfig::default()).await?);
        aged.push(drain_levels(subject, scale.jobs, &aging).await?);
    }
    let (strict, aged) = (report::median(&mut strict), report::median(&mut aged));
    report.rate(subject, "run jobs that wait, aged priority of 10 levels", aged, "strict priority", strict);
    Ok(())
}

async fn drain_levels(subject: Subject, jobs: u32, config: &QueueConfig) -> Result<f64> {
    let place = subject.place()?;
    let client = place.client().await?;
    for start in (0..jobs).step_by(BULK as usize) {
        let job = |i: u32| {
            let priority = i16::try_from(i % LEVELS).unwrap_or_default();
            Nothing { i }.with(Options::new().priority(priority))
        };
        client.enqueue_all((start..jobs.min(start + BULK)).map(job)).await?;
    }
    define(&client, config).await?;
    ours::drain_filled(&client, jobs).await
}

async fn drain_with(subject: Subject, jobs: u32, config: &QueueConfig) -> Result<f64> {
    let place = subject.place()?;
    let client = place.client().await?;
    ours::fill(&client, jobs).await?;
    define(&client, config).await?;
    ours::drain_filled(&client, jobs).await
}

/// How many jobs start in a span under a rate, from its first start on.
async fn binding(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    report.progress(&format!("{}: a rate that binds", subject.name()));
    let place = subject.place()?;
    let client = place.client().await?;
    let jobs = BINDING * u32::try_from(scale.span.as_secs())?;
    ours::fill(&client, jobs).await?;
    let rate = Rate::new(BINDING, Duration::from_secs(1));
    define(&client, &QueueConfig { rate: Some(rate), ..QueueConfig::default() }).await?;
    let found = ours::drain_filled(&client, jobs).await?;
    // The last second's jobs start at its beginning.
    let seconds = f64::from(jobs) / found + 1.0;
    report.rate(
        subject,
        "start jobs under 500 a second",
        f64::from(jobs) / seconds,
        "the rate",
        f64::from(BINDING),
    );
    Ok(())
}

async fn define(client: &Client, config: &QueueConfig) -> Result<()> {
    Ok(client.queue("default")?.define(config).await?)
}
