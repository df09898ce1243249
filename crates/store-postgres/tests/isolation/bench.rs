//! A store in a schema of its own, with a worker, and connections for those who stand in its way.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};
use windlass_core::job::{ClaimedJob, LostJob};
use windlass_core::judge::judge;
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, Enqueued, Jobs, Leases, NewLease, QueueShare, Settled, Settlement,
};
use windlass_core::{Fence, JobId, LeaseId, Name, NewJob, Options, Outcome};
use windlass_store_postgres::{PostgresOptions, PostgresStore};
use windlass_store_testkit::servers::PostgresServer;

pub(crate) struct Bench {
    pub(crate) schema: String,
    pub(crate) store: PostgresStore,
    pub(crate) lease: LeaseId,
}

pub(crate) fn url() -> &'static str {
    PostgresServer::shared().url()
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn new_job() -> NewJob {
    NewJob::new("k", "", Options::new()).unwrap()
}

pub(crate) fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    let (queue, id, fence) = (job.queue.clone(), job.id, job.fence);
    Settlement { queue, id, fence, transition: judge(&job.facts, outcome, 0.5) }
}

/// What becomes of a job that its worker does not run.
pub(crate) fn set_aside(job: &LostJob) -> Settlement {
    let (queue, id, fence) = (job.queue.clone(), job.id, job.fence);
    Settlement { queue, id, fence, transition: judge(&job.facts, job.outcome(), 0.5) }
}

pub(crate) const COMPLETED: Outcome = Outcome::Completed { output: None };

impl Bench {
    pub(crate) async fn new() -> Self {
        let schema = format!("isolation_{}_{:x}", std::process::id(), fastrand::u32(..));
        let options = PostgresOptions::parse(url()).unwrap().schema(&schema).unwrap().pool(3).unwrap();
        let options = options.lock_timeout(Duration::from_secs(60)).unwrap();
        Self::open(schema, options.statement_timeout(Duration::from_secs(60)).unwrap()).await
    }

    pub(crate) async fn open(schema: String, options: PostgresOptions) -> Self {
        let store = PostgresStore::open_with(options).await.unwrap();
        let lease = LeaseId::new();
        let bench = Self { schema, store, lease };
        bench.open_lease(lease).await;
        bench
    }

    pub(crate) async fn open_lease(&self, id: LeaseId) {
        let (worker, ttl, queues) = ("w".to_owned(), Duration::from_secs(600), vec![name("default")]);
        self.store.open(&NewLease { id, worker, ttl, queues, kinds: Vec::new() }).await.unwrap();
    }

    pub(crate) async fn enqueue(&self, count: usize) -> Vec<NewJob> {
        let jobs: Vec<_> = (0..count).map(|_| new_job()).collect();
        let answers = self.store.enqueue(jobs.as_slice().into()).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Enqueued::New));
        jobs
    }

    pub(crate) fn request(&self, limit: u32) -> ClaimRequest {
        let queues = vec![QueueShare { queue: name("default"), limit }];
        let (kinds, nonce) = (vec![name("k")], Fence::nonce());
        ClaimRequest { lease: self.lease, nonce, queues, kinds, limit, at_once: limit, bytes: 1 << 20 }
    }

    /// What reads and what does not.
    pub(crate) async fn claim_all(&self) -> (Vec<ClaimedJob>, Vec<LostJob>) {
        match self.store.claim(self.request(1_000)).await.unwrap() {
            ClaimAnswer::Jobs { jobs, unreadable, .. } => (jobs, unreadable),
            ClaimAnswer::LeaseLost => panic!("the lease is lost"),
        }
    }

    pub(crate) async fn complete(&self, jobs: &[ClaimedJob]) {
        let settlements: Vec<_> = jobs.iter().map(|job| settlement(job, COMPLETED)).collect();
        for answer in self.store.settle(settlements.as_slice().into()).await.unwrap() {
            assert!(matches!(answer, Settled::Applied(_)), "{answer:?}");
        }
    }

    /// A connection that knows the schema.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = tokio_postgres::connect(url(), NoTls).await.unwrap();
        tokio::spawn(connection);
        client.batch_execute(&format!("SET search_path = {}", self.schema)).await.unwrap();
        client
    }

    /// Runs SQL in the schema, and answers its rows.
    pub(crate) fn psql(&self, sql: &str) -> String {
        PostgresServer::shared()
            .psql(&format!("SET search_path = {}; {sql}", self.schema))
            .replace("SET\n", "")
    }

    /// Waits until a statement of the store waits for a lock in this schema.
    pub(crate) async fn until_a_call_waits(&self) {
        let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1";
        let (client, pattern) = (self.client().await, format!("%{}%", self.schema));
        let started = Instant::now();
        while client.query_one(sql, &[&pattern]).await.unwrap().get::<_, i64>(0) == 0 {
            assert!(started.elapsed() < Duration::from_secs(60), "no call waits");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// An open transaction that has locked jobs where they stand, as one that was forgotten.
pub(crate) async fn lock(client: &Client, table: &str, jobs: &[JobId]) {
    let ids: Vec<String> = jobs.iter().map(|id| format!("'{id}'")).collect();
    let sql = format!(
        "BEGIN; SELECT 1 FROM {table} AS t JOIN jobs AS j USING (seq) WHERE j.id IN ({}) FOR UPDATE OF t",
        ids.join(", ")
    );
    client.batch_execute(&sql).await.unwrap();
}
