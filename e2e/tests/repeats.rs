//! Workers are killed, and what they did is there once: effects that are done once per key, jobs that follow a job in the same
//! write, and dead jobs that are sent back by a replay which is killed as well.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::{HashMap, HashSet};
use std::process::ExitStatus;
use std::time::Duration;

use windlass::core::job::AttemptRecord;
use windlass::{Client, Ending, Handle, JobId, JobRecord, JobState};
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::repeats::{Doomed, Effect, Link};
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const LEASE: Duration = Duration::from_millis(1_500);
/// How many jobs a chain has.
const CHAIN: u32 = 10;

fn start(fleet: &Fleet, label: String, queues: &str) -> WorkerProcess {
    let extra = ["--queues", queues, "--poll-ms", "300"].map(ToOwned::to_owned).to_vec();
    fleet.start(&WorkerSettings { label, lease: LEASE, extra, ..WorkerSettings::default() })
}

async fn open_jobs(client: &Client) -> u64 {
    client.store().queues(None, 100).await.unwrap().iter().map(|queue| queue.counts.open()).sum()
}

async fn count(client: &Client, queue: &str, state: JobState) -> u64 {
    client.queue(queue).unwrap().counts().await.unwrap().of(state)
}

async fn completed(client: &Client) -> u64 {
    let queues = client.store().queues(None, 100).await.unwrap();
    queues.iter().map(|queue| queue.counts.of(JobState::Completed)).sum()
}

/// Kills workers while there is work, one after the other, until so many jobs are done.
async fn torment(fleet: &Fleet, client: &Client, queues: &str, jobs: u64) {
    let kills = setting("WINDLASS_REPEAT_KILLS", 6);
    let mut processes: Vec<_> = (0..4).map(|number| start(fleet, format!("first{number}"), queues)).collect();
    for kill in 1..=kills {
        // Spread over the work, however fast it goes.
        until(client, jobs * u64::from(kill) / u64::from(kills + 1)).await;
        processes.swap_remove(fastrand::usize(..processes.len())).kill();
        processes.push(start(fleet, format!("kill{kill}"), queues));
    }
    until(client, jobs).await;
    eventually("all have ended", async || (open_jobs(client).await == 0).then_some(())).await;
}

/// Waits until so many jobs have completed. That may take long; only standing still is a failure.
async fn until(client: &Client, jobs: u64) {
    let mut done = 0;
    while done < jobs {
        done = eventually("jobs are being done", async || {
            let now = completed(client).await;
            (now > done).then_some(now)
        })
        .await;
    }
}

async fn records(client: &Client, ids: &[JobId]) -> Vec<JobRecord> {
    let mut found = Vec::new();
    for some in ids.chunks(500) {
        let records = client.store().get(some.into()).await.unwrap();
        found.extend(records.into_iter().map(|record| record.expect("no job is lost")));
    }
    found
}

/// All callers of a key get one result, and an effect that was done and is not that one is of an attempt that was lost before
/// it was recorded.
async fn effects_are_done_once(fleet: Fleet) {
    let client = fleet.client().await;
    let (keys, callers) = (setting("WINDLASS_ONCE_KEYS", 60), setting("WINDLASS_ONCE_CALLERS", 12));
    let mut ids = Vec::new();
    for key in 0..keys {
        let jobs = (0..callers).map(|_| Effect { key: format!("order {key}") });
        ids.extend(client.enqueue_all(jobs).await.unwrap().iter().map(Handle::id));
    }
    torment(&fleet, &client, "effects", ids.len() as u64).await;
    let records = records(&client, &ids).await;
    let fences: HashMap<JobId, u64> = records.iter().map(|record| (record.id, record.fence)).collect();
    let mut winners = HashSet::new();
    for of_key in records.chunks(callers as usize) {
        let outputs: HashSet<String> = of_key
            .iter()
            .map(|record| {
                assert_eq!(record.state, JobState::Completed, "{record:?}");
                serde_json::from_slice(record.output.as_ref().unwrap()).unwrap()
            })
            .collect();
        assert_eq!(outputs.len(), 1, "one result per key: {outputs:?}");
        winners.extend(outputs);
    }
    assert_eq!(winners.len(), keys as usize, "each key was done");
    let ledger = Ledger::read(&fleet.witness());
    let mut lost = 0;
    for &id in &ids {
        for done in ledger.events(id, "effect") {
            if !winners.contains(&format!("{id} {}", done.fence)) {
                lost += 1;
                assert!(done.fence < fences[&id], "attempt {} of {id} was not lost: {done:?}", done.fence);
            }
        }
    }
    println!("{} callers of {keys} keys, {lost} effects of attempts that were lost", ids.len());
}

/// Every job of a chain is there once.
async fn chains_have_every_link_once(fleet: Fleet) {
    let client = fleet.client().await;
    let chains = setting("WINDLASS_CHAINS", 150);
    let first = (0..chains).map(|_| Link { left: CHAIN - 1 });
    let queue = Link { left: CHAIN - 1 }.queue();
    client.enqueue_all(first).queue(queue).await.unwrap();
    torment(&fleet, &client, &Link::QUEUES.join(","), u64::from(chains * CHAIN)).await;
    let links = u64::from(chains * CHAIN / 2);
    for queue in Link::QUEUES {
        let counts = client.queue(queue).unwrap().counts().await.unwrap();
        assert_eq!((counts.of(JobState::Completed), counts.total()), (links, links), "{queue}: {counts:?}");
    }
}

/// Waits until so many jobs are dead, more than before or fewer. Only standing still is a failure.
async fn until_dead(client: &Client, jobs: u64) {
    let dead = || async { count(client, "doomed", JobState::Dead).await };
    let mut before = dead().await;
    let grows = before < jobs;
    while if grows { before < jobs } else { before > jobs } {
        before = eventually("jobs die, or are sent back", async || {
            let now = dead().await;
            (now != before).then_some(now)
        })
        .await;
    }
}

/// Waits until a replay has ended. That may take long; only standing still is a failure.
async fn ended(client: &Client, mut replay: WorkerProcess) -> ExitStatus {
    let counts = async || client.queue("doomed").unwrap().counts().await.unwrap();
    loop {
        let before = counts().await;
        let ended = eventually("the replay goes on", async || match replay.ended() {
            Some(status) => Some(Some(status)),
            None => (counts().await != before).then_some(None),
        });
        if let Some(status) = ended.await {
            return status;
        }
    }
}

/// A replay that is killed half-way is gone on with, and each dead job is sent back once.
async fn a_killed_replay_is_gone_on_with(fleet: Fleet) {
    let client = fleet.client().await;
    let jobs = setting("WINDLASS_REPLAYED", 2_000);
    let mut ids = Vec::new();
    for _ in 0..jobs.div_ceil(1_000) {
        let some = (0..jobs.min(1_000)).map(|_| Doomed);
        ids.extend(client.enqueue_all(some).await.unwrap().iter().map(Handle::id));
    }
    let worker = start(&fleet, "first".into(), "doomed");
    let dead = || async { count(&client, "doomed", JobState::Dead).await };
    let all = ids.len() as u64;
    until_dead(&client, all).await;
    let began = client.store().now().await.unwrap();
    // What is sent back waits, so that it can be counted.
    drop(worker);
    let replay = |label: &str| {
        let extra = ["--replay", &began.as_micros().to_string()].map(ToOwned::to_owned).to_vec();
        fleet.start(&WorkerSettings { label: label.into(), extra, ..WorkerSettings::default() })
    };
    let first = replay("replay");
    until_dead(&client, all / 2).await;
    first.kill();
    let left = dead().await;
    assert!(left > 0, "it was killed before it was done");
    let _worker = start(&fleet, "again".into(), "doomed");
    let status = ended(&client, replay("resumed")).await;
    assert!(status.success(), "{}", fleet.log("resumed"));
    until_dead(&client, all).await;
    for record in records(&client, &ids).await {
        // A worker that is late with its lease gives jobs back, which is not a death.
        let is_death = |attempt: &&AttemptRecord| attempt.ending == Some(Ending::FailedForGood);
        let deaths = record.attempts.iter().filter(is_death).count();
        assert_eq!((record.state, deaths), (JobState::Dead, 2), "sent back once: {record:?}");
    }
    println!("{all} dead jobs, {left} of them sent back by the second replay");
}

/// The three of them on one store each.
macro_rules! on_each_store {
    ($($test:ident)*) => {$(
        mod $test {
            use super::*;

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                super::$test(Fleet::new(WORKER)).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                let server = PostgresServer::start(&Settings::default());
                super::$test(Fleet::on(WORKER, server.url())).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_redis() {
                let server = RedisServer::start(&RedisSettings::default());
                super::$test(Fleet::on(WORKER, server.url())).await;
            }
        }
    )*};
}

on_each_store! { effects_are_done_once chains_have_every_link_once a_killed_replay_is_gone_on_with }
