//! Two queues side by side, one of which falls sick: load on both, one worker for both, and the measure of how the
//! healthy one fares.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::task::JoinHandle;
use windlass::{Client, Error, Job, JobError, JobId, JobState, Running, Worker};

use crate::eventually;
use crate::jobs::{self, Hold, Touch};
use crate::witness::{Ledger, Witness};

/// Producers of the healthy queue; one more tries the other.
const PRODUCERS: usize = 8;
/// A job is not handed in faster than this by one producer, so that the machine is loaded and not flooded.
const PAUSE: Duration = Duration::from_millis(8);

/// A job of the queue that falls sick. No witness sees it, so that what witnesses see is the healthy queue's.
#[derive(Debug, Serialize, Deserialize)]
struct Other;

impl Job for Other {
    const KIND: &'static str = "e2e.other";
    type Output = ();
}

async fn other(_job: Other) -> Result<(), JobError> {
    Ok(())
}

/// A client with producers and a worker of both queues.
#[derive(Debug)]
pub struct Neighbours {
    /// For looking.
    pub client: Client,
    healthy: &'static str,
    running: Running,
    folder: TempDir,
    hold: JobId,
    tally: Arc<Tally>,
    producers: Vec<JoinHandle<()>>,
}

/// What producers were told about the healthy queue.
#[derive(Debug, Default)]
struct Tally {
    is_over: AtomicBool,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// How the healthy queue fared in a stretch of time.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    /// Jobs that were accepted.
    pub accepted: f64,
    /// Jobs that completed.
    pub completed: f64,
    /// How long that was.
    pub seconds: f64,
}

impl Pace {
    /// Both stretches as one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            accepted: self.accepted + other.accepted,
            completed: self.completed + other.completed,
            seconds: self.seconds + other.seconds,
        }
    }

    /// Accepted and completed per second.
    pub fn rates(&self) -> (f64, f64) {
        (self.accepted / self.seconds, self.completed / self.seconds)
    }
}

impl Neighbours {
    /// Begins, and waits until jobs of both complete; one of the healthy queue runs until the end.
    pub async fn new(url: &str, healthy: &'static str, sick: &'static str) -> Self {
        let client = windlass::open(url).await.expect("the store opens");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let running = Worker::with_state(&client, Witness::open(folder.path(), "worker"))
            .queue(healthy, 32)
            .queue(sick, 32)
            .lease_unchecked(Duration::from_secs(6))
            .reap_interval(Duration::from_secs(1))
            .poll_interval(Duration::from_millis(200))
            .handle(jobs::touch)
            .handle(jobs::hold)
            .handle(other)
            .start()
            .expect("the worker is set up well");
        let gate = folder.path().join("gate");
        let hold = client.enqueue(Hold { gate }).queue(healthy).await.expect("accepted").id();
        let tally = Arc::<Tally>::default();
        let produce = || tokio::spawn(produce(client.clone(), healthy, Arc::clone(&tally)));
        let mut producers: Vec<_> = (0..PRODUCERS).map(|_| produce()).collect();
        producers.push(tokio::spawn(try_to_produce(client.clone(), sick, Arc::clone(&tally))));
        let neighbours = Self { client: client.clone(), healthy, running, folder, hold, tally, producers };
        for queue in [healthy, sick] {
            neighbours.until_more_complete(queue, 20).await;
        }
        neighbours
    }

    /// The worker, whose health can be asked for.
    pub fn worker(&self) -> &Running {
        &self.running
    }

    /// Waits until so many more jobs of a queue complete.
    pub async fn until_more_complete(&self, queue: &str, more: u64) {
        let before = eventually("counts can be read", async || self.completed(queue).await).await;
        eventually("jobs complete", async || (self.completed(queue).await? >= before + more).then_some(()))
            .await;
    }

    /// Completed jobs of a queue, if its server says so.
    async fn completed(&self, queue: &str) -> Option<u64> {
        let queues = self.client.store().queues(None, 100).await.ok()?;
        let found = queues.iter().find(|found| found.name.as_str() == queue);
        Some(found.map_or(0, |queue| queue.counts.of(JobState::Completed)))
    }

    /// How the healthy queue fares for a while from now on, by the witness and by what producers are told.
    pub async fn pace(&self, span: Duration) -> Pace {
        let look = || {
            let completed = Ledger::read(self.folder.path()).total("done");
            (self.tally.accepted.load(Ordering::Relaxed), completed)
        };
        let (since, before) = (Instant::now(), look());
        tokio::time::sleep(span).await;
        let after = look();
        Pace {
            accepted: (after.0 - before.0) as f64,
            completed: (after.1 - before.1) as f64,
            seconds: since.elapsed().as_secs_f64(),
        }
    }

    /// Ends; fails unless all that was accepted for the healthy queue is done, none was refused, and the lease of its
    /// long job lived all the time. Answers how many were accepted.
    pub async fn end(self) -> u64 {
        self.tally.is_over.store(true, Ordering::Relaxed);
        for producer in self.producers {
            producer.await.expect("a producer is told what it can understand");
        }
        std::fs::create_dir(self.folder.path().join("gate")).expect("a new folder");
        std::fs::write(self.folder.path().join("gate/worker"), "").expect("the gate can be opened");
        let accepted = self.tally.accepted.load(Ordering::Relaxed);
        eventually("every job of the healthy queue has completed", async || {
            let queues = self.client.store().queues(None, 100).await.ok()?;
            let queue = queues.iter().find(|queue| queue.name.as_str() == self.healthy)?;
            // One more is the long one.
            (queue.counts.of(JobState::Completed) == accepted + 1 && queue.counts.open() == 0).then_some(())
        })
        .await;
        assert_eq!(self.tally.refused.load(Ordering::Relaxed), 0, "nothing healthy was refused");
        let held = self.client.job(self.hold).await.expect("jobs can be read").expect("it is there");
        assert_eq!((held.state, held.fence), (JobState::Completed, 1), "it ran through: {held:?}");
        self.running.stop().await;
        accepted
    }
}

/// Enqueues into the healthy queue until it is over.
async fn produce(client: Client, queue: &'static str, tally: Arc<Tally>) {
    for number in 0.. {
        if tally.is_over.load(Ordering::Relaxed) {
            return;
        }
        let counter = match client.enqueue(Touch { number }).queue(queue).await {
            Ok(_) => &tally.accepted,
            Err(error) => {
                eprintln!("refused by the healthy queue: {error}");
                &tally.refused
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(PAUSE).await;
    }
}

/// The same with the other queue, whatever it says.
async fn try_to_produce(client: Client, queue: &'static str, tally: Arc<Tally>) {
    while !tally.is_over.load(Ordering::Relaxed) {
        let answer = client.enqueue(Other).queue(queue).await;
        assert!(!matches!(answer, Err(Error::Encode { .. })), "it is the store that refuses: {answer:?}");
        tokio::time::sleep(PAUSE).await;
    }
}
