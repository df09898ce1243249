//! What a Redis server can do to a worker short of dying: the worker shows it, goes on by itself, loses nothing, and
//! keeps its lease while the trouble is shorter than that.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::core::NewJob;
use windlass::{Client, Error, JobState, Options, StoreErrorKind, Worker};
use windlass_e2e::jobs::{self, Hold, Touch};
use windlass_e2e::scene::Scene;
use windlass_e2e::server::StoreServer;
use windlass_e2e::witness::Witness;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{RedisServer, RedisSettings};

async fn scene(settings: &RedisSettings) -> Scene<RedisServer> {
    Scene::new(RedisServer::start(settings), "").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_flushed_away() {
    let scene = scene(&RedisSettings::default()).await;
    for _ in 0..setting("WINDLASS_SCRIPT_FLUSHES", 50) {
        scene.server.command(&["SCRIPT", "FLUSH"]);
        scene.until_jobs_complete().await;
    }
    scene.recovers("scripts flushed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_killed_by_an_administrator() {
    let scene = scene(&RedisSettings::default()).await;
    let mut ended = 0;
    for _ in 0..10 {
        for kind in ["normal", "pubsub"] {
            let said = scene.server.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]);
            ended += said.parse::<u32>().unwrap();
        }
        scene.until_jobs_complete().await;
    }
    assert!(ended >= 10, "there were connections to end: {ended}");
    scene.recovers("killed connections").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_stands_still_for_a_while() {
    let scene = scene(&RedisSettings::default()).await;
    scene.server.pause();
    scene.until_health_shows_it().await;
    scene.server.resume();
    scene.recovers("server stopped in its tracks").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_busy_with_a_long_script() {
    let scene = scene(&RedisSettings::default().set("lua-time-limit", 50)).await;
    std::thread::scope(|scope| {
        // It ends when it is killed, with an error.
        let spin = scope.spawn(|| scene.server.try_command(&["EVAL", "while true do end", "0"]));
        tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(scene.until_health_shows_it());
        });
        scene.server.command(&["SCRIPT", "KILL"]);
        spin.join().unwrap().unwrap_err();
    });
    scene.recovers("a long script").await;
}

/// As in a failover that goes back: for a while the server is a replica of one that is not there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_takes_no_writes_for_a_while() {
    let scene = scene(&RedisSettings::default()).await;
    scene.server.command(&["REPLICAOF", "127.0.0.1", "1"]);
    scene.until_health_shows_it().await;
    let before = scene.server.completed();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(scene.server.completed(), before, "nothing can be written");
    scene.server.command(&["REPLICAOF", "NO", "ONE"]);
    scene.recovers("read-only server").await;
}

/// Jobs of a kind that no worker runs, to fill the memory with.
async fn ballast(client: &Client) -> Result<NewJob, Error> {
    let job = NewJob::new("e2e.ballast", vec![b'x'; 100_000], Options::new().queue("ballast")).unwrap();
    client.store().enqueue([job.clone()].into()).await?;
    Ok(job)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_memory_is_full() {
    let server = RedisServer::start(&RedisSettings::default().maxmemory(24_000_000));
    let client = windlass::open(server.url()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let lease = Duration::from_secs(4);
    let running = Worker::with_state(&client, Witness::open(folder.path(), "worker"))
        .concurrency(40)
        .lease_unchecked(lease)
        .reap_interval(lease / 4)
        .handle(jobs::touch)
        .handle(jobs::hold)
        .start()
        .unwrap();
    let holds = (0..30).map(|_| Hold { gate: folder.path().to_owned() });
    let holds: Vec<_> = client.enqueue_all(holds).await.unwrap().iter().map(windlass::Handle::id).collect();
    let states = async || {
        let records = client.store().get(holds.as_slice().into()).await.unwrap();
        records.into_iter().map(|record| record.unwrap().state).collect::<Vec<_>>()
    };
    eventually("the jobs run", async || states().await.iter().all(|s| *s == JobState::Running).then_some(()))
        .await;

    let mut ballasts = Vec::new();
    let refusal = loop {
        match ballast(&client).await {
            Ok(job) => ballasts.push(job.id),
            Err(error) => break error,
        }
    };
    println!("full after {} jobs of 100 kB: {refusal}", ballasts.len());
    let Error::Store(refusal) = refusal else { panic!("no error of a store: {refusal}") };
    assert_eq!(refusal.kind(), StoreErrorKind::Unavailable, "{refusal:?}");
    assert!(refusal.to_string().contains("memory"), "{refusal}");
    // Nothing of what was refused is there, and what was accepted is.
    assert_eq!(
        client.store().get(ballasts.as_slice().into()).await.unwrap().iter().flatten().count(),
        ballasts.len()
    );
    // Now without room for the smallest.
    let used: u64 = server.info("used_memory").unwrap().parse().unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", &(used - 2_000_000).to_string()]);
    let refused = client.enqueue(Touch { number: 0 }).await;
    assert!(refused.is_err(), "a small one is refused as well");

    // Leases live on, far beyond what was left of them when memory ran out.
    let full = Instant::now();
    eventually("three leases have passed", async || (full.elapsed() > 3 * lease).then_some(())).await;
    let health = running.health();
    assert_eq!((health.lease.lost, health.fenced), (0, 0), "{health:?}");
    assert!(states().await.iter().all(|state| *state == JobState::Running));
    std::fs::write(folder.path().join("worker"), "").unwrap();
    eventually("running jobs complete", async || {
        states().await.iter().all(|state| *state == JobState::Completed).then_some(())
    })
    .await;
    assert!(client.enqueue(Touch { number: 1 }).await.is_err(), "memory is full all along");

    client.store().delete(ballasts.as_slice().into()).await.unwrap();
    let handle =
        eventually("there is room again", async || client.enqueue(Touch { number: 2 }).await.ok()).await;
    eventually("the new job completes", async || {
        (handle.state().await.unwrap() == Some(JobState::Completed)).then_some(())
    })
    .await;
    let health = running.health();
    assert_eq!((health.lease.lost, health.fenced), (0, 0), "{health:?}");
    running.stop().await;
    server.assert_tidy();
}
