//! What happens between two looks of one call.

use std::time::Duration;

use windlass_core::State;
use windlass_core::queue::{Keep, QueueConfig, Retention};
use windlass_core::store::{ClaimAnswer, Jobs, Maintenance, Queues};

use super::bench::{Bench, name};

#[tokio::test]
async fn a_lease_that_ran_out_while_a_claim_waited_for_it_is_lost() {
    let bench = Bench::new().await;
    bench.enqueue(1).await;
    let client = bench.client().await;
    client.batch_execute("BEGIN; SELECT 1 FROM leases FOR UPDATE").await.unwrap();
    let (store, request) = (bench.store.clone(), bench.request(1));
    let claim = tokio::spawn(async move { store.claim(request.clone()).await });
    bench.until_a_call_waits().await;
    // As a worker that closes it: it has run out now, and had not when the claim began.
    client.batch_execute("UPDATE leases SET expires_at = clock_micros(); COMMIT").await.unwrap();
    assert_eq!(claim.await.unwrap().unwrap(), ClaimAnswer::LeaseLost);
    assert_eq!(bench.psql("SELECT count(*) FROM running"), "0");
}

#[tokio::test]
async fn a_job_that_ended_anew_while_it_was_pruned_is_kept() {
    let bench = Bench::new().await;
    let age = Keep::age(Duration::from_secs(1));
    let retention = Retention { completed: age, ..Retention::default() };
    bench.store.define(&name("default"), &QueueConfig { retention, ..QueueConfig::default() }).await.unwrap();
    bench.enqueue(2).await;
    let (jobs, _) = bench.claim_all().await;
    bench.complete(&jobs).await;
    bench.psql("UPDATE ended SET finished_at = 1");
    let client = bench.client().await;
    // Pruning may look, and must wait with what it removes.
    client.batch_execute("BEGIN; LOCK TABLE ended IN EXCLUSIVE MODE").await.unwrap();
    let store = bench.store.clone();
    let prune = tokio::spawn(async move { store.prune(100).await });
    bench.until_a_call_waits().await;
    let again =
        "UPDATE ended SET finished_at = clock_micros() WHERE seq = (SELECT min(seq) FROM ended); COMMIT";
    client.batch_execute(again).await.unwrap();
    assert_eq!(prune.await.unwrap().unwrap(), 1);
    let records = bench.store.get(jobs.iter().map(|job| job.id).collect::<Vec<_>>().into()).await.unwrap();
    let states: Vec<_> = records.iter().map(|job| job.as_ref().map(|job| job.state)).collect();
    assert_eq!(states, [Some(State::Completed), None]);
}

#[tokio::test]
async fn a_queue_that_is_defined_as_it_is_changes_nothing() {
    let bench = Bench::new().await;
    let version = || bench.psql("SELECT value FROM settings WHERE name = 'definitions'");
    let mut config = QueueConfig::default();
    bench.store.define(&name("q"), &config).await.unwrap();
    let first = version();
    bench.store.define(&name("q"), &config).await.unwrap();
    assert_eq!(version(), first);
    config.caps.output += 1;
    bench.store.define(&name("q"), &config).await.unwrap();
    assert_ne!(version(), first);
}
