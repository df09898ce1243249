//! `kill -9` of the PostgreSQL server under load, again and again: what was accepted is done, once; what was refused
//! is not there; what nobody knows is there at most once; and workers come back by themselves.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use windlass::{Client, Ending, Error, JobId, JobRecord, JobState, StoreErrorKind};
use windlass_e2e::fleet::{Fleet, WorkerSettings};
use windlass_e2e::jobs::Touch;
use windlass_e2e::server::{assert_tidy, completed};
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const PROCESSES: u32 = 3;
const PRODUCERS: u32 = 8;
/// Between two kills at least this many jobs complete.
const ROUND: u64 = 100;

/// What producers were told.
#[derive(Debug, Default)]
struct Told {
    accepted: Vec<JobId>,
    refused: Vec<JobId>,
    unknown: Vec<JobId>,
}

impl Told {
    fn add(&mut self, other: Self) {
        self.accepted.extend(other.accepted);
        self.refused.extend(other.refused);
        self.unknown.extend(other.unknown);
    }
}

/// Enqueues until it is told to stop. Every second job whose fate is unknown is handed in again under its id, as a
/// careful caller would; the others stay unknown.
async fn produce(client: Client, is_over: Arc<AtomicBool>, in_doubt: Arc<AtomicUsize>) -> Told {
    let mut told = Told::default();
    for number in 0.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let id = JobId::new();
        let mut is_in_doubt = false;
        loop {
            match client.enqueue(Touch { number }).id(id).await {
                Ok(_) => told.accepted.push(id),
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Unavailable => {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    if is_in_doubt {
                        continue;
                    }
                    told.refused.push(id);
                }
                Err(Error::Store(error)) if error.kind() == StoreErrorKind::Unknown => {
                    in_doubt.fetch_add(usize::from(!is_in_doubt), Ordering::Relaxed);
                    if number % 2 == 0 {
                        is_in_doubt = true;
                        continue;
                    }
                    told.unknown.push(id);
                }
                Err(error) => panic!("neither accepted, refused nor unknown: {error}"),
            }
            break;
        }
        // Producers are not to outrun the workers.
        tokio::time::sleep(Duration::from_millis(4)).await;
    }
    told
}

fn micros_now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()
}

/// How long after `since` the first job completed, by the server's own clock, which is this machine's.
async fn first_completion(server: &PostgresServer, since: u128) -> Duration {
    let ask =
        format!("SELECT min(finished_at) FROM windlass.ended WHERE state = 4 AND finished_at > {since}");
    let first =
        eventually("a job completes after the restart", async || server.psql(&ask).parse::<u128>().ok())
            .await;
    Duration::from_micros(u64::try_from(first - since).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_loses_nothing_and_workers_come_back() {
    let server = PostgresServer::start(&Settings::default().durable());
    let fleet = Fleet::on(WORKER, server.url());
    let client = fleet.client().await;
    let settings = |number| WorkerSettings {
        label: format!("worker{number}"),
        lease: Duration::from_secs(10),
        ..WorkerSettings::default()
    };
    let workers: Vec<_> = (0..PROCESSES).map(|number| fleet.start(&settings(number))).collect();
    let (is_over, in_doubt) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let producers: Vec<_> = (0..PRODUCERS)
        .map(|_| tokio::spawn(produce(client.clone(), Arc::clone(&is_over), Arc::clone(&in_doubt))))
        .collect();

    let kills = setting("WINDLASS_SERVER_KILLS", 5);
    let mut waits = Vec::new();
    for _ in 0..kills {
        let goal = completed(&server) + ROUND;
        eventually("jobs complete", async || (completed(&server) >= goal).then_some(())).await;
        assert_tidy(&server);
        server.kill();
        server.restart();
        waits.push(first_completion(&server, micros_now()).await);
    }
    is_over.store(true, Ordering::Relaxed);
    let mut told = Told::default();
    for producer in producers {
        told.add(producer.await.unwrap());
    }
    let open = "SELECT (SELECT count(*) FROM windlass.waiting) + (SELECT count(*) FROM windlass.running)";
    eventually("every job has ended", async || (server.psql(open) == "0").then_some(())).await;
    assert_tidy(&server);
    for worker in workers {
        worker.terminate();
        assert!(worker.end().await.0.success());
    }

    let ledger = Ledger::read(&fleet.witness());
    for (id, record) in records(&client, &told.accepted).await {
        check(id, &record.unwrap_or_else(|| panic!("job {id} was accepted and is lost")), &ledger);
    }
    for (id, record) in records(&client, &told.refused).await {
        assert!(record.is_none(), "job {id} was refused: {record:?}");
    }
    let unknown: Vec<_> = records(&client, &told.unknown).await;
    let found = unknown.iter().filter(|(_, record)| record.is_some()).count();
    unknown
        .iter()
        .filter_map(|(id, record)| Some((id, record.as_ref()?)))
        .for_each(|(id, record)| check(*id, record, &ledger));
    let stored: usize = server.psql("SELECT count(*) FROM windlass.jobs").parse().unwrap();
    assert_eq!(stored, told.accepted.len() + found, "each id is there at most once, and nothing else is");

    waits.sort_unstable();
    let extra = ledger.total("start") - stored;
    println!(
        "{kills} kills: {} accepted and completed once, {} refused, {} in doubt ({} left so, {found} of them there); \
         {extra} extra starts; server back to first completion: p50 {:?}, max {:?}",
        told.accepted.len(),
        told.refused.len(),
        in_doubt.load(Ordering::Relaxed),
        told.unknown.len(),
        waits[waits.len() / 2],
        waits[waits.len() - 1],
    );
    assert!(waits[waits.len() - 1] < Duration::from_secs(10), "workers come back within seconds: {waits:?}");
}

async fn records(client: &Client, ids: &[JobId]) -> Vec<(JobId, Option<JobRecord>)> {
    let mut found = Vec::new();
    for chunk in ids.chunks(500) {
        found.extend(chunk.iter().copied().zip(client.store().get(chunk).await.unwrap()));
    }
    found
}

/// Completed exactly once, each start was a claim, and each claim but the last has a recorded reason.
fn check(id: JobId, record: &JobRecord, ledger: &Ledger) {
    assert_eq!(record.state, JobState::Completed, "job {id}: {record:?}");
    let completed = record.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Completed));
    assert_eq!(completed.count(), 1, "job {id}: {record:?}");
    assert_eq!(record.attempts.len() as u64, record.fence, "job {id}: {record:?}");
    let starts = ledger.count(id, "start") as u64;
    assert!((1..=record.fence).contains(&starts), "job {id}: {starts} starts, {record:?}");
}
