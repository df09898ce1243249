//! How soon a job starts in another process, at several rates.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::Extent;
use super::ground::{Ground, Kind};
use super::member::Beat;
use super::processes::Processes;
use super::table::{Bound, Table};
use crate::report::percentile;

/// Jobs a second.
const RATES: [u32; 3] = [1, 10, 100];

/// What runs the jobs: its name, its arguments, and at which rates it is measured.
type Worker = (&'static str, &'static [&'static str], &'static [u32]);

/// What is asked for by a claim grows with the kinds of a worker; when jobs start must not.
const WORKERS: [Worker; 2] =
    [("another process", &[], &RATES), ("another process of 22 kinds", &["--spread"], &[10])];

/// From before the enqueue to the handler, in a process that has one worker and nothing else to do.
pub(super) async fn measure(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    let name = ground.kind.name();
    let wanted = match ground.kind {
        Kind::Postgres => Bound::AtMost(3.0),
        Kind::Sqlite | Kind::Redis => Bound::AtMost(2.0),
    };
    for (worker, arguments, rates) in WORKERS {
        let place = ground.place()?;
        let client = place.client().await?;
        let mut processes = Processes::new();
        processes.add(1, &place.url, arguments)?;
        for &rate in rates {
            table.progress(name, &format!("starts in {worker} at {rate} jobs a second"));
            let starts = paced(&client, &processes, rate, extent).await?;
            let scene = |percent| format!("start in {worker}, {rate} jobs a second, p{percent}");
            table.time(name, &scene(50), percentile(&starts, 50), wanted);
            table.time(name, &scene(90), percentile(&starts, 90), Bound::Shown);
            table.time(name, &scene(99), percentile(&starts, 99), Bound::Shown);
        }
    }
    Ok(())
}

/// Enqueues at a rate, each job by a call of its own, and answers how long after it each started.
pub(super) async fn paced(
    client: &windlass::Client,
    processes: &Processes,
    rate: u32,
    extent: Extent,
) -> Result<Vec<Duration>> {
    let gap = Duration::from_secs(1) / rate;
    let count = extent.starts_max.min((extent.starts_time.as_millis() / gap.as_millis().max(1)) as u32);
    let mut calls = tokio::task::JoinSet::new();
    let began = Instant::now();
    for number in 0..count {
        tokio::time::sleep_until((began + gap * number).into()).await;
        let client = client.clone();
        calls.spawn(async move { client.enqueue(Beat::now()).await.map(drop) });
    }
    while let Some(called) = calls.join_next().await {
        called??;
    }
    processes.starts(count as usize, Duration::from_secs(30))
}
