//! A store, a ledger beside its tables, and attempts that are claimed by hand.

mod file;
pub(crate) mod schema;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::bell::Topic;
use windlass_core::queue::{Counts, QueueConfig};
use windlass_core::store::{
    ClaimAnswer, ClaimRequest, NewLease, QueueShare, Settled, Settlement, Store, StoreResult,
};
use windlass_core::{ClaimedJob, JobRecord, LeaseId, Name, NewJob, Options, Outcome, StoreErrorKind, judge};

pub(crate) use file::File;
pub(crate) use schema::Schema;

/// Nothing in these tests takes longer unless it is broken.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// What tests do with a store of any kind.
pub(crate) struct Scene {
    pub(crate) store: Arc<dyn Store>,
}

impl Scene {
    pub(crate) fn store(&self) -> &dyn Store {
        &*self.store
    }

    pub(crate) async fn record(&self, job: &NewJob) -> Option<JobRecord> {
        self.store.get([job.id].into()).await.unwrap().pop().unwrap()
    }

    /// What the queue counts, nothing if there is no such queue.
    pub(crate) async fn counts(&self) -> Option<Counts> {
        let queues = self.store.queues(None, 100).await.unwrap();
        queues.into_iter().find(|queue| queue.name == name("default")).map(|queue| queue.counts)
    }

    pub(crate) async fn define(&self, config: QueueConfig) {
        self.store.define(&name("default"), &config).await.unwrap();
    }

    /// Enqueues a job and claims it.
    pub(crate) async fn claimed(&self) -> ClaimedJob {
        self.store.enqueue([job("work")].into()).await.unwrap();
        self.claim().await
    }

    pub(crate) async fn claim(&self) -> ClaimedJob {
        let (lease, queue) = (LeaseId::new(), name("default"));
        let queues = vec![queue.clone()];
        let ttl = Duration::from_secs(600);
        self.store
            .open(&NewLease { id: lease, worker: "test".into(), ttl, queues, kinds: Vec::new() })
            .await
            .unwrap();
        let request = ClaimRequest {
            lease,
            nonce: windlass_core::Fence::nonce(),
            queues: vec![QueueShare { queue, limit: 1 }],
            kinds: vec![name("k")],
            limit: 1,
            at_once: 1,
            bytes: usize::MAX,
        };
        match self.store.claim(request.clone()).await.unwrap() {
            ClaimAnswer::Jobs { mut jobs, .. } => jobs.pop().expect("a job is ready"),
            ClaimAnswer::LeaseLost => panic!("the lease was just opened"),
        }
    }

    pub(crate) async fn settle(&self, settlement: &Settlement) -> Settled {
        self.store.settle([settlement.clone()].into()).await.unwrap()[0]
    }

    /// Waits for a ring that began to be listened for before `act`.
    pub(crate) async fn rings<T>(&self, topic: Topic, act: impl Future<Output = T>) -> T {
        let mut listener = self.store.bell().listen(topic);
        let done = act.await;
        tokio::time::timeout(PATIENCE, listener.rung()).await.expect("the bell rings");
        done
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

pub(crate) fn kind<T: std::fmt::Debug>(answer: StoreResult<T>) -> (StoreErrorKind, String) {
    let error = answer.expect_err("it is refused");
    (error.kind(), error.to_string())
}
