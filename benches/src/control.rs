//! What flow control costs where it does not bind: unique keys beside plain enqueues, and rules of a queue beside the
//! same queue without any; aged priority beside strict. And how exact a rate is where it binds.
//!
//! Either side is run in turns, and the ratio is the middle of those of the rounds: what the machine does meanwhile
//! slows both of a round.

mod rows;

use std::time::Duration;

use anyhow::{Result, ensure};
use windlass::Client;
use windlass::queue::{QueueConfig, Rate};

use self::rows::Row;
pub(crate) use self::rows::{Keys, drain_keys, enqueue_unique};
use crate::ours;
use crate::report::Report;
use crate::subject::Subject;

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Scale {
    jobs: u32,
    rounds: usize,
    /// Jobs of a closed key in front of others.
    front: u32,
    /// For how long a rate that binds is measured.
    span: Duration,
}

impl Scale {
    fn new(is_quick: bool, subject: Subject) -> Self {
        // Enough for half a second of either side.
        let factor = match subject {
            Subject::Memory => 8,
            Subject::SqliteFull | Subject::SqliteNormal | Subject::Redis | Subject::RedisNone => 2,
            Subject::Postgres | Subject::PostgresOff => 1,
        };
        let (jobs, rounds, front, seconds) =
            if is_quick { (20_000, 7, 20_000, 10) } else { (60_000, 9, 100_000, 60) };
        Self { jobs: jobs * factor, rounds, front, span: Duration::from_secs(seconds) }
    }
}

/// Jobs a second of the rate that binds.
const BINDING: u32 = 500;
/// The name of its row.
const BINDING_NAME: &str = "binding";

/// Measures the stores and rows whose names contain these, as `postgres/turns`.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let (store, row) = only.map_or(("", ""), |only| only.split_once('/').unwrap_or((only, "")));
    let stores = [Subject::Memory, Subject::SqliteFull, Subject::Postgres, Subject::Redis];
    let mut are_known = false;
    for subject in stores.into_iter().filter(|subject| subject.name().contains(store)) {
        let scale = Scale::new(is_quick, subject);
        for found in Row::ALL.into_iter().filter(|found| found.name().contains(row)) {
            are_known = true;
            in_turns(subject, found, scale, &mut report).await?;
        }
        if BINDING_NAME.contains(row) {
            are_known = true;
            binding(subject, scale, &mut report).await?;
        }
    }
    let names: Vec<_> = Row::ALL.iter().map(|row| row.name()).collect();
    ensure!(
        are_known,
        "nothing is called so: stores are memory, sqlite, postgres, redis; rows {}, {BINDING_NAME}",
        names.join(", ")
    );
    report.print();
    Ok(())
}

/// Rounds of a row: in one without the control first, in the next with it.
async fn in_turns(subject: Subject, row: Row, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut plain, mut controlled) = (vec![], vec![]);
    for round in 0..scale.rounds {
        report.progress(&format!(
            "{}: {}, round {} of {}",
            subject.name(),
            row.name(),
            round + 1,
            scale.rounds
        ));
        if round % 2 == 0 {
            plain.push(row.plain(subject, scale).await?);
            controlled.push(row.controlled(subject, scale).await?);
        } else {
            controlled.push(row.controlled(subject, scale).await?);
            plain.push(row.plain(subject, scale).await?);
        }
    }
    let (work, beside) = row.title(scale);
    report.in_turns(subject, &work, &controlled, beside, &plain);
    Ok(())
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
    let work = "start jobs under 500 a second";
    report.rate(subject, work, f64::from(jobs) / seconds, "the rate", f64::from(BINDING));
    Ok(())
}

async fn define(client: &Client, config: &QueueConfig) -> Result<()> {
    Ok(client.queue("default")?.define(config).await?)
}
