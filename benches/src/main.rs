//! Measures Windlass and, in the same run, the raw limit of each store: the leanest hand-written batch of the
//! same row operations with the same durability. `cargo xtask bench` runs it.
//!
//! Figures of one run belong together; the machine decides the rest. Rounds of ours and of the raw limit
//! alternate, and each figure is the median of its rounds.

mod control;
mod counted;
mod dead;
mod deleted;
mod fleet;
mod flows;
mod history;
mod http;
mod in_process;
mod ours;
mod raw;
mod records;
mod redis;
mod report;
mod schedules;
mod server;
mod snapshot;
mod subject;
mod weight;

use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;

use crate::raw::Connections;
use crate::report::{Report, Whole};
use crate::subject::{Finished, Subject};

/// Measure Windlass beside the raw limits of its stores
#[derive(Parser)]
struct Arguments {
    /// Fewer jobs and rounds: a minute instead of several
    #[arg(long)]
    quick: bool,
    /// Only stores whose name contains this: memory, sqlite full, sqlite normal, postgres, postgres off, redis,
    /// redis none; or control, control/postgres, and control/postgres/turns for what flow control costs; records and
    /// records/sqlite for follow-ups, checkpoints, and what progress and logs of attempts cost; sayings and sayings/sqlite
    /// for the last alone; dead and dead/redis for searches among dead jobs; schedules and schedules/redis for schedules
    /// that are not due; flows and flows/redis for jobs that wait for others; http and http/memory for work through a
    /// server
    #[arg(long)]
    only: Option<String>,
    /// Leave out the long run with a million finished and a million scheduled jobs
    #[arg(long)]
    no_history: bool,
    /// Only that run
    #[arg(long, conflicts_with = "no_history")]
    history: bool,
    /// Print JSON lines instead of a table
    #[arg(long)]
    json: bool,
    /// Only this work of ours, once and without the raw limit, as for a profiler
    #[arg(long)]
    work: Option<Work>,
    /// Only this: hold a snapshot on PostgreSQL for so many seconds beside 800 jobs a second
    #[arg(long, value_name = "SECONDS")]
    snapshot: Option<u64>,
    /// Only this: for how long the in-process queue holds its lock under a burst of one key
    #[arg(long)]
    in_process: bool,
    /// Only this: what a fleet of processes costs per job and per idle second, and how soon jobs start in it; --only
    /// postgres, or --only postgres/latency for one scene: latency, idle, waiters, queues, kinds, spread, cancels, prune
    #[arg(long)]
    fleet: bool,
    #[command(flatten)]
    member: fleet::member::MemberArguments,
    /// Weigh the waiting jobs of one store and print that; how the benchmark calls itself
    #[arg(long, hide = true)]
    weigh: Option<String>,
    /// How many jobs to weigh
    #[arg(long, hide = true, default_value_t = 100_000)]
    jobs: u32,
}

/// What can be run by itself.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Work {
    Bulk,
    Unique,
    Single,
    Drain,
    /// Of 10,000 keys in turn.
    DrainKeys,
    /// Of 10,000 keys with a limit that does not bind.
    DrainLimits,
    Whole,
    DrainDeleted,
    WholeDeleted,
}

impl Work {
    async fn run(self, subject: Subject, jobs: u32) -> Result<f64> {
        match self {
            Self::Bulk => ours::enqueue_bulk(subject, jobs).await,
            Self::Unique => control::enqueue_unique(subject, jobs).await,
            Self::Single => ours::enqueue_single(subject, jobs).await,
            Self::Drain => ours::drain(subject, jobs, Finished::Kept).await,
            Self::DrainKeys => control::drain_keys(subject, jobs, control::Keys::Turns).await,
            Self::DrainLimits => control::drain_keys(subject, jobs, control::Keys::Limit).await,
            Self::Whole => Ok(ours::whole(subject, jobs, Finished::Kept).await?.rate),
            Self::DrainDeleted => ours::drain(subject, jobs, Finished::Deleted).await,
            Self::WholeDeleted => Ok(ours::whole(subject, jobs, Finished::Deleted).await?.rate),
        }
    }
}

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Scale {
    jobs: u32,
    rounds: u32,
    latency_samples: u32,
    history: u32,
    snapshot: Duration,
}

impl Scale {
    fn new(is_quick: bool) -> Self {
        let (long, short) = (Duration::from_secs(80), Duration::from_secs(16));
        match is_quick {
            true => Self { jobs: 50_000, rounds: 1, latency_samples: 200, history: 100_000, snapshot: short },
            false => {
                Self { jobs: 200_000, rounds: 3, latency_samples: 1_000, history: 1_000_000, snapshot: long }
            }
        }
    }
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(url) = arguments.member.url.clone() {
        // Many of these run beside each other: one thread is enough for a worker that has little to do.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(fleet::member::run(&url, &arguments.member));
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> Result<()> {
    if arguments.fleet {
        return fleet::run(arguments.quick, arguments.json, arguments.only.as_deref()).await;
    }
    if let Some(name) = &arguments.weigh {
        let subject = Subject::ALL.into_iter().find(|subject| subject.name() == name);
        return weight::weigh(subject.context("no such store")?, arguments.jobs).await;
    }
    if arguments.in_process {
        return in_process::measure().await;
    }
    let scale = Scale::new(arguments.quick);
    let mut report = Report::new(arguments.json);
    if let Some(seconds) = arguments.snapshot {
        snapshot::measure(Duration::from_secs(seconds), &mut report).await?;
        report.print();
        return Ok(());
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("control")) {
        return control::run(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("records")) {
        return records::run(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("sayings")) {
        return records::run_sayings(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("dead")) {
        return dead::run(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("schedules")) {
        return schedules::run(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("http")) {
        return http::run(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    if let Some(rest) = arguments.only.as_deref().and_then(|only| only.strip_prefix("flows")) {
        return flows::run(arguments.quick, rest.strip_prefix('/'), report).await;
    }
    for subject in Subject::ALL {
        if arguments.only.as_ref().is_some_and(|only| !subject.name().contains(only.as_str())) {
            continue;
        }
        if let Some(work) = arguments.work {
            let rate = work.run(subject, scale.jobs).await?;
            report.figure(subject, &format!("{work:?}"), format!("{}/s", report::whole(rate)));
            continue;
        }
        let has_history = matches!(subject, Subject::SqliteFull | Subject::Postgres | Subject::Redis);
        if arguments.history {
            if has_history {
                history::measure(subject, scale, &mut report).await?;
            }
            continue;
        }
        let connections = Connections::find(subject, scale.jobs).await?;
        measure(subject, scale, connections, &mut report).await?;
        if subject.has_server() {
            deleted::measure(subject, scale, connections, &mut report).await?;
        }
        if has_history && !arguments.no_history {
            history::measure(subject, scale, &mut report).await?;
        }
        if subject == Subject::Postgres {
            snapshot::measure(scale.snapshot, &mut report).await?;
        }
    }
    report.print();
    Ok(())
}

async fn measure(
    subject: Subject,
    scale: Scale,
    connections: Connections,
    report: &mut Report,
) -> Result<()> {
    let (mut bulk, mut single, mut drain, mut whole) = (vec![], vec![], vec![], vec![]);
    let (mut raw_bulk, mut raw_drain, mut raw_whole) = (vec![], vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: round {round} of {}", subject.name(), scale.rounds));
        raw_bulk.push(raw::enqueue(subject, scale.jobs).await?);
        bulk.push(ours::enqueue_bulk(subject, scale.jobs).await?);
        single.push(ours::enqueue_single(subject, scale.jobs).await?);
        raw_drain.push(raw::drain(subject, scale.jobs, Finished::Kept, connections.drain).await?);
        drain.push(ours::drain(subject, scale.jobs, Finished::Kept).await?);
        raw_whole.push(raw::whole(subject, scale.jobs, Finished::Kept, connections.whole).await?);
        whole.push(ours::whole(subject, scale.jobs, Finished::Kept).await?);
    }
    let raw_bulk = report::median(&mut raw_bulk);
    let bulk = report::median(&mut bulk);
    report.rate(subject, "enqueue, bulk of 1,000", bulk, "raw insert", raw_bulk);
    report.rate(subject, "enqueue, single by 64 producers", report::median(&mut single), "our bulk", bulk);
    report.rate(
        subject,
        "run jobs that wait",
        report::median(&mut drain),
        &Connections::label("raw claim + settle", connections.drain),
        report::median(&mut raw_drain),
    );
    report.whole(
        subject,
        "end to end: enqueue and run at once",
        Whole::median(&whole),
        &Connections::label("raw insert + claim + settle", connections.whole),
        Whole::median(&raw_whole),
    );
    report.progress(&format!("{}: start latency", subject.name()));
    let raw = raw::latency(subject, scale.latency_samples).await?;
    let ours = ours::latency(subject, scale.latency_samples).await?;
    report.latency(subject, "idle start, p50", report::percentile(&ours, 50), report::percentile(&raw, 50));
    report.latency(subject, "idle start, p99", report::percentile(&ours, 99), report::percentile(&raw, 99));
    weight::measure(subject, scale.jobs, report)
}
