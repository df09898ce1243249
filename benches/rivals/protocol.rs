//! The work itself, the same for every program, and the lines in which it is told. Each program includes this file
//! and says only how its library opens, enqueues and runs; so no two of them can be measured differently.

#[path = "protocol/arguments.rs"]
mod arguments;
#[path = "protocol/memory.rs"]
mod memory;
#[path = "protocol/server.rs"]
mod server;

use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use self::arguments::Arguments;
#[allow(unused_imports, reason = "not every library can do both")]
pub(crate) use self::arguments::{Finished, Place, Rule};
use self::server::ServerCpu;

pub(crate) const BULK: u32 = 1_000;
#[allow(dead_code, reason = "not every library has such a number")]
pub(crate) const CONCURRENCY: u16 = 256;
const PRODUCERS: u32 = 64;
/// So that one commits while the other's jobs travel.
const BULK_PRODUCERS: u32 = 2;
/// After this, what was sampled so far has to do: a worker that only polls would take minutes.
const IDLE_MAX: Duration = Duration::from_secs(60);
const WARM_UP_SAMPLES: u32 = 10;
/// Flows are submitted by so many, each awaiting each of its own.
const FLOW_PRODUCERS: u32 = 8;
/// Jobs that the parent of a flow waits for.
const CHILDREN: u32 = 10;

/// A library with a job queue in a SQLite file or in a database of a server.
pub(crate) trait Rival: Clone + Send + Sync + Sized + 'static {
    /// The name of the crate, as the lock file has it.
    const CRATE: &str;
    /// Whether there is a queue at all. Rows without one are inserted in bulk and run, no more.
    const IS_QUEUE: bool = true;
    /// Whether jobs can wait for others.
    const HAS_FLOWS: bool = false;
    /// What runs jobs.
    type Worker;

    /// Opens a place where nothing is yet.
    fn open(place: &Place) -> impl Future<Output = Result<Self>>;
    /// Enqueues one job; ends when it is committed.
    fn enqueue(&mut self, job: Nothing) -> impl Future<Output = Result<()>> + Send;
    /// Enqueues many at once; ends when they are committed.
    fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> impl Future<Output = Result<()>> + Send;
    /// Starts a worker whose handler does nothing but call [`Starts::note`].
    fn start(&self, starts: Starts) -> impl Future<Output = Result<Self::Worker>>;
    /// Stops the worker; ends when the completion of every job that ran is committed.
    fn stop(&self, worker: Self::Worker) -> impl Future<Output = Result<()>>;
    /// Submits a flow: a parent that starts when so many children have completed. Ends when it is committed.
    fn submit_flow(&mut self, _children: u32) -> impl Future<Output = Result<()>> + Send {
        async { anyhow::bail!("it has no flows") }
    }
    /// Ends when every flow is over, after the last parent has started.
    fn flows_over(&self) -> impl Future<Output = Result<()>> {
        async { Ok(()) }
    }
    /// Closes everything, so that nothing of it runs beside the next work. Not timed.
    fn close(self) -> impl Future<Output = Result<()>>;
}

/// A job that does nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Nothing {
    pub(crate) i: u32,
}

/// Tells when jobs start: every one, or the last of many.
#[derive(Debug, Clone)]
pub(crate) struct Starts {
    every: u32,
    seen: Arc<AtomicU32>,
    report: mpsc::UnboundedSender<Instant>,
}

impl Starts {
    fn every(every: u32) -> (Self, mpsc::UnboundedReceiver<Instant>) {
        let (report, reports) = mpsc::unbounded_channel();
        (Self { every, seen: Arc::default(), report }, reports)
    }

    /// The first line of the handler.
    pub(crate) fn note(&self) {
        let now = Instant::now();
        if (self.seen.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(self.every) {
            // The receiver is gone when the measurement has failed.
            let _ = self.report.send(now);
        }
    }
}

/// Does all work and prints a line for each. `lock` is the text of the program's lock file.
pub(crate) async fn run<R: Rival>(lock: &str) -> Result<()> {
    let arguments = Arguments::parse()?;
    let version = version(lock, R::CRATE)?;
    let tell = |work: &str, figures: Value| {
        let mut line = json!({ "who": R::CRATE, "version": version, "work": work });
        line.as_object_mut()
            .expect("a line is an object")
            .extend(figures.as_object().expect("figures are an object").clone());
        println!("{line}");
    };

    let queue = R::open(&arguments.place(R::CRATE, "bulk")?).await?;
    tell("enqueue bulk of 1,000", enqueue_bulk(&queue, &arguments).await?);
    tell("run jobs that wait", run_all(&queue, 0, &arguments).await?);
    queue.close().await?;

    let queue = R::open(&arguments.place(R::CRATE, "whole")?).await?;
    tell("end to end", run_all(&queue, arguments.jobs, &arguments).await?);
    queue.close().await?;
    // A rule is compared by the figures above.
    if !R::IS_QUEUE || arguments.has_rule() {
        return Ok(());
    }
    // Only of libraries on Redis another one has flows.
    if R::HAS_FLOWS && arguments.redis().is_some() {
        let queue = R::open(&arguments.place(R::CRATE, "flows")?).await?;
        tell("flows to their end", run_flows(&queue, &arguments).await?);
        queue.close().await?;
    }

    let queue = R::open(&arguments.place(R::CRATE, "single")?).await?;
    let share = (arguments.singles / PRODUCERS).max(1);
    let took = enqueue_single(&queue, share).await?;
    tell("enqueue single by 64 producers", rate(share * PRODUCERS, took));
    queue.close().await?;

    let mut latencies =
        idle_starts(R::open(&arguments.place(R::CRATE, "idle")?).await?, arguments.samples).await?;
    latencies.sort_unstable();
    let percentile =
        |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
    tell(
        "idle start",
        json!({ "p50_ms": percentile(50), "p99_ms": percentile(99), "samples": latencies.len() }),
    );
    Ok(())
}

fn rate(jobs: u32, took: Duration) -> Value {
    json!({ "jobs_per_s": f64::from(jobs) / took.as_secs_f64() })
}

/// Fills an empty place, and tells how much heavier a Redis server is with it.
async fn enqueue_bulk<R: Rival>(queue: &R, arguments: &Arguments) -> Result<Value> {
    let weigh = || arguments.redis().map(memory::used_bytes).transpose();
    let before = weigh()?;
    let began = Instant::now();
    fill(queue, 1, arguments.jobs).await?;
    let mut figures = rate(arguments.jobs, began.elapsed());
    if let (Some(before), Some(after)) = (before, weigh()?) {
        figures["memory_bytes_per_job"] =
            json!(after.saturating_sub(before) as f64 / f64::from(arguments.jobs));
    }
    Ok(figures)
}

/// Runs all jobs, of which the last `fresh` ones are enqueued meanwhile, until the last completion is committed.
async fn run_all<R: Rival>(queue: &R, fresh: u32, arguments: &Arguments) -> Result<Value> {
    let server = arguments.server_pid.map(ServerCpu::since_now).transpose()?;
    let (starts, mut reports) = Starts::every(arguments.jobs);
    let began = Instant::now();
    let worker = queue.start(starts).await?;
    fill(queue, BULK_PRODUCERS, fresh).await?;
    reports.recv().await.context("the worker ended before the last job")?;
    queue.stop(worker).await?;
    let mut figures = rate(arguments.jobs, began.elapsed());
    if let Some(server) = server {
        figures["server_cpu_us_per_job"] =
            json!(server.used()?.as_secs_f64() * 1e6 / f64::from(arguments.jobs));
    }
    Ok(figures)
}

/// Submits flows and runs them at the same time, until the last is over: as many as have about so many jobs.
async fn run_flows<R: Rival>(queue: &R, arguments: &Arguments) -> Result<Value> {
    let server = arguments.server_pid.map(ServerCpu::since_now).transpose()?;
    let share = (arguments.jobs / (CHILDREN + 1) / FLOW_PRODUCERS).max(1);
    let flows = share * FLOW_PRODUCERS;
    let (starts, mut reports) = Starts::every(flows * (CHILDREN + 1));
    let began = Instant::now();
    let worker = queue.start(starts).await?;
    let producers = (0..FLOW_PRODUCERS).map(|_| {
        let mut queue = queue.clone();
        tokio::spawn(async move {
            for _ in 0..share {
                queue.submit_flow(CHILDREN).await?;
            }
            anyhow::Ok(())
        })
    });
    for producer in producers.collect::<Vec<_>>() {
        producer.await??;
    }
    let submitted = began.elapsed();
    reports.recv().await.context("the worker ended before the last job")?;
    queue.flows_over().await?;
    let took = began.elapsed();
    queue.stop(worker).await?;
    let rate = |time: Duration| f64::from(flows) / time.as_secs_f64();
    let mut figures = json!({ "flows_per_s": rate(took), "submitted_per_s": rate(submitted) });
    if let Some(server) = server {
        figures["server_cpu_us_per_flow"] = json!(server.used()?.as_secs_f64() * 1e6 / f64::from(flows));
    }
    Ok(figures)
}

/// Enqueues `jobs` in bulk, by so many producers at once.
async fn fill<R: Rival>(queue: &R, producers: u32, jobs: u32) -> Result<()> {
    let producers: Vec<_> = (0..producers)
        .map(|producer| {
            let mut queue = queue.clone();
            let mine = jobs * producer / producers..jobs * (producer + 1) / producers;
            tokio::spawn(async move {
                for start in mine.clone().step_by(BULK as usize) {
                    let end = mine.end.min(start + BULK);
                    queue.enqueue_all((start..end).map(|i| Nothing { i }).collect()).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(())
}

async fn enqueue_single<R: Rival>(queue: &R, share: u32) -> Result<Duration> {
    let began = Instant::now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let mut queue = queue.clone();
            tokio::spawn(async move {
                for i in 0..share {
                    queue.enqueue(Nothing { i: producer * share + i }).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(began.elapsed())
}

/// From the call of enqueue to the first line of the handler, on an idle worker.
async fn idle_starts<R: Rival>(mut queue: R, samples: u32) -> Result<Vec<Duration>> {
    let (starts, mut reports) = Starts::every(1);
    let worker = queue.start(starts).await?;
    let mut latencies = Vec::new();
    let began = Instant::now();
    for i in 0..WARM_UP_SAMPLES + samples {
        // Long enough for the worker to be idle again, and never in step with a timer.
        tokio::time::sleep(Duration::from_micros(5_000 + u64::from(i % 7) * 300)).await;
        let called = Instant::now();
        queue.enqueue(Nothing { i }).await?;
        let started = tokio::time::timeout(IDLE_MAX, reports.recv()).await;
        let started = started.with_context(|| format!("job {i} of idle starts has not started"))?;
        let started = started.context("the worker ended before the job started")?;
        if i >= WARM_UP_SAMPLES {
            latencies.push(started.duration_since(called));
        }
        if began.elapsed() > IDLE_MAX && !latencies.is_empty() {
            break;
        }
    }
    queue.stop(worker).await?;
    queue.close().await?;
    Ok(latencies)
}

fn version<'a>(lock: &'a str, name: &str) -> Result<&'a str> {
    let start = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = lock.split_once(&start).with_context(|| format!("{name} is not in the lock file"))?;
    rest.split('"').next().context("the lock file names no version")
}
