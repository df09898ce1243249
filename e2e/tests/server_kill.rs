//! `kill -9` of the server under load, again and again: what was accepted is done, once; what was refused is not
//! there; what is unknown is there at most once; and workers come back by themselves. A server that writes with a
//! delay may lose its newest answers; that is counted, and nothing else is lost.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use windlass::{Client, Worker};
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::producer::{Producers, Told, check_told, count_losses};
use windlass_e2e::server::StoreServer;
use windlass_e2e::witness::{Ledger, Witness};
use windlass_e2e::{eventually, jobs, setting};
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

/// What a run came to.
struct Run {
    fleet: Fleet,
    client: Client,
    told: Told,
    ledger: Ledger,
    /// When the server was killed, in milliseconds of the Unix time.
    kills: Vec<u64>,
}

/// Kills the server again and again. `before_kill` may set it to some work that a kill then interrupts.
async fn torment<S: StoreServer>(server: &S, before_kill: impl Fn(&S, usize)) -> Run {
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
    // Beside the producers, so that a kill meets jobs that are handed over as they are stored.
    let inside = Worker::with_state(&clients[0], Witness::open(&fleet.witness(), "inside"))
        .lease_unchecked(settings(0).lease)
        .handle(jobs::touch)
        .start()
        .unwrap();
    let producers = Producers::start(&clients, PRODUCERS, &["default"]);
    let (mut kills, mut waits) = (Vec::new(), Vec::new());
    for kill in 0..setting("WINDLASS_SERVER_KILLS", 5) as usize {
        let goal = server.completed() + ROUND;
        eventually("jobs complete", async || (server.completed() >= goal).then_some(())).await;
        before_kill(server, kill);
        server.kill();
        kills.push(u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap());
        if kill % 4 == 3 {
            tokio::time::sleep(AWAY).await;
        }
        server.restart();
        waits.push(first_completion(server).await);
    }
    let told = producers.stop().await;
    eventually("every job has ended", async || (server.open() == 0).then_some(())).await;
    server.assert_tidy();
    inside.stop().await;
    for worker in workers {
        worker.terminate();
        assert!(worker.end().await.0.success());
    }

    let ledger = Ledger::read(&fleet.witness());
    waits.sort_unstable();
    println!(
        "{} kills: {} accepted, {} refused, {} in doubt ({} left so); {} starts; server back to first completion: p50 \
         {:?}, max {:?}",
        kills.len(),
        told.accepted.len(),
        told.refused.len(),
        told.in_doubt,
        told.unknown.len(),
        ledger.total("start"),
        waits[waits.len() / 2],
        waits[waits.len() - 1],
    );
    assert!(waits[waits.len() - 1] < Duration::from_secs(20), "workers come back within seconds: {waits:?}");
    Run { fleet, client, told, ledger, kills }
}

impl Run {
    /// Everything that was answered holds.
    async fn lost_nothing(self, server: &impl StoreServer) {
        let found = check_told(&self.client, &self.told, &self.ledger).await;
        let stored = usize::try_from(server.stored()).unwrap();
        let accepted = self.told.accepted.len();
        assert_eq!(stored, accepted + found, "each id is there at most once, and nothing else is");
        println!("all accepted jobs completed once; {found} of those in doubt are there");
        drop(self.fleet);
    }

    /// Everything that was answered holds, but for what was answered in the seconds before a kill.
    async fn lost_the_newest_at_most(self) {
        const DELAY_MILLIS: u64 = 3_000;
        let losses = count_losses(&self.client, &self.told, &self.ledger).await;
        for id in &losses.jobs {
            // An id begins with the milliseconds of the Unix time.
            let made = id.as_bytes()[..6].iter().fold(0, |millis, byte| millis << 8 | u64::from(*byte));
            let is_newest = self.kills.iter().any(|kill| (made..made + DELAY_MILLIS).contains(kill));
            assert!(is_newest, "job {id} is lost, and was not accepted right before one of {:?}", self.kills);
        }
        println!("{} accepted jobs are lost, and the ends of {}", losses.jobs.len(), losses.ends);
        drop(self.fleet);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postgres_loses_nothing_and_workers_come_back() {
    let server = PostgresServer::start(&Settings::default().durable());
    torment(&server, |server, _| server.assert_tidy()).await.lost_nothing(&server).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_that_flushes_always_loses_nothing_and_workers_come_back() {
    let server = RedisServer::start(&RedisSettings::default().aof(Aof::Always));
    torment(&server, rewrite_at_times).await.lost_nothing(&server).await;
}

/// With a disk that keeps up nothing is lost here either; while a flush takes long, Redis writes nothing for up to two
/// seconds and answers all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_redis_that_flushes_every_second_loses_its_newest_answers_at_most() {
    let server = RedisServer::start(&RedisSettings::default().aof(Aof::Everysec));
    torment(&server, rewrite_at_times).await.lost_the_newest_at_most().await;
}

/// Every third kill meets a server that rewrites its file.
fn rewrite_at_times(server: &RedisServer, kill: usize) {
    if kill % 3 == 2 {
        // Refused if one goes on already.
        let _ = server.try_command(&["BGREWRITEAOF"]);
    }
}
