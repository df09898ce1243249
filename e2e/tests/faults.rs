//! What a PostgreSQL server can do to a worker short of dying: the worker shows it, goes on by itself, loses nothing,
//! and keeps its lease while the trouble is shorter than that.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use windlass::{Client, Ending, Error, JobId, JobState, Running, StoreErrorKind, Worker};
use windlass_e2e::eventually;
use windlass_e2e::jobs::{self, Hold, Touch};
use windlass_e2e::server::{assert_tidy, completed};
use windlass_e2e::witness::Witness;
use windlass_store_testkit::servers::{PostgresServer, Settings};

/// A worker in this process, so that its health can be asked for, under load; and a job that lasts over everything.
struct Scene {
    server: PostgresServer,
    client: Client,
    running: Running,
    folder: TempDir,
    is_over: Arc<AtomicBool>,
    producer: tokio::task::JoinHandle<(Vec<JobId>, u32)>,
    hold: JobId,
}

impl Scene {
    async fn new(settings: &Settings, parameters: &str) -> Self {
        let server = PostgresServer::start(settings);
        let client = Client::open(format!("{}{parameters}", server.url())).await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let running = Worker::with_state(&client, Witness::open(folder.path(), "worker"))
            .poll_interval(Duration::from_millis(200))
            .handle(jobs::touch)
            .handle(jobs::hold)
            .start()
            .unwrap();
        let hold = client.enqueue(Hold { gate: folder.path().to_owned() }).await.unwrap().id();
        let is_over = Arc::<AtomicBool>::default();
        let producer = tokio::spawn(produce(client.clone(), Arc::clone(&is_over)));
        let scene = Self { server, client, running, folder, is_over, producer, hold };
        scene.until_jobs_complete().await;
        scene
    }

    async fn until_jobs_complete(&self) {
        let goal = completed(&self.server) + 20;
        eventually("jobs complete", async || (completed(&self.server) >= goal).then_some(())).await;
    }

    async fn until_health_shows_it(&self) {
        eventually("health shows the trouble", async || (!self.running.health().is_ok()).then_some(())).await;
    }

    /// The trouble is over: everything goes on, and what was accepted is done.
    async fn recovers(self, what: &str) {
        let back = Instant::now();
        self.until_jobs_complete().await;
        let first = back.elapsed();
        eventually("the worker is well again", async || self.running.health().is_ok().then_some(())).await;
        println!("{what}: jobs complete {first:?} after it, health is good after {:?}", back.elapsed());
        self.is_over.store(true, Ordering::Relaxed);
        let (accepted, refused) = self.producer.await.unwrap();
        std::fs::write(self.folder.path().join("worker"), "").unwrap();
        let open = "SELECT (SELECT count(*) FROM windlass.waiting) + (SELECT count(*) FROM windlass.running)";
        eventually("every job has ended", async || (self.server.psql(open) == "0").then_some(())).await;
        let health = self.running.health();
        assert_eq!((health.lease.lost, health.fenced), (0, 0), "{health:?}");
        for chunk in accepted.chunks(500) {
            for (id, record) in chunk.iter().zip(self.client.store().get(chunk).await.unwrap()) {
                let record = record.unwrap_or_else(|| panic!("job {id} was accepted and is lost"));
                assert_eq!(record.state, JobState::Completed, "{record:?}");
                let completed =
                    record.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Completed));
                assert_eq!(completed.count(), 1, "{record:?}");
            }
        }
        let held = self.client.job(self.hold).await.unwrap().unwrap();
        assert_eq!((held.state, held.fence), (JobState::Completed, 1), "it ran through: {held:?}");
        println!("{what}: {} accepted and completed once, {refused} refused or unknown", accepted.len());
        assert_tidy(&self.server);
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

const TERMINATE: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'windlass'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_terminated_by_an_administrator() {
    let scene = Scene::new(&Settings::default(), "").await;
    let mut ended = 0;
    for _ in 0..10 {
        ended += scene.server.psql(TERMINATE).parse::<u32>().unwrap();
        scene.until_jobs_complete().await;
    }
    assert!(ended >= 10, "there were connections to end: {ended}");
    scene.recovers("terminated connections").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_locked_for_twenty_seconds() {
    let scene = Scene::new(&Settings::default(), "").await;
    let lock = |table: &'static str, seconds: u32| {
        let sql = format!(
            "BEGIN; LOCK TABLE windlass.{table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep({seconds}); COMMIT"
        );
        let url = scene.server.superuser_url();
        tokio::process::Command::new("psql").args(["-X", "-q", "-d", &url, "-c", &sql]).output()
    };
    let (locked, ()) =
        tokio::join!(lock("jobs, windlass.waiting, windlass.running", 20), scene.until_health_shows_it());
    assert!(locked.unwrap().status.success());
    scene.recovers("tables locked for 20 s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_free_connection() {
    let scene = Scene::new(&Settings::default().max_connections(24), "").await;
    // Everybody is thrown out, and others take what becomes free.
    let url = scene.server.url();
    let hog = || {
        tokio::process::Command::new("psql")
            .args(["-X", "-q", "-d", &url, "-c", "SELECT pg_sleep(60)"])
            .spawn()
    };
    let mut hogs: Vec<_> = (0..24).map(|_| hog().unwrap()).collect();
    let theirs = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'";
    let ours = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE usename = 'windlass' AND query NOT LIKE 'SELECT pg_sleep%'";
    eventually("others have all connections", async || {
        scene.server.psql(ours);
        hogs.retain_mut(|hog| hog.try_wait().unwrap().is_none());
        hogs.push(hog().unwrap());
        (scene.server.psql(theirs).parse::<u32>().unwrap() >= 21).then_some(())
    })
    .await;
    scene.until_health_shows_it().await;
    for mut hog in hogs {
        hog.kill().await.unwrap();
    }
    scene.server.psql(
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'",
    );
    scene.recovers("no free connection").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_that_take_too_long() {
    let scene = Scene::new(&Settings::default(), "?statement_timeout=300ms&lock_timeout=1h").await;
    let sql = "BEGIN; LOCK TABLE windlass.waiting IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4); COMMIT";
    let url = scene.server.superuser_url();
    let lock = tokio::process::Command::new("psql").args(["-X", "-q", "-d", &url, "-c", sql]).output();
    let (locked, ()) = tokio::join!(lock, scene.until_health_shows_it());
    assert!(locked.unwrap().status.success());
    scene.recovers("statement timeout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_while() {
    let scene = Scene::new(&Settings::default(), "").await;
    scene.server.psql("ALTER SYSTEM SET default_transaction_read_only = on");
    scene.server.psql("SELECT pg_reload_conf()");
    scene.server.psql(TERMINATE);
    scene.until_health_shows_it().await;
    let before = completed(&scene.server);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(completed(&scene.server), before, "nothing can be written");
    scene.server.psql("ALTER SYSTEM RESET default_transaction_read_only");
    scene.server.psql("SELECT pg_reload_conf()");
    scene.recovers("read-only server").await;
}
