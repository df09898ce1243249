//! Windlass itself, through its public front door.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use windlass::{Client, Job, JobError, State, Worker};

use crate::report::Whole;
use crate::subject::{Finished, Subject};

/// A job that does nothing. Its payload is as small as the raw limit's.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Nothing {
    pub(crate) i: u32,
}

impl Job for Nothing {
    const KIND: &'static str = "bench.nothing";
    type Output = ();
}

pub(crate) const BULK: u32 = 1_000;
const PRODUCERS: u32 = 64;

/// Tells the benchmark that jobs have run.
#[derive(Clone)]
pub(crate) struct Ran {
    left: Arc<AtomicU32>,
    done: mpsc::Sender<()>,
}

async fn nothing(_job: Nothing, State(ran): State<Ran>) -> Result<(), JobError> {
    if ran.left.fetch_sub(1, Ordering::Relaxed) == 1 {
        // The benchmark waits for exactly one of these.
        let _ = ran.done.try_send(());
    }
    Ok(())
}

/// Jobs per second of bulk enqueues, one after the other.
pub(crate) async fn enqueue_bulk(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    let client = place.client().await?;
    let started = Instant::now();
    fill(&client, jobs).await?;
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

/// Enqueues in bulk.
pub(crate) async fn fill(client: &Client, jobs: u32) -> Result<()> {
    for start in (0..jobs).step_by(BULK as usize) {
        client.enqueue_all((start..jobs.min(start + BULK)).map(|i| Nothing { i })).await?;
    }
    Ok(())
}

/// Jobs per second of single enqueues, each awaited, by many producers at once.
pub(crate) async fn enqueue_single(subject: Subject, jobs: u32) -> Result<f64> {
    let place = subject.place()?;
    singles(&place.client().await?, jobs).await
}

/// The same on a store that is there: a quarter of so many jobs.
pub(crate) async fn singles(client: &Client, jobs: u32) -> Result<f64> {
    let share = jobs / 4 / PRODUCERS;
    let started = Instant::now();
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|producer| {
            let client = client.clone();
            tokio::spawn(async move {
                for i in 0..share {
                    client.enqueue(Nothing { i: producer * share + i }).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for producer in producers {
        producer.await??;
    }
    Ok(f64::from(share * PRODUCERS) / started.elapsed().as_secs_f64())
}

/// Jobs per second of a worker on a filled queue, until the last completion is stored.
pub(crate) async fn drain(subject: Subject, jobs: u32, finished: Finished) -> Result<f64> {
    let place = subject.place()?;
    let client = place.client_with(finished).await?;
    fill(&client, jobs).await?;
    drain_filled(&client, jobs).await
}

/// As [`drain`], on a queue that was filled before.
pub(crate) async fn drain_filled(client: &Client, jobs: u32) -> Result<f64> {
    let (worker, mut done) = worker(client, jobs);
    let started = Instant::now();
    let running = worker.start()?;
    done.recv().await;
    // Stopping waits for the completions that are not stored yet.
    running.stop().await;
    Ok(f64::from(jobs) / started.elapsed().as_secs_f64())
}

/// Jobs per second from enqueue to stored completion, producing and running at once.
pub(crate) async fn whole(subject: Subject, jobs: u32, finished: Finished) -> Result<Whole> {
    let place = subject.place()?;
    let client = place.client_with(finished).await?;
    let (worker, mut done) = worker(&client, jobs);
    let cpu = subject.server_cpu()?;
    let started = Instant::now();
    let running = worker.start()?;
    fill(&client, jobs).await?;
    done.recv().await;
    running.stop().await;
    Whole::ended(jobs, started.elapsed(), cpu)
}

/// A worker, and what tells that so many jobs have run.
pub(crate) fn worker(client: &Client, jobs: u32) -> (Worker<Ran>, mpsc::Receiver<()>) {
    let (done, wait) = mpsc::channel(1);
    let state = Ran { left: Arc::new(AtomicU32::new(jobs)), done };
    (Worker::with_state(client, state).concurrency(256).handle(nothing), wait)
}

/// From the call of enqueue to the first line of the handler, on an idle worker.
pub(crate) async fn latency(subject: Subject, samples: u32) -> Result<Vec<Duration>> {
    let place = subject.place()?;
    let client = place.client().await?;
    let (started, mut starts) = mpsc::channel(16);
    let running = Worker::with_state(&client, Started(started)).handle(note_start).start()?;
    let mut latencies = Vec::new();
    for i in 0..samples {
        // Long enough for the worker to be idle again, and never in step with a timer.
        tokio::time::sleep(Duration::from_micros(2_000 + u64::from(i % 7) * 300)).await;
        let called = Instant::now();
        client.enqueue(Nothing { i }).await?;
        let start: Instant = starts.recv().await.expect("the worker lives");
        latencies.push(start.duration_since(called));
    }
    running.stop().await;
    Ok(latencies)
}

#[derive(Clone)]
struct Started(mpsc::Sender<Instant>);

async fn note_start(_job: Nothing, State(started): State<Started>) -> Result<(), JobError> {
    started.0.send(Instant::now()).await?;
    Ok(())
}
