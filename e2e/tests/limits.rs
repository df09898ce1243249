//! Limits, turns and unique keys while workers are killed and stopped: what the store recorded, by its own clock, never shows
//! more than was permitted, everything is done in the end, and no place is lost.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::time::Duration;

use windlass::queue::{KeyRules, Rate, Unique};
use windlass::{Client, Handle, JobId, JobRecord, JobState};
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::history::{attempts, begun_between, most_at_once, most_begun_within};
use windlass_e2e::jobs::Plain;
use windlass_e2e::server::StoreServer;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const QUEUES: [&str; 5] = ["keyed", "rated", "unique", "narrow", "fair"];
const KEYS: u32 = 5;
const PER_KEY: u32 = 2;
const RATE: Rate = Rate::new(8, Duration::from_secs(1));
/// How many jobs of the narrow queue run at once, over all workers.
const NARROW: u32 = 3;
/// The slots of each worker.
const SLOTS: u32 = 12;
/// How many jobs of a busy key may begin between a key's only job and its start: two claims of each worker, one that was on its
/// way, and one that asked the busy key first.
const PASSED_BY: u32 = 2 * 4 * SLOTS;
/// How many jobs the busy key gets at a time.
const BUSY: u32 = 3 * PASSED_BY;
const LEASE: Duration = Duration::from_millis(1_500);

fn start(fleet: &Fleet, number: u32) -> WorkerProcess {
    let extra = ["--queues", &QUEUES.join(","), "--poll-ms", "300"].map(ToOwned::to_owned).to_vec();
    let label = format!("limits{number}");
    fleet.start(&WorkerSettings {
        label,
        concurrency: SLOTS,
        lease: LEASE,
        extra,
        ..WorkerSettings::default()
    })
}

async fn define(client: &Client) {
    let keys = KeyRules { concurrency: Some(PER_KEY), ..KeyRules::default() };
    client.queue("keyed").unwrap().change(|queue| queue.keys = Some(keys.clone())).await.unwrap();
    client.queue("rated").unwrap().change(|queue| queue.rate = Some(RATE)).await.unwrap();
    client.queue("narrow").unwrap().change(|queue| queue.concurrency = Some(NARROW)).await.unwrap();
    // It does not bind; a queue with limits gives no more than there are slots for.
    let turns = KeyRules { concurrency: Some(100_000), ..KeyRules::default() };
    client.queue("fair").unwrap().change(|queue| queue.keys = Some(turns.clone())).await.unwrap();
}

/// Hands in some jobs for each queue. A unique one is stored if the one before it has ended.
async fn hand_in(client: &Client, round: u32, holders: &mut [Option<JobId>; 3]) -> Vec<JobId> {
    let mut ids = Vec::new();
    let job = |millis| Plain { word: round.to_string(), millis };
    for number in 0..10 {
        let keyed = client.enqueue(job(40)).queue("keyed").key(format!("key-{}", number % KEYS));
        let rated = client.enqueue(job(1)).queue("rated");
        let narrow = client.enqueue(job(20)).queue("narrow");
        for enqueue in [keyed, rated, narrow] {
            ids.push(enqueue.max_stalls(1_000).await.unwrap().id());
        }
        let place = number as usize % holders.len();
        let unique = client.enqueue(job(60)).queue("unique").unique(Unique::key(format!("u{place}")));
        let handle = unique.max_stalls(1_000).await.unwrap();
        if handle.is_new() {
            ids.push(handle.id());
            if let Some(before) = holders[place].replace(handle.id()) {
                let state = client.job(before).await.unwrap().expect("no job is lost").state;
                assert!(state.is_terminal(), "job {before} is {state} and has lost its key");
            }
        }
    }
    let busy = (0..BUSY).map(|_| job(10));
    let busy = client.enqueue_all(busy).queue("fair").key("busy").max_stalls(1_000).await.unwrap();
    ids.extend(busy.iter().map(Handle::id));
    for number in 0..KEYS {
        let lone = client.enqueue(job(1)).queue("fair").key(format!("lone-{round}-{number}"));
        ids.push(lone.max_stalls(1_000).await.unwrap().id());
    }
    ids
}

async fn records(client: &Client, ids: &[JobId]) -> Vec<JobRecord> {
    let mut found = Vec::new();
    for chunk in ids.chunks(500) {
        let records = client.store().get(chunk.into()).await.unwrap();
        found.extend(records.into_iter().map(|record| record.expect("no job is lost")));
    }
    found
}

async fn open_jobs(client: &Client) -> u64 {
    client.store().queues(None, 100).await.unwrap().iter().map(|queue| queue.counts.open()).sum()
}

/// Workers come and go while jobs with limits run.
async fn torment(fleet: &Fleet) -> (Client, Vec<JobId>) {
    let client = fleet.client().await;
    define(&client).await;
    let rounds = setting("WINDLASS_LIMIT_ROUNDS", 8);
    let mut processes: Vec<WorkerProcess> = (0..4).map(|number| start(fleet, number)).collect();
    let (mut ids, mut holders) = (Vec::new(), [None; 3]);
    for round in 0..rounds {
        ids.extend(hand_in(&client, round, &mut holders).await);
        let half = open_jobs(&client).await / 2;
        eventually("jobs are being done", async || (open_jobs(&client).await <= half).then_some(())).await;
        let victim = processes.swap_remove(fastrand::usize(..processes.len()));
        if round % 3 == 2 {
            // Longer than its lease lives: what it held goes to others, and it comes back.
            fleet.pause(&victim, &client).await;
            ids.extend(hand_in(&client, round, &mut holders).await);
            let idle = || async { (open_jobs(&client).await == 0).then_some(()) };
            eventually("the others go on without it", async || idle().await).await;
            victim.resume();
            processes.push(victim);
        } else {
            victim.kill();
            processes.push(start(fleet, 4 + round));
        }
    }
    eventually("every job has ended", async || (open_jobs(&client).await == 0).then_some(())).await;
    (client, ids)
}

fn check(records: &[JobRecord]) {
    let mut by_key: BTreeMap<String, Vec<&JobRecord>> = BTreeMap::new();
    let (mut rated, mut narrow, mut busy, mut lone) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for record in records {
        assert_eq!(record.state, JobState::Completed, "{record:?}");
        match record.queue.as_str() {
            "keyed" => by_key.entry(record.key.clone().unwrap().to_string()).or_default().push(record),
            "rated" => rated.push(record),
            "narrow" => narrow.push(record),
            "fair" if record.key.as_ref().unwrap().as_str() == "busy" => busy.push(record),
            "fair" => lone.push(record),
            _ => {}
        }
    }
    for (key, jobs) in &by_key {
        let most = most_at_once(&attempts(jobs.iter().copied()));
        assert!(most <= PER_KEY as usize, "{most} attempts of {key} at once");
    }
    let most = most_begun_within(&attempts(rated), RATE.per);
    assert!(most <= RATE.jobs as usize, "{most} jobs began within {:?}", RATE.per);
    let at_once = most_at_once(&attempts(narrow));
    assert!(
        at_once <= NARROW as usize,
        "{at_once} attempts of a queue with a concurrency of {NARROW} at once"
    );
    let busy = attempts(busy);
    let passed_by = |job: &&JobRecord| begun_between(&busy, job.enqueued_at, job.attempts[0].started_at);
    let passed_by = lone.iter().map(passed_by).max().unwrap();
    assert!(
        passed_by <= PASSED_BY as usize,
        "{passed_by} jobs of a busy key began before another key's only one"
    );
    println!(
        "{} jobs of {} keys, at most {most} starts in a second, {at_once} at once, {passed_by} of a busy key before another",
        records.len(),
        by_key.len()
    );
}

/// No place was lost: of each key as many as may run are handed out, and no more.
async fn check_at_rest(fleet: &Fleet, client: &Client) {
    for number in 0..KEYS * (PER_KEY + 1) {
        let job = Plain { word: "rest".into(), millis: 400 };
        client.enqueue(job).queue("keyed").key(format!("key-{}", number % KEYS)).await.unwrap();
    }
    let _worker = start(fleet, 1_000);
    let keyed = client.queue("keyed").unwrap();
    let running = || async { keyed.counts().await.unwrap().of(JobState::Running) };
    let full = u64::from(KEYS * PER_KEY);
    eventually("every place is used", async || (running().await == full).then_some(())).await;
    eventually("all are done", async || (keyed.counts().await.unwrap().open() == 0).then_some(())).await;
}

async fn limits_hold(fleet: Fleet) {
    let (client, ids) = torment(&fleet).await;
    check(&records(&client, &ids).await);
    check_at_rest(&fleet, &client).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_sqlite() {
    limits_hold(Fleet::new(WORKER)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_postgres() {
    let server = PostgresServer::start(&Settings::default());
    limits_hold(Fleet::on(WORKER, server.url())).await;
    server.assert_tidy();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_redis() {
    let server = RedisServer::start(&RedisSettings::default());
    limits_hold(Fleet::on(WORKER, server.url())).await;
    server.assert_tidy();
}
