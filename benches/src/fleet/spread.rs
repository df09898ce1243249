//! How soon idle workers have started a burst of jobs of many kinds, beside as many of one kind.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use windlass::core::job::NewJob;
use windlass::core::{CallId, Name};
use windlass::{Job, JobError, Options, Worker};

use super::Extent;
use super::ground::Ground;
use super::member::{Beat, QUEUE, say_start};
use super::processes::Processes;
use super::table::{Bound, Table};
use crate::report::median;

const WORKERS: usize = 10;
const JOBS: usize = 100;
/// As many as all workers have slots for, so that each of them has to come.
const SLOTS: usize = JOBS / WORKERS;
/// Longer than the burst takes to start: no slot is used twice.
const RUN: Duration = Duration::from_millis(500);

const KINDS: [&str; 20] = [
    "spread.0",
    "spread.1",
    "spread.2",
    "spread.3",
    "spread.4",
    "spread.5",
    "spread.6",
    "spread.7",
    "spread.8",
    "spread.9",
    "spread.10",
    "spread.11",
    "spread.12",
    "spread.13",
    "spread.14",
    "spread.15",
    "spread.16",
    "spread.17",
    "spread.18",
    "spread.19",
];

/// A job of one of the kinds, which holds its slot for a while.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
struct Spread<const KIND: usize>(Beat);

impl<const KIND: usize> Job for Spread<KIND> {
    const KIND: &'static str = KINDS[KIND];
    type Output = ();
}

async fn spread<const KIND: usize>(job: Spread<KIND>) -> Result<(), JobError> {
    say_start(&job.0);
    tokio::time::sleep(RUN).await;
    Ok(())
}

/// A worker that runs all kinds.
pub(super) fn serve(worker: Worker<bool>) -> Worker<bool> {
    macro_rules! handle {
        ($worker:expr, $($kind:literal)*) => { $worker$(.handle(spread::<$kind>))* };
    }
    handle!(worker, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19)
}

/// 100 jobs of 20 kinds and of one, handed in by one call, for ten idle processes.
pub(super) async fn measure(ground: &Ground, extent: Extent, table: &mut Table) -> Result<()> {
    let (name, place) = (ground.kind.name(), ground.place()?);
    table.progress(name, "a burst of 20 kinds for 10 idle workers");
    let client = place.client().await?;
    let mut processes = Processes::new();
    processes.add(WORKERS, &place.url, &["--spread", "--slots", &SLOTS.to_string()])?;
    let mut lasts: [Vec<f64>; 2] = Default::default();
    for _ in 0..extent.rounds {
        for (kinds, lasts) in [1, KINDS.len()].into_iter().zip(&mut lasts) {
            // Until slots are free and workers wait again.
            tokio::time::sleep(RUN * 3).await;
            let payload = serde_json::to_vec(&Beat::now())?;
            let job = |number: usize| {
                let kind = Name::new(KINDS[number % kinds])?;
                Ok(NewJob::new(&kind, payload.clone(), Options::new().queue(QUEUE))?)
            };
            let jobs = (0..JOBS).map(job).collect::<Result<Vec<_>>>()?;
            client.store().enqueue_once(CallId::new(), jobs.into()).await?;
            let starts = processes.starts(JOBS, Duration::from_secs(30))?;
            ensure!(starts.len() == JOBS, "{} of {JOBS} jobs have started", starts.len());
            lasts.push(starts.into_iter().max().unwrap_or_default().as_secs_f64());
        }
    }
    let [one, many] = lasts.map(|mut lasts| median(&mut lasts));
    let scene = |kinds: &str| format!("100 jobs of {kinds} for 10 idle workers, last start");
    table.add(name, &scene("one kind"), one * 1e3, " ms", Bound::Shown);
    table.add(name, &scene("20 kinds"), many * 1e3, " ms", Bound::Shown);
    table.add(name, "20 kinds, last start beside one kind", many / one, "x", Bound::AtMost(1.5));
    Ok(())
}
