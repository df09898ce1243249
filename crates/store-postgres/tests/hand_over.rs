//! A job that is enqueued while a worker of the same process waits: stored and claimed in one transaction, and nothing
//! that is wrong with the one is the other's fault.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::time::Duration;

use tokio_postgres::{Client, NoTls};
use windlass_core::bell::Topic;
use windlass_core::queue::QueueConfig;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Queues, StoreResult, Wakeup,
};
use windlass_core::{JobId, LeaseId, Name, NewJob, Options, State, StoreErrorKind};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;

/// How often something is done that goes together nearly every time.
const ROUNDS: usize = 20;

struct Bench {
    schema: String,
    options: PostgresOptions,
    store: PostgresStore,
    request: ClaimRequest,
}

impl Bench {
    async fn new() -> Self {
        let schema = format!("hand_over_{}_{:x}", std::process::id(), fastrand::u32(..));
        let options = PostgresOptions::parse(url()).unwrap().schema(&schema).unwrap();
        let options = options.lock_timeout(Duration::from_millis(300)).unwrap();
        let store = PostgresStore::open_with(options.clone()).await.unwrap();
        let (queue, kind) = (Name::new("default").unwrap(), Name::new("k").unwrap());
        let lease = NewLease {
            id: LeaseId::new(),
            worker: "w".to_owned(),
            ttl: Duration::from_secs(600),
            queues: vec![queue.clone()],
            kinds: Vec::new(),
        };
        store.open(&lease).await.unwrap();
        let queues = vec![QueueShare { queue, limit: 5 }];
        let request = ClaimRequest {
            lease: lease.id,
            nonce: windlass_core::Fence::nonce(),
            queues,
            kinds: vec![kind],
            limit: 5,
            at_once: 5,
            bytes: 1 << 20,
        };
        Self { schema, options, store, request }
    }

    /// Waits for jobs as a worker does, and enqueues one meanwhile. It rings if the worker counts as waiting, which it does
    /// not on a machine that was too busy for its claim.
    async fn meet(&self, job: &NewJob) -> (StoreResult<Vec<Enqueued>>, StoreResult<ClaimAnswer>) {
        let ClaimAnswer::Jobs { jobs, .. } = self.store.claim(self.request.clone()).await.unwrap() else {
            panic!("the lease is lost");
        };
        assert!(jobs.is_empty(), "{jobs:?}");
        let mut work = self.store.bell().listen(Topic::Work);
        let (store, request) = (self.store.clone(), self.request.clone());
        let (ended, has_ended) = tokio::sync::oneshot::channel();
        let worker = tokio::spawn(async move {
            tokio::select! {
                () = work.rung() => {}
                _ = has_ended => {}
            }
            store.claim(request.clone()).await
        });
        let enqueued = self.store.enqueue([job.clone()].into()).await;
        let _ = ended.send(());
        (enqueued, worker.await.unwrap())
    }

    /// What was claimed, or is by another claim: one that came too late to go along may have looked too early.
    async fn at_last(&self, claimed: StoreResult<ClaimAnswer>) -> Vec<JobId> {
        match ids(&claimed) {
            none if none.is_empty() => ids(&self.store.claim(self.request.clone()).await),
            some => some,
        }
    }

    async fn state(&self, id: JobId) -> Option<State> {
        self.store.get([id].into()).await.unwrap().remove(0).map(|job| job.state)
    }

    async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {}", self.schema)).await.unwrap();
        client
    }
}

fn url() -> &'static str {
    PostgresServer::shared().url()
}

fn job() -> NewJob {
    NewJob::new("k", "", Options::new()).unwrap()
}

fn ids(answer: &StoreResult<ClaimAnswer>) -> Vec<JobId> {
    match answer.as_ref().unwrap() {
        ClaimAnswer::Jobs { jobs, .. } => jobs.iter().map(|job| job.id).collect(),
        ClaimAnswer::LeaseLost => panic!("the lease is lost"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_stored_and_claimed_in_one_transaction() {
    // A machine that is busy elsewhere may not wake the worker in time, and a store soon ceases to count on it.
    for _ in 0..5 * ROUNDS {
        let bench = Bench::new().await;
        let job = job();
        let (enqueued, claimed) = bench.meet(&job).await;
        assert_eq!(enqueued.unwrap(), [Enqueued::New]);
        assert_eq!(bench.at_last(claimed).await, [job.id]);
        let ask = "SELECT j.xmin = r.xmin FROM jobs AS j JOIN running AS r USING (seq)";
        if bench.client().await.query_one(ask, &[]).await.unwrap().get(0) {
            return;
        }
    }
    panic!("no job was handed over as it was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_known_is_answered_and_the_claim_too() {
    let bench = Bench::new().await;
    let known = NewJob::new("other", "", Options::new()).unwrap();
    assert_eq!(bench.store.enqueue([known.clone()].into()).await.unwrap(), [Enqueued::New]);
    for _ in 0..ROUNDS {
        // Of the kind that is waited for, under an id that is taken.
        let (enqueued, claimed) = bench.meet(&job().with_id(known.id)).await;
        assert_eq!(enqueued.unwrap_err().kind(), StoreErrorKind::Refused);
        assert_eq!(ids(&claimed), []);
    }
    assert_eq!(bench.state(known.id).await, Some(State::Ready));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queue_that_is_defined_anew_meanwhile_changes_nothing() {
    let bench = Bench::new().await;
    let other = PostgresStore::open_with(bench.options.clone()).await.unwrap();
    for round in 0..ROUNDS {
        let queue = Name::new("default").unwrap();
        // Another one each time: what is defined as it is changes nothing for anyone.
        let mut config = QueueConfig::default();
        config.caps.payload += round;
        other.define(&queue, &config).await.unwrap();
        let job = job();
        let (enqueued, claimed) = bench.meet(&job).await;
        assert_eq!(enqueued.unwrap(), [Enqueued::New]);
        assert_eq!(bench.at_last(claimed).await, [job.id]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_that_is_lost_is_the_workers_trouble() {
    let bench = Bench::new().await;
    let job = job();
    assert_eq!(ids(&bench.store.claim(bench.request.clone()).await), []);
    bench.store.close(bench.request.lease).await.unwrap();
    let mut work = bench.store.bell().listen(Topic::Work);
    let (store, request) = (bench.store.clone(), bench.request.clone());
    let worker = tokio::spawn(async move {
        work.rung().await;
        store.claim(request.clone()).await
    });
    assert_eq!(bench.store.enqueue([job.clone()].into()).await.unwrap(), [Enqueued::New]);
    assert_eq!(worker.await.unwrap().unwrap(), ClaimAnswer::LeaseLost);
    assert_eq!(bench.state(job.id).await, Some(State::Ready));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_cannot_be_made_refuses_no_job() {
    let bench = Bench::new().await;
    let job = job();
    let mut client = bench.client().await;
    let transaction = client.transaction().await.unwrap();
    // Claims write there, and enqueues do not.
    transaction.batch_execute("LOCK TABLE running IN EXCLUSIVE MODE").await.unwrap();
    let (enqueued, mut claimed) = bench.meet(&job).await;
    assert_eq!(enqueued.unwrap(), [Enqueued::New]);
    if claimed.is_ok() {
        // It has looked before the job was stored.
        assert_eq!(ids(&claimed), []);
        claimed = bench.store.claim(bench.request.clone()).await;
    }
    assert_eq!(claimed.unwrap_err().kind(), StoreErrorKind::Unavailable);
    transaction.rollback().await.unwrap();
    assert_eq!(ids(&bench.store.claim(bench.request.clone()).await), [job.id]);
}
