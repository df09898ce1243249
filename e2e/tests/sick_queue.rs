//! One queue falls sick, on a server that is well or with a node of a Cluster: the others go on as before, in the same
//! client and the same worker, and health names the sick one.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::time::Duration;

use windlass_e2e::neighbours::{Neighbours, Pace};
use windlass_e2e::{eventually, setting};
use windlass_store_testkit::servers::{RedisCluster, RedisServer, RedisSettings};

/// How much of its pace a healthy queue keeps at least. Asserted only where it is measured for long enough.
const KEPT: f64 = 0.8;
/// From this many seconds on.
const LONG: u32 = 10;

/// How long each stretch is.
fn span() -> Duration {
    Duration::from_secs(setting("WINDLASS_SICK_SECONDS", 1).into())
}

/// A healthy stretch and a sick one, in turns.
async fn compare(what: &str, neighbours: &Neighbours, well: Pace, sick: Pace) {
    let ((accepted_well, completed_well), (accepted, completed)) = (well.rates(), sick.rates());
    println!(
        "{what}: healthy queue accepts {accepted_well:.0}/s beside a healthy one and {accepted:.0}/s beside a sick one, \
         completes {completed_well:.0}/s and {completed:.0}/s"
    );
    let health = neighbours.worker().health();
    assert_eq!(health.lease.lost, 0, "{health:?}");
    if span() >= Duration::from_secs(LONG.into()) {
        assert!(accepted >= KEPT * accepted_well, "{what}: it accepts as before");
        assert!(completed >= KEPT * completed_well, "{what}: it completes as before");
    }
}

/// Waits until the worker's health says which queue is sick.
async fn until_named(neighbours: &Neighbours, queue: &str) {
    eventually("health names the sick queue", async || {
        let health = neighbours.worker().health();
        format!("{health:?}").contains(queue).then_some(())
    })
    .await;
}

/// Who meets the trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Met {
    ByProducers,
    ByWorkers,
}

/// One of the keys of the sick queue is in the way of its scripts.
async fn poisoned(spoiled: &str, met: Met) {
    let server = RedisServer::start(&RedisSettings::default());
    let neighbours = Neighbours::new(&server.url(), "good", "ailing").await;
    let (key, aside) = (format!("wl:{{windlass:ailing}}:{spoiled}"), "wl:{windlass:ailing}:aside");
    let (mut well, mut sick) = (Pace::default(), Pace::default());
    for _ in 0..2 {
        well = well.and(neighbours.pace(span()).await);
        neighbours.until_more_complete("good", 50).await;
        server.command(&["RENAME", &key, aside]);
        server.command(&["SET", &key, "not ours"]);
        sick = sick.and(neighbours.pace(span()).await);
        if met == Met::ByWorkers {
            until_named(&neighbours, "ailing").await;
        }
        neighbours.until_more_complete("good", 50).await;
        server.command(&["RENAME", aside, &key]);
        neighbours.until_more_complete("ailing", 20).await;
    }
    compare(&format!("a spoiled key {spoiled}"), &neighbours, well, sick).await;
    neighbours.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_takes_no_jobs_harms_no_other() {
    poisoned("jobs", Met::ByProducers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_takes_no_calls_at_all_harms_no_other() {
    poisoned("meta", Met::ByWorkers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_takes_no_outcomes_harms_no_other() {
    poisoned("completed", Met::ByWorkers).await;
}

/// A primary and its replica are gone, and with them one of two queues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_of_a_cluster_harms_no_queue_elsewhere() {
    const QUEUES: [&str; 12] = ["q1", "q2", "q3", "q4", "q5", "q6", "q7", "q8", "q9", "q10", "q11", "q12"];
    let settings = RedisSettings::default().set("cluster-require-full-coverage", "no");
    let cluster = RedisCluster::start_with(&settings);
    let slot = |queue: &str| cluster.slot_of(&format!("wl:{{windlass:{queue}}}:jobs"));
    // The keys of the namespace stay as well.
    let home = cluster.primary_of(cluster.slot_of("wl:{windlass}:queues"));
    let lives_at_home = |queue: &&&str| cluster.primary_of(slot(queue)) == home;
    let healthy = QUEUES.iter().find(lives_at_home).unwrap();
    let sick = QUEUES.iter().find(|queue| !lives_at_home(queue)).unwrap();

    let neighbours = Neighbours::new(&cluster.url(), healthy, sick).await;
    let well = neighbours.pace(2 * span()).await;
    let killed = cluster.kill_primary_of(slot(sick));
    let promoted = tokio::task::block_in_place(|| cluster.until_promoted(slot(sick), killed));
    neighbours.until_more_complete(sick, 5).await;
    cluster.nodes()[promoted].kill();
    until_named(&neighbours, sick).await;
    let sickly = neighbours.pace(2 * span()).await;
    // Longer than a lease.
    let settled = neighbours.pace(Duration::from_secs(7)).await;
    compare("a dead node", &neighbours, well, sickly.and(settled)).await;
    // What the sick queue had in the worker may be lost with its node; what the healthy one had is not.
    neighbours.end().await;
}
