//! The work itself, the same for everybody, and the lines in which it is told. Each program includes this file
//! and says only how its library opens, enqueues and runs; so no two of them can be measured differently.

use std::fmt::Debug;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc;

pub(crate) const BULK: u32 = 1_000;
pub(crate) const CONCURRENCY: u16 = 256;
const PRODUCERS: u32 = 64;

/// A library with a job queue in a SQLite file.
pub(crate) trait Rival: Clone + Send + Sync + Sized + 'static {
    /// The name of the crate, as the lock file has it.
    const CRATE: &str;
    /// What runs jobs.
    type Worker;

    /// Opens a file that does not exist yet, with this value of SQLite's `synchronous`.
    fn open(path: &Path, synchronous: &str) -> impl Future<Output = Result<Self>>;
    /// Enqueues one job; ends when it is committed.
    fn enqueue(&mut self, job: Nothing) -> impl Future<Output = Result<()>> + Send;
    /// Enqueues many at once; ends when they are committed.
    fn enqueue_all(&mut self, jobs: Vec<Nothing>) -> impl Future<Output = Result<()>>;
    /// Starts a worker whose handler does nothing but call [`Starts::note`].
    fn start(&self, starts: Starts) -> impl Future<Output = Result<Self::Worker>>;
    /// Stops the worker; ends when the completion of every job that ran is committed.
    fn stop(&self, worker: Self::Worker) -> impl Future<Output = Result<()>>;
    /// Closes the file, so that nothing of it runs beside the next work. Not timed.
    fn close(self) -> impl Future<Output = Result<()>>;
}

/// A job that does nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Nothing {
    i: u32,
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
            // Nobody listens any more when the measurement has failed.
            let _ = self.report.send(now);
        }
    }
}

/// Does all work and prints a line for each. `lock` is the text of the program's lock file.
pub(crate) async fn run<R: Rival>(lock: &str) -> Result<()> {
    let arguments = Arguments::parse()?;
    let version = version(lock, R::CRATE)?;
    let tell = |work: &str, figures: serde_json::Value| {
        let mut line = json!({ "who": R::CRATE, "version": version, "work": work });
        line.as_object_mut()
            .expect("a line is an object")
            .extend(figures.as_object().expect("figures are an object").clone());
        println!("{line}");
    };
    let rate = |jobs: u32, took: Duration| json!({ "jobs_per_s": f64::from(jobs) / took.as_secs_f64() });

    let mut queue = arguments.open::<R>("bulk").await?;
    let began = Instant::now();
    fill(&mut queue, arguments.jobs).await?;
    tell("enqueue bulk of 1,000", rate(arguments.jobs, began.elapsed()));

    let (starts, mut reports) = Starts::every(arguments.jobs);
    let began = Instant::now();
    let worker = queue.start(starts).await?;
    reports.recv().await.context("the worker ended before the last job")?;
    queue.stop(worker).await?;
    tell("run jobs that wait", rate(arguments.jobs, began.elapsed()));
    queue.close().await?;

    let share = (arguments.jobs / PRODUCERS).max(1);
    let queue = arguments.open::<R>("single").await?;
    let took = enqueue_single(&queue, share).await?;
    queue.close().await?;
    tell("enqueue single by 64 producers", rate(share * PRODUCERS, took));

    let mut latencies = idle_starts(arguments.open::<R>("idle").await?, arguments.samples).await?;
    latencies.sort_unstable();
    let percentile =
        |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1_000.0;
    tell("idle start", json!({ "p50_ms": percentile(50), "p99_ms": percentile(99) }));
    Ok(())
}

async fn fill<R: Rival>(queue: &mut R, jobs: u32) -> Result<()> {
    for start in (0..jobs).step_by(BULK as usize) {
        queue.enqueue_all((start..jobs.min(start + BULK)).map(|i| Nothing { i }).collect()).await?;
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
    for i in 0..samples {
        // Long enough for the worker to be idle again, and never in step with a timer.
        tokio::time::sleep(Duration::from_micros(5_000 + u64::from(i % 7) * 300)).await;
        let called = Instant::now();
        queue.enqueue(Nothing { i }).await?;
        let started = reports.recv().await.context("the worker ended before the job started")?;
        latencies.push(started.duration_since(called));
    }
    queue.stop(worker).await?;
    queue.close().await?;
    Ok(latencies)
}

struct Arguments {
    jobs: u32,
    samples: u32,
    dir: PathBuf,
    synchronous: String,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let mut parsed =
            Self { jobs: 20_000, samples: 300, dir: PathBuf::from("."), synchronous: "normal".into() };
        let mut words = std::env::args().skip(1);
        while let Some(name) = words.next() {
            let value = words.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--jobs" => parsed.jobs = value.parse().context("--jobs is a number")?,
                "--samples" => parsed.samples = value.parse().context("--samples is a number")?,
                "--dir" => parsed.dir = value.into(),
                "--synchronous" => parsed.synchronous = value,
                _ => bail!("{name} is unknown; known are --jobs, --samples, --dir and --synchronous"),
            }
        }
        if parsed.jobs == 0 || parsed.samples == 0 {
            bail!("--jobs and --samples must be at least 1");
        }
        Ok(parsed)
    }

    async fn open<R: Rival>(&self, name: &str) -> Result<R> {
        let path = self.dir.join(format!("{}-{name}.db", R::CRATE));
        if path.exists() {
            bail!("{} exists already; give an empty --dir", path.display());
        }
        R::open(&path, &self.synchronous).await
    }
}

fn version<'a>(lock: &'a str, name: &str) -> Result<&'a str> {
    let start = format!("name = \"{name}\"\nversion = \"");
    let (_, rest) = lock.split_once(&start).with_context(|| format!("{name} is not in the lock file"))?;
    rest.split('"').next().context("the lock file names no version")
}
