//! `kill -9` of the server under load, again and again: what was accepted is done, once; what was refused is not
//! there; what nobody knows is there at most once; and workers come back by themselves.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::producer::{Producers, check_told};
use windlass_e2e::server::StoreServer;
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{Aof, PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const PROCESSES: u32 = 3;
/// Each with a lane of its own, so that a kill meets several calls under way.
const CLIENTS: usize = 4;
const PRODUCERS: usize = 8;
/// Every fourth time the server stays away longer than any call waits for it.
const AWAY: Duration = Duration::from_secs(3);
/// Between two kills at least this many jobs complete.
const ROUND: u64 = 100;

/// How long it takes from now on until a job completes.
async fn first_completion(server: &impl StoreServer) -> Duration {
    let (before, since) = (server.completed(), Instant::now());
    eventually("a job completes after the restart", async || (server.completed() > before).then_some(()))
        .await;
    since.elapsed()
}

/// Kills the server again and again. `before_kill` may set it to some work that a kill then interrupts.
async fn torment<S: StoreServer>(server: &S, before_kill: impl Fn(&S, u32)) {
    let fleet = Fleet::on(WORKER, server.url());
    let client = fleet.client().await;
    let settings = |number| WorkerSettings {
        label: format!("worker{number}"),
        lease: Duration::from_secs(10),
        ..WorkerSettings::default()
    };
    let workers: Vec<_> = (0..PROCESSES).map(|number| fleet.start(&settings(number))).collect();
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(fleet.client().await);
    }
    let producers = Producers::start(&clients, PRODUCERS, &["default"]);
    let kills = setting("WINDLASS_SERVER_KILLS", 5);
    let mut waits = Vec::new();
    for kill in 0..kills {
        let goal = server.completed() + ROUND;
        eventually("jobs complete", async || (server.completed() >= goal).then_some(())).await;
        before_kill(server, kill);
        server.kill();
        if kill % 4 == 3 {
            tokio::time::sleep(AWAY).await;
        }
        server.restart();
        waits.push(first_completion(server).await);
    }
    let told = producers.stop().await;
    eventually("every job has ended", async || (server.open() == 0).then_some(())).await;
    server.assert_tidy();
    for worker in workers {
        worker.terminate();
        assert!(worker.end().await.0.success());
    }

    let ledger = Ledger::read(&fleet.witness());
    let found = check_told(&client, &told, &ledger).await;
    let stored = usize::try_from(server.stored()).unwrap();
    assert_eq!(stored, told.accepted.len() + found, "each id is there at most once, and nothing else is");

    waits.sort_unstable();
    let extra = ledger.total("start") - stored;
    println!(
        "{kills} kills: {} accepted and completed once, {} refused, {} in doubt ({} left so, {found} of them there); \
         {extra} extra starts; server back to first completion: p50 {:?}, max {:?}",
        told.accepted.len(),
        told.refused.len(),
        told.in_doubt,
        told.unknown.len(),
        waits[waits.len() / 2],
        waits[waits.len() - 1],
    );
    assert!(waits[waits.len() - 1] < Duration::from_secs(10), "workers come back within seconds: {waits:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_loses_nothing_and_workers_come_back() {
    let server = PostgresServer::start(&Settings::default().durable());
    torment(&server, |server, _| server.assert_tidy()).await;
}

/// Every third time while the server rewrites its file.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_with_an_append_only_file_loses_nothing_and_workers_come_back() {
    let server = RedisServer::start(&RedisSettings::default().aof(Aof::Everysec));
    torment(&server, |server, kill| {
        if kill % 3 == 2 {
            // Refused if one goes on already.
            let _ = server.try_command(&["BGREWRITEAOF"]);
        }
    })
    .await;
}
