//! Queues that use a rule which this program does not know: it is told, and stays out of them and of nothing else.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "isolation/bench.rs"]
#[allow(dead_code, reason = "shared with other tests")]
mod bench;

use windlass_core::queue::{QueueConfig, RULES};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Queues};
use windlass_core::{Fence, LeaseId, NewJob, Options, StoreError, StoreErrorKind};

use bench::{Bench, COMPLETED, name, settlement};

const NEWER: u32 = RULES + 1;

fn job(queue: &str) -> NewJob {
    NewJob::new("k", "", Options::new().queue(queue)).unwrap()
}

/// What a newer program does that defines a queue with a rule of its own.
async fn define_newer(bench: &Bench, queue: &str) {
    let sql = format!(
        "UPDATE settings SET value = value + 1 WHERE name = 'definitions';
         INSERT INTO queues (name, config, payload_max, rules) VALUES ('{queue}', '{{}}', 1048576, {NEWER});
         UPDATE settings SET value = {NEWER} WHERE name = 'rules'"
    );
    bench.client().await.batch_execute(&sql).await.unwrap();
}

/// A claim in both queues, under a lease for both.
async fn request(bench: &Bench) -> ClaimRequest {
    let (lease, queues) = (LeaseId::new(), [name("paused"), name("plain")]);
    let ttl = std::time::Duration::from_secs(600);
    bench
        .store
        .open(&NewLease {
            id: lease,
            worker: "w".to_owned(),
            ttl,
            queues: queues.to_vec(),
            kinds: Vec::new(),
        })
        .await
        .unwrap();
    let queues = queues.map(|queue| QueueShare { queue, limit: 9 }).to_vec();
    ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues,
        kinds: vec![name("k")],
        limit: 9,
        at_once: 9,
        bytes: 1 << 20,
    }
}

fn assert_told(error: &StoreError) {
    assert_eq!(error.kind(), StoreErrorKind::Refused, "{error}");
    let said =
        format!("queue paused uses rule {NEWER}, this program knows up to {RULES}: upgrade the program");
    assert_eq!(error.to_string(), said);
}

#[tokio::test]
async fn a_program_that_knows_fewer_rules_stays_out() {
    let bench = Bench::new().await;
    let request = request(&bench).await;
    // It knows the definitions of before, and has jobs in the queue, one of which runs.
    let jobs = [job("paused"), job("paused"), job("plain")];
    assert_eq!(bench.store.enqueue(jobs.clone().into()).await.unwrap(), [Enqueued::New; 3]);
    let one = ClaimRequest { limit: 1, ..request.clone() };
    let ClaimAnswer::Jobs { jobs: running, .. } = bench.store.claim(one.clone()).await.unwrap() else {
        panic!()
    };
    define_newer(&bench, "paused").await;

    assert_told(&bench.store.enqueue([job("paused")].into()).await.unwrap_err());
    assert_eq!(bench.store.enqueue([job("plain")].into()).await.unwrap(), [Enqueued::New]);
    let ClaimAnswer::Jobs { jobs, sick, .. } = bench.store.claim(request.clone()).await.unwrap() else {
        panic!()
    };
    assert!(jobs.len() == 2 && jobs.iter().all(|job| job.queue == name("plain")), "{jobs:?}");
    assert_eq!(sick.len(), 1);
    assert!(sick[0].queue == name("paused") && sick[0].what.contains("uses rule"), "{sick:?}");

    // What it has begun it may end.
    let ended = bench.store.settle([settlement(&running[0], COMPLETED)].into()).await.unwrap();
    assert!(matches!(ended[0], windlass_core::store::Settled::Applied(_)));
}

#[tokio::test]
async fn a_program_that_knows_fewer_rules_does_not_define_the_queue_anew() {
    let bench = Bench::new().await;
    define_newer(&bench, "paused").await;
    assert_told(&bench.store.define(&name("paused"), &QueueConfig::default()).await.unwrap_err());
    bench.store.define(&name("plain"), &QueueConfig::default()).await.unwrap();
    let rules = "SELECT value FROM settings WHERE name = 'rules'";
    let rules: i64 = bench.client().await.query_one(rules, &[]).await.unwrap().get(0);
    assert_eq!(rules, i64::from(NEWER), "other queues use it still");
}
