//! Many workers in many processes on one store, first in peace, then with kills.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::HashMap;
use std::time::Duration;

use windlass::{Client, JobId, JobState};
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::jobs::Touch;
use windlass_e2e::producer::{claims, stalls};
use windlass_e2e::server::StoreServer;
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{
    PgBouncer, PoolMode, PostgresServer, RedisCluster, RedisServer, RedisSettings, Settings,
};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const PROCESSES: u32 = 5;

fn settings(label: String, lease: Duration) -> WorkerSettings {
    WorkerSettings { label, workers: 2, concurrency: 20, lease, ..WorkerSettings::default() }
}

async fn enqueue(client: &Client, jobs: u32) -> Vec<JobId> {
    let mut ids = Vec::new();
    for start in (0..jobs).step_by(1_000) {
        let batch = (start..jobs.min(start + 1_000)).map(|number| Touch { number });
        ids.extend(client.enqueue_all(batch).await.unwrap().iter().map(windlass::Handle::id));
    }
    ids
}

async fn open_jobs(client: &Client) -> u64 {
    client.store().queues(None, 100).await.unwrap().iter().map(|queue| queue.counts.open()).sum()
}

async fn until_all_ended(client: &Client) {
    eventually("every job has ended", async || (open_jobs(client).await == 0).then_some(())).await;
}

/// Ten workers in five processes run each job exactly once.
async fn hammer(fleet: &Fleet) {
    let client = fleet.client().await;
    let ids = enqueue(&client, setting("WINDLASS_HAMMER_JOBS", 10_000)).await;
    let processes: Vec<_> = (0..PROCESSES)
        .map(|number| fleet.start(&settings(format!("peace{number}"), Duration::from_secs(30))))
        .collect();
    until_all_ended(&client).await;
    for process in processes {
        process.terminate();
        let (status, _) = process.end().await;
        assert!(status.success(), "{status}");
    }
    let ledger = Ledger::read(&fleet.witness());
    for &id in &ids {
        assert_eq!((ledger.count(id, "start"), ledger.count(id, "done")), (1, 1), "job {id}");
    }
    let counts = client.store().queues(None, 10).await.unwrap()[0].counts;
    assert_eq!(counts.of(JobState::Completed), ids.len() as u64);
    let shares: HashMap<_, usize> = ids.iter().fold(HashMap::new(), |mut shares, &id| {
        *shares.entry(ledger.events(id, "start").next().unwrap().witness.clone()).or_default() += 1;
        shares
    });
    println!("{} jobs, {} processes took part: {:?}", ids.len(), shares.len(), shares.values());
}

/// Killed workers lose nothing, and every extra start is explained.
async fn hammer_with_kills(fleet: &Fleet) {
    let client = fleet.client().await;
    let jobs = setting("WINDLASS_HAMMER_JOBS", 10_000);
    let kills = setting("WINDLASS_HAMMER_KILLS", 20);
    let lease = Duration::from_millis(1_500);
    let mut ids = Vec::new();
    let mut processes: Vec<WorkerProcess> =
        (0..PROCESSES).map(|number| fleet.start(&settings(format!("chaos{number}"), lease))).collect();
    for kill in 0..kills {
        ids.extend(enqueue(&client, jobs / kills).await);
        // A kill should hit workers that are busy: wait until about half of this round's jobs are taken.
        let half = u64::from(jobs / kills / 2);
        eventually("jobs are being taken", async || (open_jobs(&client).await <= half).then_some(())).await;
        processes.swap_remove(fastrand::usize(..processes.len())).kill();
        processes.push(fleet.start(&settings(format!("chaos{}", PROCESSES + kill), lease)));
    }
    until_all_ended(&client).await;
    drop(processes);

    let ledger = Ledger::read(&fleet.witness());
    let mut extra = 0;
    for chunk in ids.chunks(500) {
        for (id, record) in chunk.iter().zip(client.store().get(chunk.into()).await.unwrap()) {
            let record = record.unwrap_or_else(|| panic!("job {id} is lost"));
            assert_eq!(record.state, JobState::Completed, "job {id}: {record:?}");
            let completed = record.attempts.iter().filter(|a| a.ending == Some(windlass::Ending::Completed));
            assert_eq!(completed.count(), 1, "job {id} completed once");
            // Every start was a claim, and every claim but the last has a recorded reason.
            let starts = ledger.count(*id, "start");
            assert!(starts >= 1 && starts as u64 <= record.fence, "job {id}: {starts} starts, {record:?}");
            assert_eq!(claims(&record), record.fence, "job {id}: {record:?}");
            assert_eq!(stalls(&record), record.counters.stalls, "job {id}: {record:?}");
            extra += starts - 1;
        }
    }
    println!(
        "{} jobs, {kills} kills, {extra} extra starts, all explained; 0 lost, 0 completed twice",
        ids.len()
    );
}

mod sqlite {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_workers_in_five_processes_run_each_job_exactly_once() {
        hammer(&Fleet::new(WORKER)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_workers_lose_nothing_and_every_extra_start_is_explained() {
        hammer_with_kills(&Fleet::new(WORKER)).await;
    }
}

mod postgres {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_workers_in_five_processes_run_each_job_exactly_once() {
        let server = PostgresServer::start(&Settings::default());
        hammer(&Fleet::on(WORKER, server.url())).await;
        server.assert_tidy();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_workers_lose_nothing_and_every_extra_start_is_explained() {
        let server = PostgresServer::start(&Settings::default());
        hammer_with_kills(&Fleet::on(WORKER, server.url())).await;
        server.assert_tidy();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn through_a_pooler_killed_workers_lose_nothing_either() {
        let server = PostgresServer::start(&Settings::default());
        let pooler = PgBouncer::before(&server, PoolMode::Transaction);
        hammer_with_kills(&Fleet::on(WORKER, pooler.url())).await;
        server.assert_tidy();
    }
}

mod redis {
    use super::*;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_workers_in_five_processes_run_each_job_exactly_once() {
        let server = RedisServer::start(&RedisSettings::default());
        hammer(&Fleet::on(WORKER, server.url())).await;
        server.assert_tidy();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn killed_workers_lose_nothing_and_every_extra_start_is_explained() {
        let server = RedisServer::start(&RedisSettings::default());
        hammer_with_kills(&Fleet::on(WORKER, server.url())).await;
        server.assert_tidy();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_a_cluster_killed_workers_lose_nothing_either() {
        let cluster = RedisCluster::start();
        hammer_with_kills(&Fleet::on(WORKER, cluster.url())).await;
    }
}
