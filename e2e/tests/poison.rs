//! One job that aborts its process, among many that do not: it alone becomes a dead letter, however many ran beside
//! it when its processes died.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass::{JobId, JobState, Reason};
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::jobs::{Abort, Plain};
use windlass_e2e::producer::{completions, records};
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const PROCESSES: u32 = 2;
/// Short, since each death is noticed when a lease has run out.
const LEASE: Duration = Duration::from_secs(2);

/// Worker processes that are started again when they die, as any supervisor would.
struct Supervised<'a> {
    fleet: &'a Fleet,
    workers: Vec<(WorkerSettings, WorkerProcess)>,
    deaths: u32,
}

impl<'a> Supervised<'a> {
    fn start(fleet: &'a Fleet, concurrency: u32) -> Self {
        let settings = |number| WorkerSettings {
            label: format!("victim{number}"),
            lease: LEASE,
            concurrency,
            ..WorkerSettings::default()
        };
        let workers = (0..PROCESSES).map(settings).map(|settings| {
            let worker = fleet.start(&settings);
            (settings, worker)
        });
        Self { fleet, workers: workers.collect(), deaths: 0 }
    }

    fn look_after(&mut self) {
        for (settings, worker) in &mut self.workers {
            if worker.ended().is_some() {
                self.deaths += 1;
                *worker = self.fleet.start(settings);
            }
        }
    }
}

async fn enqueue(client: &windlass::Client, jobs: u32) -> Vec<JobId> {
    // Longer than a crash needs to find several of them at work.
    let jobs = (0..jobs).map(|number| Plain { word: number.to_string(), millis: 150 });
    client.enqueue_all(jobs).await.unwrap().iter().map(windlass::Handle::id).collect()
}

async fn poison(fleet: &Fleet, concurrency: u32) {
    let what = format!("{} at concurrency {concurrency}", fleet.url());
    let client = fleet.client().await;
    let jobs = setting("WINDLASS_POISON_NEIGHBOURS", 300);
    let mut innocent = enqueue(&client, jobs / 2).await;
    // Each one that is survived is followed by a longer rest; by default it survives one more.
    let survived = setting("WINDLASS_POISON_STALLS", 2);
    let culprit = client.enqueue(Abort).max_stalls(survived).await.unwrap().id();
    innocent.extend(enqueue(&client, jobs - jobs / 2).await);

    let mut workers = Supervised::start(fleet, concurrency);
    eventually("every job has ended", async || {
        workers.look_after();
        let queues = client.store().queues(None, 10).await.ok()?;
        (queues.iter().map(|queue| queue.counts.open()).sum::<u64>() == 0).then_some(())
    })
    .await;

    let dead = client.job(culprit).await.unwrap().unwrap();
    assert_eq!((dead.state, dead.reason), (JobState::Dead, Some(Reason::Stalled)), "{what}: {dead:?}");
    assert!(dead.last_error().unwrap().contains("victim"), "it says which worker died with it: {dead:?}");
    let starts = u32::try_from(Ledger::read(&fleet.witness()).count(culprit, "start")).unwrap();
    assert_eq!(dead.counters.stalls, survived + 1, "{what}: the last is the end: {dead:?}");
    // The first death may come before the store knows that the attempt has begun. From then on it knows beforehand.
    assert!((1..=survived + 2).contains(&starts), "{what}: {starts} starts, {dead:?}");
    let (mut disturbed, mut most) = (0, 0);
    for (id, record) in records(&client, &innocent).await {
        let record = record.unwrap_or_else(|| panic!("{what}: job {id} is lost"));
        assert_eq!((record.state, completions(&record)), (JobState::Completed, 1), "{what}: {record:?}");
        disturbed += u32::from(record.counters.stalls > 0);
        most = most.max(record.counters.stalls);
    }
    println!(
        "{what}: {} deaths of processes, {starts} starts of the culprit; {disturbed} of {jobs} others stalled, at most \
         {most} times, and all completed",
        workers.deaths
    );
}

/// Few and many beside it.
async fn poison_on(few: Fleet, many: Fleet) {
    tokio::join!(poison(&few, 10), poison(&many, 64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_job_kills_only_itself_on_sqlite() {
    poison_on(Fleet::new(WORKER), Fleet::new(WORKER)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_job_kills_only_itself_on_postgres() {
    let server = PostgresServer::start(&Settings::default());
    let schema = |name: &str| Fleet::on(WORKER, format!("{}?schema={name}", server.url()));
    poison_on(schema("few"), schema("many")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_poison_job_kills_only_itself_on_redis() {
    let server = RedisServer::start(&RedisSettings::default());
    let namespace = |name: &str| Fleet::on(WORKER, format!("{}?namespace={name}", server.url()));
    poison_on(namespace("few"), namespace("many")).await;
}
