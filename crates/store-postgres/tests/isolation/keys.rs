//! Keys of jobs where others stand in the way: transactions of users that stay open, a claim that has the gates, a lease that is
//! lost in the last instant.

use std::time::Duration;

use windlass_core::job::ClaimedJob;
use windlass_core::queue::{KeyRules, QueueConfig};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, Queues};
use windlass_core::{JobId, LeaseId, NewJob, Options, StoreError};

use super::bench::{Bench, name};

/// A store whose queue takes keys, with so many running jobs of each at most.
pub(crate) async fn bench(concurrency: u32) -> Bench {
    let bench = Bench::new().await;
    let keys = KeyRules { concurrency: Some(concurrency), ..KeyRules::default() };
    let config = QueueConfig { keys: Some(keys), ..QueueConfig::default() };
    bench.store.define(&name("default"), &config).await.unwrap();
    bench
}

/// Adds a job of each of these keys.
pub(crate) async fn add(bench: &Bench, keys: &[&str]) -> Vec<JobId> {
    let new = |key: &&str| NewJob::new("k", "", Options::new().key(*key)).unwrap();
    let jobs: Vec<_> = keys.iter().map(new).collect();
    bench.store.enqueue(jobs.as_slice().into()).await.unwrap();
    jobs.iter().map(|job| job.id).collect()
}

pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Enqueues as a program does within a transaction of its user.
pub(crate) fn accept(id: JobId, key: &str) -> String {
    format!(
        "SELECT accept(clock_micros(), '{{{id}}}', '{{}}', '{{default}}', '{{k}}', ARRAY[''::bytea], '{{}}', '{{}}', '{{}}', \
         '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', NULL, '{{}}', '{{}}', '{{}}', '{{}}', '{{{key}}}')"
    )
}

#[tokio::test]
async fn a_transaction_that_enqueues_holds_up_no_job_of_its_key() {
    for (end, is_stored) in [("COMMIT", true), ("ROLLBACK", false)] {
        let bench = bench(9).await;
        let (client, late) = (bench.client().await, JobId::new());
        client.batch_execute(&format!("BEGIN; {}", accept(late, "a"))).await.unwrap();
        let jobs = add(&bench, &["a", "a"]).await;
        let (found, _) = bench.claim_all().await;
        assert_eq!(ids(&found), jobs, "the gate is forgotten now");
        bench.complete(&found).await;
        client.batch_execute(end).await.unwrap();
        let (found, _) = bench.claim_all().await;
        assert_eq!(ids(&found), Vec::from_iter(is_stored.then_some(late)), "{end}");
    }
}

#[tokio::test]
async fn a_transaction_that_ends_a_job_gives_its_place_back_with_its_commit() {
    let bench = bench(1).await;
    let jobs = add(&bench, &["a", "a", "b"]).await;
    let (found, _) = bench.claim_all().await;
    assert_eq!(ids(&found), [jobs[0], jobs[2]]);
    let client = bench.client().await;
    let end = format!(
        "BEGIN; WITH gone AS (
             DELETE FROM running AS r USING jobs AS j WHERE j.seq = r.seq AND j.id = '{}' RETURNING r.seq
         ) SELECT moves('default', 3, 4, NULL, array_agg(seq), false) FROM gone; DELETE FROM jobs WHERE id = '{}'",
        jobs[0], jobs[0]
    );
    client.batch_execute(&end).await.unwrap();
    assert_eq!(bench.claim_all().await.0, [], "it is not known yet how that ends");
    let others = add(&bench, &["c"]).await;
    assert_eq!(ids(&bench.claim_all().await.0), others);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ids(&bench.claim_all().await.0), [jobs[1]]);
}

#[tokio::test]
async fn a_claim_that_meets_the_gates_locked_comes_back_soon() {
    let bench = bench(1).await;
    let jobs = add(&bench, &["a"]).await;
    let plain = bench.enqueue(1).await;
    let client = bench.client().await;
    client.batch_execute("BEGIN; SELECT 1 FROM queues FOR NO KEY UPDATE").await.unwrap();
    let ClaimAnswer::Jobs { jobs: found, next_due, .. } = bench.store.claim(bench.request(9)).await.unwrap()
    else {
        panic!("the lease is lost")
    };
    assert_eq!(ids(&found), [plain[0].id], "jobs without a key are not held up");
    assert!(next_due.is_some_and(|next| next < Duration::from_secs(1)), "{next_due:?}");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(ids(&bench.claim_all().await.0), jobs);
}

/// What passed gates is taken back with the claim.
#[tokio::test]
async fn a_lease_that_is_lost_in_the_last_instant_changes_no_gate() {
    let bench = bench(1).await;
    let jobs = add(&bench, &["a", "a", "b"]).await;
    let gates = "SELECT count(*) FROM gate_jobs UNION ALL SELECT count(*) FROM gates UNION ALL SELECT count(*) FROM gate_reports";
    let before = bench.psql(gates);
    let client = bench.client().await;
    client
        .batch_execute("BEGIN; SELECT 1 FROM leases FOR UPDATE; UPDATE leases SET expires_at = 1")
        .await
        .unwrap();
    let claim = tokio::spawn({
        let (store, request) = (bench.store.clone(), bench.request(9));
        async move { store.claim(request).await.unwrap() }
    });
    bench.until_a_call_waits().await;
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(claim.await.unwrap(), ClaimAnswer::LeaseLost);
    assert_eq!(bench.psql(gates), before);
    let lease = LeaseId::new();
    bench.open_lease(lease).await;
    let request = ClaimRequest { lease, ..bench.request(9) };
    let ClaimAnswer::Jobs { jobs: found, .. } = bench.store.claim(request).await.unwrap() else {
        panic!("it lives")
    };
    assert_eq!(ids(&found), [jobs[0], jobs[2]]);
}

/// A program that does not know yet that a queue has keys, or that it has them no longer, is told by the store.
#[tokio::test]
async fn what_a_program_remembers_of_keys_is_not_trusted() {
    let bench = Bench::new().await;
    bench.enqueue(1).await;
    let other = windlass_store_postgres::PostgresStore::open_with(
        windlass_store_postgres::PostgresOptions::parse(super::bench::url())
            .unwrap()
            .schema(&bench.schema)
            .unwrap(),
    )
    .await
    .unwrap();
    let job = || NewJob::new("k", "", Options::new().key("a")).unwrap();
    let refused = bench.store.enqueue([job()].into()).await.unwrap_err();
    assert!(matches!(refused, StoreError::NoKeys { .. }), "{refused}");
    let config = QueueConfig { keys: Some(KeyRules::default()), capacity: Some(2), ..QueueConfig::default() };
    other.define(&name("default"), &config).await.unwrap();
    bench.store.enqueue([job()].into()).await.unwrap();
    let refused = bench.store.enqueue([job()].into()).await.unwrap_err();
    assert!(matches!(refused, StoreError::QueueFull { capacity: 2, waiting: 2, .. }), "{refused}");
}

/// Far more reports than one claim takes, and keys of which only the last ones tell.
#[tokio::test]
async fn many_reports_are_told_in_steps() {
    let bench = bench(1).await;
    let first = add(&bench, &["a", "a"]).await;
    bench.psql(
        "INSERT INTO gate_reports (queue, keys, count, is_ended) SELECT 'default', '{a}', 1, false FROM generate_series(1, 20000)",
    );
    let last = add(&bench, &["b"]).await;
    assert_eq!(ids(&bench.claim_all().await.0), first[..1], "the key of the last report was not told yet");
    let mut claims = 0;
    let given = loop {
        let given = ids(&bench.claim_all().await.0);
        claims += 1;
        assert!(claims < 100, "the last report is never told");
        if !given.is_empty() {
            break given;
        }
    };
    assert_eq!(given, last);
    assert_eq!(bench.psql("SELECT count(*) FROM gate_reports").trim(), "0");
}
