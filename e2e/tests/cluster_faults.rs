//! A Redis Cluster under load: a primary is killed and its replica takes over, and slots move while their queues are
//! used. Workers go on by themselves and no job completes twice. What a failover takes, since replicas follow a
//! moment later, is counted; with `wait=1` in the URL it takes nothing that was accepted.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::{Duration, Instant};

use windlass::{Client, JobState};
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::producer::{Producers, Told, check_told, count_losses};
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::RedisCluster;

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const PROCESSES: u32 = 3;
/// Enough of them that every primary has some.
const QUEUES: [&str; 6] = ["q1", "q2", "q3", "q4", "q5", "q6"];

/// A Cluster with workers and producers on several queues.
struct Scene {
    cluster: RedisCluster,
    fleet: Fleet,
    /// For looking, on connections of its own.
    client: Client,
    workers: Vec<WorkerProcess>,
    producers: Producers,
}

impl Scene {
    async fn new(parameters: &str) -> Self {
        let cluster = RedisCluster::start();
        let fleet = Fleet::on(WORKER, format!("{}{parameters}", cluster.url()));
        let settings = |number| WorkerSettings {
            label: format!("worker{number}"),
            lease: Duration::from_secs(4),
            extra: vec!["--queues".into(), QUEUES.join(",")],
            ..WorkerSettings::default()
        };
        let workers = (0..PROCESSES).map(|number| fleet.start(&settings(number))).collect();
        let producers = Producers::start(&[fleet.client().await, fleet.client().await], 8, &QUEUES);
        let client = fleet.client().await;
        let scene = Self { cluster, fleet, client, workers, producers };
        scene.until_jobs_complete(50).await;
        scene
    }

    fn slot(&self, queue: &str) -> u16 {
        self.cluster.slot_of(&format!("wl:{{windlass:{queue}}}:jobs"))
    }

    /// How many jobs are in such states in each queue.
    async fn counts(&self, of: impl Fn(JobState) -> bool) -> Option<[u64; QUEUES.len()]> {
        let queues = self.client.store().queues(None, 100).await.ok()?;
        let count = |name: &str| {
            let found = queues.iter().find(|queue| queue.name.as_str() == name);
            let states = JobState::ALL.into_iter().filter(|state| of(*state));
            found.map_or(0, |queue| states.map(|state| queue.counts.of(state)).sum())
        };
        Some(QUEUES.map(count))
    }

    /// Waits until so many more jobs complete in every queue.
    async fn until_jobs_complete(&self, more: u64) {
        let completed = async || self.counts(|state| state == JobState::Completed).await;
        let before = eventually("the Cluster answers", completed).await;
        eventually("jobs complete in every queue", async || {
            let now = completed().await?;
            now.iter().zip(before).all(|(now, before)| *now >= before + more).then_some(())
        })
        .await;
    }

    /// Stops the producers, waits until everything has ended, and stops the workers.
    async fn end(self) -> (RedisCluster, Client, Told, Ledger) {
        let told = self.producers.stop().await;
        let Self { cluster, fleet, client, workers, .. } = self;
        eventually("every job has ended", async || {
            let queues = client.store().queues(None, 100).await.ok()?;
            (queues.iter().map(|queue| queue.counts.open()).sum::<u64>() == 0).then_some(())
        })
        .await;
        for worker in workers {
            worker.terminate();
            assert!(worker.end().await.0.success());
        }
        (cluster, client, told, Ledger::read(&fleet.witness()))
    }
}

/// Kills primaries; answers how many jobs were lost, of how many. With `wait=1` nothing is accepted until the killed one
/// is back as a replica.
async fn fail_over(parameters: &str) -> (usize, usize) {
    let scene = Scene::new(parameters).await;
    let mut waits = Vec::new();
    for kill in 0..setting("WINDLASS_FAILOVERS", 2) {
        let slot = scene.slot(QUEUES[kill as usize % QUEUES.len()]);
        let killed = scene.cluster.kill_primary_of(slot);
        let since = Instant::now();
        scene.cluster.until_promoted(slot, killed);
        let promoted = since.elapsed();
        if parameters.is_empty() {
            scene.until_jobs_complete(1).await;
        }
        waits.push((promoted, since.elapsed()));
        scene.cluster.restart(killed);
        scene.cluster.until_well();
        scene.until_jobs_complete(20).await;
    }
    let (_cluster, client, told, ledger) = scene.end().await;
    let losses = count_losses(&client, &told, &ledger).await;
    let (lost, again) = (losses.jobs.len(), losses.ends);
    println!(
        "failover{parameters}: {} accepted, {lost} of them lost, {again} done again since their end was lost; {} \
         refused, {} in doubt; (promoted, all queues go on) after {waits:?}",
        told.accepted.len(),
        told.refused.len(),
        told.in_doubt,
    );
    (lost, told.accepted.len())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_go_on_when_a_replica_takes_over() {
    let (lost, accepted) = fail_over("").await;
    assert!(
        lost * 20 < accepted,
        "a failover takes what its replica had not got yet, not {lost} of {accepted}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_replica_has_confirmed_survives_a_failover() {
    let (lost, _) = fail_over("?wait=1").await;
    assert_eq!(lost, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_under_load_lose_nothing() {
    let scene = Scene::new("").await;
    let moves = setting("WINDLASS_SLOT_MOVES", 8) as usize;
    let mut spans = Vec::new();
    for number in 0..moves {
        let slot = scene.slot(QUEUES[number % QUEUES.len()]);
        let from = scene.cluster.primary_of(slot);
        let to = *scene.cluster.primaries().iter().find(|place| **place != from).unwrap();
        let since = Instant::now();
        // Long enough between the steps that every client meets a slot that is half here and half there.
        tokio::task::block_in_place(|| scene.cluster.move_slot(slot, to, Duration::from_millis(100)));
        spans.push(since.elapsed());
        scene.until_jobs_complete(5).await;
    }
    let (_cluster, client, told, ledger) = scene.end().await;
    let found = check_told(&client, &told, &ledger).await;
    let extra = ledger.total("start") - told.accepted.len() - found;
    spans.sort_unstable();
    println!(
        "{moves} slots moved, each within {:?}: {} accepted and completed once, {} refused, {} in doubt; {extra} extra \
         starts",
        spans[spans.len() - 1],
        told.accepted.len(),
        told.refused.len(),
        told.in_doubt,
    );
}
