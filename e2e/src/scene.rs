//! A worker in this process, so that its health can be asked for, under load, on a server that is in trouble for a
//! while; and a job that lasts over everything.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::task::JoinHandle;
use windlass::{Client, Error, JobId, JobState, Running, StoreErrorKind, Worker};

use crate::eventually;
use crate::jobs::{self, Hold, Touch};
use crate::producer::{completions, records};
use crate::server::StoreServer;
use crate::witness::Witness;

/// One server, one worker, one producer.
#[derive(Debug)]
pub struct Scene<S> {
    /// The server, to be troubled.
    pub server: S,
    /// The client of worker and producer.
    pub client: Client,
    running: Running,
    folder: TempDir,
    is_over: Arc<AtomicBool>,
    producer: JoinHandle<(Vec<JobId>, u32)>,
    hold: JobId,
}

impl<S: StoreServer> Scene<S> {
    /// Sets everything up and waits until jobs complete. The parameters are added to the server's URL.
    pub async fn new(server: S, parameters: &str) -> Self {
        let client = windlass::open(format!("{}{parameters}", server.url())).await.expect("the store opens");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let running = Worker::with_state(&client, Witness::open(folder.path(), "worker"))
            .poll_interval(Duration::from_millis(200))
            .handle(jobs::touch)
            .handle(jobs::hold)
            .start()
            .expect("the worker is set up well");
        let hold = client.enqueue(Hold { gate: folder.path().to_owned() }).await.expect("accepted").id();
        let is_over = Arc::<AtomicBool>::default();
        let producer = tokio::spawn(produce(client.clone(), Arc::clone(&is_over)));
        let scene = Self { server, client, running, folder, is_over, producer, hold };
        scene.until_jobs_complete().await;
        scene
    }

    /// Waits until the worker has done more.
    pub async fn until_jobs_complete(&self) {
        let goal = self.server.completed() + 20;
        eventually("jobs complete", async || (self.server.completed() >= goal).then_some(())).await;
    }

    /// Waits until the worker knows of the trouble.
    pub async fn until_health_shows_it(&self) {
        eventually("health shows the trouble", async || (!self.running.health().is_ok()).then_some(())).await;
    }

    /// The trouble is over: everything goes on, and what was accepted is done.
    pub async fn recovers(self, what: &str) {
        let back = Instant::now();
        self.until_jobs_complete().await;
        let first = back.elapsed();
        eventually("the worker is well again", async || self.running.health().is_ok().then_some(())).await;
        println!("{what}: jobs complete {first:?} after it, health is good after {:?}", back.elapsed());
        self.is_over.store(true, Ordering::Relaxed);
        let (accepted, refused) = self.producer.await.expect("the producer is told what it can understand");
        std::fs::write(self.folder.path().join("worker"), "").expect("the gate can be opened");
        eventually("every job has ended", async || (self.server.open() == 0).then_some(())).await;
        let health = self.running.health();
        assert_eq!((health.lease.lost, health.fenced), (0, 0), "{health:?}");
        for (id, record) in records(&self.client, &accepted).await {
            let record = record.unwrap_or_else(|| panic!("job {id} was accepted and is lost"));
            assert_eq!((record.state, completions(&record)), (JobState::Completed, 1), "{record:?}");
        }
        let held = self.client.job(self.hold).await.expect("jobs can be read").expect("it is there");
        assert_eq!((held.state, held.fence), (JobState::Completed, 1), "it ran through: {held:?}");
        println!("{what}: {} accepted and completed once, {refused} refused or unknown", accepted.len());
        self.server.assert_tidy();
        self.running.stop().await;
    }
}

/// Enqueues until it is told to stop; answers what was accepted, and how many were not.
async fn produce(client: Client, is_over: Arc<AtomicBool>) -> (Vec<JobId>, u32) {
    let (mut accepted, mut others) = (Vec::new(), 0);
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        match client.enqueue(Touch { number }).await {
            Ok(handle) => accepted.push(handle.id()),
            Err(Error::Store(error)) if error.is_transient() => {
                assert_ne!(error.kind(), StoreErrorKind::Fatal);
                others += 1;
            }
            Err(error) => panic!("neither accepted, refused nor unknown: {error}"),
        }
        // A steady load, not the most.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    (accepted, others)
}
