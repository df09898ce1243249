//! The measurements of `bench`, each on jobs of one queue of its own.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use windlass::{Client, Job, JobError, Options, State, Worker};
use windlass_core::store::Filter;
use windlass_core::{JobId, Name};

use crate::args::BenchArgs;

const QUEUE: &str = "windlass.bench";
/// How many jobs one bulk call takes.
const BULK: u32 = 1_000;
/// How often the idle start is measured.
const IDLE_ROUNDS: u32 = 100;
/// Long enough for a worker to have gone to sleep.
const IDLE_PAUSE: Duration = Duration::from_millis(20);

/// One line of the answer, which is also its JSON.
#[derive(Debug, Serialize)]
pub(super) struct Measurement {
    pub(super) name: String,
    pub(super) jobs: u32,
    pub(super) seconds: f64,
    /// Nothing where each job waits for the one before.
    pub(super) jobs_per_second: Option<f64>,
    pub(super) p50_seconds: Option<f64>,
    pub(super) p99_seconds: Option<f64>,
}

impl Measurement {
    /// Of many calls, each of which took one of these times.
    fn new(name: impl Into<String>, jobs: u32, elapsed: Duration, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |share: usize| times.get((times.len() * share / 100).min(times.len().saturating_sub(1)));
        let seconds = elapsed.as_secs_f64();
        Self {
            name: name.into(),
            jobs,
            seconds,
            jobs_per_second: Some(f64::from(jobs) / seconds.max(f64::EPSILON)),
            p50_seconds: at(50).map(Duration::as_secs_f64),
            p99_seconds: at(99).map(Duration::as_secs_f64),
        }
    }
}

/// A job that does nothing but say when it was started.
#[derive(Debug, Serialize, Deserialize)]
struct Noop {}

impl Job for Noop {
    const KIND: &'static str = "windlass.bench.noop";
    type Output = ();

    fn options() -> Options {
        Options::new().queue(QUEUE)
    }
}

async fn noop(_job: Noop, State(started): State<UnboundedSender<Instant>>) -> Result<(), JobError> {
    // The receiver is gone once the measurement is over.
    let _ = started.send(Instant::now());
    Ok(())
}

/// Runs all measurements, one after the other.
pub(super) async fn all(client: &Client, args: &BenchArgs) -> anyhow::Result<Vec<Measurement>> {
    clear(client).await?;
    let single = single(client, args.jobs, args.producers).await?;
    let bulk = bulk(client, args.jobs).await?;
    let (sender, mut started) = mpsc::unbounded_channel();
    let begun = Instant::now();
    let running = Worker::with_state(client, sender).handle(noop).start()?;
    let end_to_end = end_to_end(client, begun, args.jobs.saturating_mul(2)).await;
    while started.try_recv().is_ok() {}
    let idle = idle_start(client, &mut started).await;
    running.stop().await;
    Ok(vec![single, bulk, end_to_end?, idle?])
}

/// Single calls by many producers at once, each waiting for its own answer.
async fn single(client: &Client, jobs: u32, producers: u32) -> anyhow::Result<Measurement> {
    let begun = Instant::now();
    let producers_running: Vec<_> = (0..producers)
        .map(|producer| {
            let client = client.clone();
            let share = jobs / producers + u32::from(producer < jobs % producers);
            tokio::spawn(async move {
                let mut times = Vec::new();
                for _ in 0..share {
                    let called = Instant::now();
                    client.enqueue(Noop {}).await?;
                    times.push(called.elapsed());
                }
                Ok::<_, windlass::Error>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for producer in producers_running {
        times.extend(producer.await??);
    }
    Ok(Measurement::new(
        format!("enqueue, single calls by {producers} producers"),
        jobs,
        begun.elapsed(),
        times,
    ))
}

/// Bulk calls, one after the other.
async fn bulk(client: &Client, jobs: u32) -> anyhow::Result<Measurement> {
    let begun = Instant::now();
    let mut left = jobs;
    while left > 0 {
        let chunk = left.min(BULK);
        client.enqueue_all((0..chunk).map(|_| Noop {})).await?;
        left -= chunk;
    }
    Ok(Measurement::new(format!("enqueue, {BULK} per call"), jobs, begun.elapsed(), Vec::new()))
}

/// Claim, run and settle what waits, from the start of the worker until no job is open.
async fn end_to_end(client: &Client, begun: Instant, jobs: u32) -> anyhow::Result<Measurement> {
    while open(client).await? > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(Measurement::new("claim, run and settle", jobs, begun.elapsed(), Vec::new()))
}

/// From the call of an enqueue to the start of its handler, by a worker that has nothing else to do.
async fn idle_start(
    client: &Client,
    started: &mut UnboundedReceiver<Instant>,
) -> anyhow::Result<Measurement> {
    let mut times = Vec::new();
    for _ in 0..IDLE_ROUNDS {
        tokio::time::sleep(IDLE_PAUSE).await;
        let called = Instant::now();
        client.enqueue(Noop {}).await?;
        if let Some(at) = started.recv().await {
            times.push(at.saturating_duration_since(called));
        }
    }
    let busy = times.iter().sum();
    let measured = Measurement::new("enqueue to start, idle worker", IDLE_ROUNDS, busy, times);
    Ok(Measurement { jobs_per_second: None, ..measured })
}

/// How many jobs of the measurement have not come to their end.
async fn open(client: &Client) -> anyhow::Result<u64> {
    let queue = Name::new(QUEUE)?;
    let mut after: Option<Name> = None;
    loop {
        let page = client.store().queues(after.as_ref(), 1_000).await?;
        if let Some(found) = page.iter().find(|record| record.name == queue) {
            return Ok(found.counts.open());
        }
        match page.last() {
            Some(last) if last.name < queue => after = Some(last.name.clone()),
            _ => return Ok(0),
        }
    }
}

/// Removes every job of the measurement that does not run.
pub(super) async fn clear(client: &Client) -> anyhow::Result<()> {
    let filter = Filter { queue: Some(Name::new(QUEUE)?), ..Filter::default() };
    let mut after = None;
    loop {
        let page = client.store().list(&filter, after.as_ref(), 1_000).await?;
        let ids: Vec<JobId> = page.jobs.iter().map(|job| job.id).collect();
        client.store().delete(ids.as_slice().into()).await?;
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}
