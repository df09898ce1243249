//! Claims while a session holds an old snapshot, so that the server can remove no dead row.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::{Duration, Instant};

use tokio_postgres::NoTls;
use windlass_core::job::ClaimedJob;
use windlass_core::judge::judge;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Settled, Settlement,
};
use windlass_core::{LeaseId, Name, NewJob, Options, Outcome};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::{PostgresServer, Settings};

struct Bench {
    store: PostgresStore,
    lease: LeaseId,
}

impl Bench {
    async fn open(url: &str) -> Self {
        let store = PostgresStore::open_with(PostgresOptions::parse(url).unwrap()).await.unwrap();
        let lease = LeaseId::new();
        let queues = vec![Name::new("default").unwrap()];
        let ttl = Duration::from_secs(600);
        store
            .open(&NewLease { id: lease, worker: "w".to_owned(), ttl, queues, kinds: Vec::new() })
            .await
            .unwrap();
        Self { store, lease }
    }

    async fn enqueue(&self, count: usize, priority: i16) -> Vec<NewJob> {
        self.enqueue_with(count, Options::new().priority(priority)).await
    }

    async fn enqueue_with(&self, count: usize, options: Options) -> Vec<NewJob> {
        let job = || NewJob::new("k", "", options.clone()).unwrap();
        let jobs: Vec<_> = (0..count).map(|_| job()).collect();
        assert!(
            self.store
                .enqueue(jobs.as_slice().into())
                .await
                .unwrap()
                .iter()
                .all(|answer| *answer == Enqueued::New)
        );
        jobs
    }

    async fn claim(&self, limit: u32) -> Vec<ClaimedJob> {
        let queues = vec![QueueShare { queue: Name::new("default").unwrap(), limit }];
        let kinds = vec![Name::new("k").unwrap()];
        let request = ClaimRequest {
            lease: self.lease,
            nonce: windlass_core::Fence::nonce(),
            queues,
            kinds,
            limit,
            at_once: limit,
            bytes: 1 << 20,
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { jobs, .. } => jobs,
            ClaimAnswer::LeaseLost => panic!("the lease is lost"),
        }
    }

    async fn settle(&self, jobs: &[ClaimedJob], outcome: Outcome) {
        let settle = |job: &ClaimedJob| Settlement {
            queue: job.queue.clone(),
            id: job.id,
            fence: job.fence,
            transition: judge(&job.facts, outcome.clone(), 0.5),
        };
        let settlements: Vec<_> = jobs.iter().map(settle).collect();
        let answers = self.store.settle(settlements.as_slice().into()).await.unwrap();
        assert!(answers.iter().all(|answer| matches!(answer, Settled::Applied(_))));
    }
}

/// Places of an index that were looked at since the server began. Connections tell when they end, so the store must
/// have gone.
fn looked_at(server: &PostgresServer, index: &str) -> i64 {
    let others = "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'windlass%'";
    let patience = Instant::now();
    while server.psql(others).trim() != "0" {
        assert!(patience.elapsed() < Duration::from_secs(30), "the store keeps its connections");
    }
    let ask = format!("SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE indexrelname = '{index}'");
    server.psql(&ask).trim().parse().unwrap()
}

#[tokio::test]
async fn dead_rows_do_not_slow_claims_down_and_nothing_is_overlooked() {
    let server = PostgresServer::start(&Settings::default().set("autovacuum", "off"));
    let bench = Bench::open(&server.url()).await;
    let (holder, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    // Dead rows at the head of the line.
    for _ in 0..10 {
        bench.enqueue(1_000, 0).await;
        let jobs = bench.claim(1_000).await;
        assert_eq!(jobs.len(), 1_000);
        bench.settle(&jobs, Outcome::Completed { output: None }).await;
    }
    for _ in 0..100 {
        bench.enqueue(1, 0).await;
        let jobs = bench.claim(10).await;
        assert_eq!(jobs.len(), 1);
        bench.settle(&jobs, Outcome::Completed { output: None }).await;
    }
    // A higher level is seen at once, whether it was known or not.
    let low = bench.enqueue(1, -5).await;
    let middle = bench.enqueue(1, 0).await;
    let high = bench.enqueue(1, 9).await;
    let ids = |jobs: &[ClaimedJob]| jobs.iter().map(|job| job.id).collect::<Vec<_>>();
    let jobs = bench.claim(10).await;
    assert_eq!(ids(&jobs), [high[0].id, middle[0].id, low[0].id]);
    // A job that is put back to its old place is found by the next look from the beginning.
    bench.enqueue(1, 0).await;
    let newer = bench.claim(1).await;
    bench.settle(&jobs[1..2], Outcome::Returned).await;
    let patience = Instant::now();
    let found = loop {
        let found = bench.claim(10).await;
        if !found.is_empty() {
            break found;
        }
        assert!(patience.elapsed() < Duration::from_secs(20), "a job that was put back is not found");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(ids(&found), [middle[0].id]);
    assert_eq!(newer.len(), 1);
    drop(holder);
    connection.abort();
    drop(bench);
    let looks = looked_at(&server, "waiting_ready");
    // A hundred looks from the beginning would be more than a million; one every few seconds is meant to be.
    assert!(looks < 400_000, "{looks} places were looked at");
}

/// Jobs that were delayed, and jobs with an expiry, leave dead places in indexes of their own.
#[tokio::test]
async fn delayed_and_expiring_jobs_cost_no_more_than_others() {
    let server = PostgresServer::start(&Settings::default().set("autovacuum", "off"));
    let bench = Bench::open(&server.url()).await;
    let (holder, connection) = tokio_postgres::connect(&server.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    holder.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    let options = || {
        let options = Options::new().delay(Duration::from_millis(1));
        options.expires_in(Duration::from_secs(600))
    };
    for _ in 0..10 {
        bench.enqueue_with(1_000, options()).await;
        let mut taken = 0;
        while taken < 1_000 {
            let jobs = bench.claim(1_000).await;
            taken += jobs.len();
            bench.settle(&jobs, Outcome::Completed { output: None }).await;
        }
    }
    for _ in 0..100 {
        assert_eq!(bench.claim(10).await.len(), 0);
    }
    // What comes now is found in time.
    bench.enqueue_with(1, options()).await;
    let patience = Instant::now();
    while bench.claim(10).await.is_empty() {
        assert!(patience.elapsed() < Duration::from_secs(20), "a delayed job is not found");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(holder);
    connection.abort();
    drop(bench);
    // A hundred looks from the beginning would be a million and more.
    for index in ["waiting_scheduled", "waiting_expiring"] {
        let looks = looked_at(&server, index);
        assert!(looks < 400_000, "{looks} places of {index} were looked at");
    }
}
