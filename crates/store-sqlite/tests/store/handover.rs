//! Jobs that a worker of this process gets in the commit that stores them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};

use windlass_core::bell::{Claiming, Waiter};
use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, StoreResult, Wakeup};
use windlass_core::{LeaseId, Name, NewJob, Options};

use super::{job, lease, name, open, request};

/// A worker with room for a job.
struct Idle {
    lease: LeaseId,
    woken: AtomicU32,
    answers: mpsc::Sender<StoreResult<ClaimAnswer>>,
}

struct IdleClaim {
    request: ClaimRequest,
    answers: mpsc::Sender<StoreResult<ClaimAnswer>>,
}

impl Waiter for Idle {
    fn room(&self, _queue: &Name) -> u32 {
        1
    }

    fn wake(&self, _queue: Option<&Name>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }

    fn claim(&self, _queue: &Name) -> Option<Box<dyn Claiming>> {
        Some(Box::new(IdleClaim { request: request(self.lease, 1), answers: self.answers.clone() }))
    }
}

impl Claiming for IdleClaim {
    fn request(&self) -> &ClaimRequest {
        &self.request
    }

    fn answer(self: Box<Self>, answer: StoreResult<ClaimAnswer>) {
        self.answers.send(answer).unwrap();
    }
}

#[tokio::test]
async fn a_waiting_worker_gets_its_job_in_the_commit_that_stores_it() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    let (sender, answers) = mpsc::channel();
    let idle = Arc::new(Idle { lease: lease(&store).await, woken: AtomicU32::new(0), answers: sender });
    let enrolled = store.bell().enroll(&[name("default")], &[name("greet")], Arc::clone(&idle) as _);
    let woken = || idle.woken.swap(0, Ordering::Relaxed);
    let claimed = || match answers.try_recv() {
        Ok(Ok(ClaimAnswer::Jobs { jobs, .. })) => Some(jobs.len()),
        Ok(other) => panic!("the lease lives: {other:?}"),
        Err(_nothing) => None,
    };

    let before = store.gauges().commits;
    store.enqueue([job("now")].into()).await.unwrap();
    assert_eq!((claimed(), woken()), (Some(1), 0), "before the enqueue is answered");
    assert_eq!(store.gauges().commits - before, 1, "both are one commit");

    // A worker is woken for what it has no room for.
    store.enqueue([job("one"), job("two")].into()).await.unwrap();
    assert_eq!((claimed(), woken()), (Some(1), 1));

    // A claim could not take a job that is due later.
    let delayed = Options::new().delay(std::time::Duration::from_secs(600));
    store.enqueue([NewJob::new("greet", "later", delayed).unwrap()].into()).await.unwrap();
    assert_eq!((claimed(), woken()), (None, 1));
    drop((enrolled, idle));
}
