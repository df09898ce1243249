//! Workers are killed and stopped while flows run, and every flow ends as if nothing had happened: each job after those that it
//! waits for, with what they gave back, and none of them left behind.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass::worker::FlowHandle;
use windlass::{Client, JobRecord};
use windlass_e2e::fleet::{Fleet, WorkerProcess, WorkerSettings};
use windlass_e2e::flows::Web;
use windlass_e2e::witness::Ledger;
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{PostgresServer, RedisCluster, RedisServer, RedisSettings, Settings};

const WORKER: &str = env!("CARGO_BIN_EXE_e2e-worker");
const LEASE: Duration = Duration::from_millis(1_500);
const PROCESSES: u32 = 4;
const QUEUES: [&str; 3] = ["flows-0", "flows-1", "flows-2"];

fn start(fleet: &Fleet, label: String) -> WorkerProcess {
    let extra = ["--queues", &QUEUES.join(","), "--poll-ms", "300"].map(ToOwned::to_owned).to_vec();
    fleet.start(&WorkerSettings { label, lease: LEASE, extra, ..WorkerSettings::default() })
}

/// How many jobs of all queues have ended; nothing while the store does not answer.
async fn ended(client: &Client) -> Option<u64> {
    let queues = client.store().queues(None, 100).await.ok()?;
    Some(queues.iter().map(|queue| queue.counts.total() - queue.counts.open()).sum())
}

/// Waits until so many jobs have ended. That may take long; only standing still is a failure.
async fn until(client: &Client, jobs: u64) {
    let mut done = 0;
    while done < jobs {
        done = eventually("jobs of flows end", async || {
            ended(client).await.filter(|now| *now > done || *now >= jobs)
        })
        .await;
    }
}

/// Kills and stops workers one after the other, while so many jobs are done.
async fn torment(fleet: &Fleet, client: &Client, jobs: u64) {
    let kills = setting("WINDLASS_FLOW_KILLS", 6);
    let mut processes: Vec<_> = (0..PROCESSES).map(|number| start(fleet, format!("first{number}"))).collect();
    let mut stopped: Vec<WorkerProcess> = Vec::new();
    for kill in 1..=kills {
        // Spread over the work, however fast it goes.
        until(client, jobs * u64::from(kill) / u64::from(kills + 1)).await;
        let victim = processes.swap_remove(fastrand::usize(..processes.len()));
        // Those that were stopped the time before go on, and find that others have gone on without them.
        for process in stopped.drain(..) {
            process.resume();
            processes.push(process);
        }
        if kill % 2 == 0 {
            fleet.pause(&victim, client).await;
            stopped.push(victim);
        } else {
            victim.kill();
            processes.push(start(fleet, format!("kill{kill}")));
        }
    }
    until(client, jobs).await;
    stopped.iter().for_each(WorkerProcess::resume);
    eventually("no note is left", async || {
        for queue in QUEUES {
            let notes = client.records(queue).unwrap().list("flow-end/", None, 1).await.ok()?;
            if !notes.records.is_empty() {
                return None;
            }
        }
        Some(())
    })
    .await;
}

async fn records(client: &Client, flow: &FlowHandle) -> Vec<JobRecord> {
    let nodes = flow.view().await.unwrap().nodes;
    let mut found = Vec::new();
    for some in nodes.chunks(500) {
        let ids: Vec<_> = some.iter().map(|node| node.id).collect();
        let records = client.store().get(ids.into()).await.unwrap();
        found.extend(records.into_iter().map(|record| record.expect("no job is lost")));
    }
    found
}

/// Runs these flows beside kills, and checks every job of them.
async fn run(fleet: &Fleet, webs: &[Web]) {
    let client = fleet.client().await;
    let mut flows = Vec::new();
    for web in webs {
        flows.push(web.submit(&client).await.unwrap());
    }
    torment(fleet, &client, webs.iter().map(Web::len).sum()).await;
    check(fleet, &client, webs, &flows).await;
}

async fn check(fleet: &Fleet, client: &Client, webs: &[Web], flows: &[FlowHandle]) {
    let (ledger, mut jobs, mut lost) = (Ledger::read(&fleet.witness()), 0, 0);
    for (web, flow) in webs.iter().zip(flows) {
        let records = records(client, flow).await;
        jobs += records.len();
        lost += web.check(&flow.view().await.unwrap(), &records, &ledger);
    }
    println!("{} flows of {jobs} jobs, {lost} attempts lost, none stuck", flows.len());
}

async fn random_flows_end_as_they_must(fleet: Fleet) {
    let seed = fastrand::u64(..1 << 32);
    println!("the first seed is {seed}");
    let flows = u64::from(setting("WINDLASS_FLOWS", 20));
    let webs: Vec<_> = (seed..seed + flows).map(|seed| Web::random(seed, 40, &QUEUES)).collect();
    run(&fleet, &webs).await;
}

async fn one_waits_for_a_thousand(fleet: Fleet) {
    let children = setting("WINDLASS_FAN_IN", 1_000);
    run(&fleet, &[Web::fan_in(children, &QUEUES[..2], QUEUES[2], 2)]).await;
}

/// Each of them on one store each.
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

on_each_store! { random_flows_end_as_they_must one_waits_for_a_thousand }

/// Jobs that wait are on another primary than those that they wait for, and that one is replaced in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fan_ins_survive_a_failover() {
    let cluster = RedisCluster::start();
    let fleet = Fleet::on(WORKER, format!("{}?wait=1", cluster.url()));
    let client = fleet.client().await;
    let (mut webs, mut flows) = (Vec::new(), Vec::new());
    for flow in 0..setting("WINDLASS_FAN_INS", 20) as usize {
        let of_children = QUEUES[flow % 3];
        webs.push(Web::fan_in(10, &[of_children], QUEUES[(flow + 1) % 3], 50));
        flows.push(webs[flow].submit(&client).await.unwrap());
    }
    let jobs = webs.iter().map(Web::len).sum::<u64>();
    let _workers: Vec<_> = (0..2).map(|number| start(&fleet, format!("worker{number}"))).collect();
    let failovers = setting("WINDLASS_FLOW_FAILOVERS", 1);
    for failover in 1..=failovers {
        until(&client, jobs * u64::from(failover) / u64::from(failovers + 1)).await;
        let slot = cluster.slot_of(&format!("wl:{{windlass:{}}}:jobs", QUEUES[failover as usize % 3]));
        let killed = cluster.kill_primary_of(slot);
        cluster.until_promoted(slot, killed);
        cluster.restart(killed);
        cluster.until_well();
    }
    until(&client, jobs).await;
    for flow in &flows {
        let over =
            eventually("the flow is over", async || flow.view().await.ok().filter(|view| view.is_over));
        assert!(over.await.tally.is_success());
    }
    check(&fleet, &client, &webs, &flows).await;
}
