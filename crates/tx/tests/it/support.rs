//! A store in a file of its own, a ledger beside its tables, and attempts that are claimed by hand.

use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::bell::Topic;
use windlass_core::queue::{Counts, QueueConfig};
use windlass_core::store::{ClaimAnswer, ClaimRequest, NewLease, QueueShare, Settlement, Store, StoreResult};
use windlass_core::{ClaimedJob, JobRecord, LeaseId, Name, NewJob, Options, Outcome, judge};
use windlass_store_sqlite::SqliteStore;

/// Nothing in these tests takes longer unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Scene {
    pub(crate) store: Arc<SqliteStore>,
    pub(crate) folder: TempDir,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store =
            SqliteStore::open(&format!("sqlite://{}/jobs.db", folder.path().display())).await.unwrap();
        let scene = Self { store: Arc::new(store), folder };
        scene.rusqlite().execute_batch("CREATE TABLE ledger (amount INTEGER NOT NULL)").unwrap();
        scene
    }

    pub(crate) fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("jobs.db")
    }

    pub(crate) fn rusqlite(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path()).unwrap()
    }

    pub(crate) async fn sqlx(&self) -> sqlx::SqliteConnection {
        use sqlx::Connection;
        sqlx::SqliteConnection::connect(&format!("sqlite://{}", self.path().display())).await.unwrap()
    }

    /// The sum of the ledger, as committed.
    pub(crate) fn ledger(&self) -> i64 {
        let sum = "SELECT coalesce(sum(amount), 0) FROM ledger";
        self.rusqlite().query_row(sum, [], |row| row.get(0)).unwrap()
    }

    pub(crate) async fn record(&self, job: &NewJob) -> Option<JobRecord> {
        use windlass_core::store::Jobs;
        self.store.get(&[job.id]).await.unwrap().pop().unwrap()
    }

    /// What the queue counts, nothing if there is no such queue.
    pub(crate) async fn counts(&self) -> Option<Counts> {
        use windlass_core::store::Queues;
        let queues = self.store.queues(None, 100).await.unwrap();
        queues.into_iter().find(|queue| queue.name == name("default")).map(|queue| queue.counts)
    }

    pub(crate) async fn define(&self, config: QueueConfig) {
        use windlass_core::store::Queues;
        self.store.define(&name("default"), &config).await.unwrap();
    }

    /// Enqueues a job and claims it.
    pub(crate) async fn claimed(&self) -> ClaimedJob {
        use windlass_core::store::Jobs;
        self.store.enqueue(&[job("work")]).await.unwrap();
        self.claim().await
    }

    pub(crate) async fn claim(&self) -> ClaimedJob {
        use windlass_core::store::{Jobs, Leases};
        let (lease, queue) = (LeaseId::new(), name("default"));
        let queues = vec![queue.clone()];
        let ttl = Duration::from_secs(600);
        self.store.open(&NewLease { id: lease, worker: "test".into(), ttl, queues }).await.unwrap();
        let request = ClaimRequest {
            lease,
            queues: vec![QueueShare { queue, limit: 1 }],
            kinds: vec![name("k")],
            limit: 1,
            bytes: usize::MAX,
        };
        match self.store.claim(&request).await.unwrap() {
            ClaimAnswer::Jobs { mut jobs, .. } => jobs.pop().expect("a job is ready"),
            ClaimAnswer::LeaseLost => panic!("the lease was just opened"),
        }
    }

    pub(crate) async fn settle(&self, settlement: &Settlement) -> windlass_core::store::Settled {
        use windlass_core::store::Jobs;
        self.store.settle(std::slice::from_ref(settlement)).await.unwrap()[0]
    }

    /// Waits for a ring that began to be listened for before `act`.
    pub(crate) async fn rings<T>(&self, topic: Topic, act: impl Future<Output = T>) -> T {
        use windlass_core::store::Wakeup;
        let mut listener = self.store.bell().listen(topic);
        let done = act.await;
        tokio::time::timeout(PATIENCE, listener.rung()).await.expect("the bell rings");
        done
    }

    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

pub(crate) fn job(payload: &str) -> NewJob {
    NewJob::new("k", payload.to_owned(), Options::new()).unwrap()
}

pub(crate) fn done(job: &ClaimedJob, output: Option<&'static str>) -> Settlement {
    let outcome = Outcome::Completed { output: output.map(|text| text.as_bytes().into()) };
    settlement(job, outcome)
}

pub(crate) fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    let transition = judge(&job.facts, outcome, 0.0);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

pub(crate) fn kind<T: std::fmt::Debug>(answer: StoreResult<T>) -> (windlass_core::StoreErrorKind, String) {
    let error = answer.expect_err("it is refused");
    (error.kind(), error.to_string())
}
