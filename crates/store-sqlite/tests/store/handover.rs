//! Jobs that a worker of this process gets in the commit that stores them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};

use windlass_core::bell::Waiter;
use windlass_core::store::{ClaimAnswer, Jobs, StoreResult, Wakeup};
use windlass_core::{LeaseId, Name, NewJob, Options};
use windlass_store_sqlite::SqliteStore;

use super::{job, lease, name, open, request};

type Claiming = Pin<Box<dyn Future<Output = StoreResult<ClaimAnswer>> + Send>>;

/// A worker that hands in its claim while it is called, so that no test waits for a thread to wake up.
struct Idle {
    store: SqliteStore,
    lease: LeaseId,
    claims: Mutex<Vec<Claiming>>,
}

impl Waiter for Idle {
    fn room(&self, _queue: &Name) -> u32 {
        1
    }

    fn wake(&self, _queue: Option<&Name>) {
        let (store, request) = (self.store.clone(), request(self.lease, 1));
        let mut claim: Claiming = Box::pin(async move { store.claim(request).await });
        // The first poll hands it in.
        assert!(claim.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        self.claims.lock().unwrap().push(claim);
    }
}

impl Idle {
    /// What the claims got that it made since.
    async fn claimed(&self) -> Vec<usize> {
        let claims: Vec<_> = self.claims.lock().unwrap().drain(..).collect();
        let mut claimed = Vec::new();
        for claim in claims {
            let ClaimAnswer::Jobs { jobs, .. } = claim.await.unwrap() else { panic!("the lease lives") };
            claimed.push(jobs.len());
        }
        claimed
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_worker_gets_its_job_in_the_commit_that_stores_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let lease = lease(&store).await;
    let idle = Arc::new(Idle { store: store.clone(), lease, claims: Mutex::default() });
    let enrolled = store.bell().enroll(&[name("default")], &[name("greet")], Arc::clone(&idle) as _);

    let before = store.gauges().commits;
    store.enqueue([job("now")].into()).await.unwrap();
    assert_eq!(idle.claimed().await, [1]);
    assert_eq!(store.gauges().commits - before, 1, "both are one commit");

    // A delayed job is not held up for a claim that could not take it.
    let before = store.gauges().commits;
    let delayed = Options::new().delay(std::time::Duration::from_secs(600));
    store.enqueue([NewJob::new("greet", "later", delayed).unwrap()].into()).await.unwrap();
    assert_eq!(idle.claimed().await, [0]);
    assert_eq!(store.gauges().commits - before, 2);
    drop((enrolled, idle));
}
