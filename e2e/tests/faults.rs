//! What a PostgreSQL server can do to a worker short of dying: the worker shows it, goes on by itself, loses nothing,
//! and keeps its lease while the trouble is shorter than that.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass_e2e::eventually;
use windlass_e2e::scene::Scene;
use windlass_e2e::server::StoreServer;
use windlass_store_testkit::servers::{PostgresServer, Settings};

async fn scene(settings: &Settings, parameters: &str) -> Scene<PostgresServer> {
    Scene::new(PostgresServer::start(settings), parameters).await
}

const TERMINATE: &str =
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE usename = 'windlass'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_terminated_by_an_administrator() {
    let scene = scene(&Settings::default(), "").await;
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
    let scene = scene(&Settings::default(), "").await;
    // One session for each: a session that held one and waited for the next could deadlock with those of the worker.
    let lock = |table: &'static str| {
        let sql = format!(
            "BEGIN; LOCK TABLE windlass.{table} IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(20); COMMIT"
        );
        let url = scene.server.superuser_url();
        tokio::process::Command::new("psql").args(["-X", "-q", "-d", &url, "-c", &sql]).output()
    };
    let (jobs, waiting, running, ()) =
        tokio::join!(lock("jobs"), lock("waiting"), lock("running"), scene.until_health_shows_it());
    for locked in [jobs, waiting, running] {
        assert!(locked.unwrap().status.success());
    }
    scene.recovers("tables locked for 20 s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_free_connection() {
    let scene = scene(&Settings::default().max_connections(24), "").await;
    // All connections are ended, and others take what becomes free.
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
    let scene = scene(&Settings::default(), "?statement_timeout=300ms&lock_timeout=1h").await;
    let sql = "BEGIN; LOCK TABLE windlass.waiting IN ACCESS EXCLUSIVE MODE; SELECT pg_sleep(4); COMMIT";
    let url = scene.server.superuser_url();
    let lock = tokio::process::Command::new("psql").args(["-X", "-q", "-d", &url, "-c", sql]).output();
    let (locked, ()) = tokio::join!(lock, scene.until_health_shows_it());
    assert!(locked.unwrap().status.success());
    scene.recovers("statement timeout").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_read_only_for_a_while() {
    let scene = scene(&Settings::default(), "").await;
    scene.server.psql("ALTER SYSTEM SET default_transaction_read_only = on");
    scene.server.psql("SELECT pg_reload_conf()");
    scene.server.psql(TERMINATE);
    scene.until_health_shows_it().await;
    let before = scene.server.completed();
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(scene.server.completed(), before, "nothing can be written");
    scene.server.psql("ALTER SYSTEM RESET default_transaction_read_only");
    scene.server.psql("SELECT pg_reload_conf()");
    scene.recovers("read-only server").await;
}
