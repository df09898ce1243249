//! Jobs that a worker of this process gets in the commit that stores them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use futures_util::FutureExt;
use windlass_core::bell::{Claiming, Waiter};
use windlass_core::options::Due;
use windlass_core::store::{ClaimAnswer, ClaimRequest, Jobs, StoreResult, Wakeup};
use windlass_core::{LeaseId, Name, NewJob, Options};
use windlass_store_sqlite::SqliteStore;

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
    let delayed = Options::new().delay(Duration::from_secs(600));
    store.enqueue([NewJob::new("greet", "later", delayed).unwrap()].into()).await.unwrap();
    assert_eq!((claimed(), woken()), (None, 1));

    // No claim could take a job that is held, until it is sent.
    let mut held = job("held");
    held.due = Due::Held;
    store.enqueue([held.clone()].into()).await.unwrap();
    assert_eq!((claimed(), woken()), (None, 0));
    store.retry([held.id].into()).await.unwrap();
    assert_eq!((claimed(), woken()), (None, 1));
    drop((enrolled, idle));
}

/// A worker whose claim keeps the store open until the answer has come.
struct Last(Mutex<Option<LastClaim>>);

struct LastClaim {
    request: ClaimRequest,
    store: SqliteStore,
    /// All other handles are gone.
    go: mpsc::Receiver<()>,
    done: mpsc::Sender<()>,
}

impl Waiter for Last {
    fn room(&self, _queue: &Name) -> u32 {
        1
    }

    fn wake(&self, _queue: Option<&Name>) {}

    fn claim(&self, _queue: &Name) -> Option<Box<dyn Claiming>> {
        Some(Box::new(self.0.lock().unwrap().take()?))
    }
}

impl Claiming for LastClaim {
    fn request(&self) -> &ClaimRequest {
        &self.request
    }

    fn answer(self: Box<Self>, _answer: StoreResult<ClaimAnswer>) {
        self.go.recv_timeout(Duration::from_secs(60)).unwrap();
        drop(self.store);
        self.done.send(()).unwrap();
    }
}

#[tokio::test]
async fn the_last_handle_may_go_with_a_claim_that_was_handed_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    let ((go, wait), (sender, done)) = (mpsc::channel(), mpsc::channel());
    let claim =
        LastClaim { request: request(lease(&store).await, 1), store: store.clone(), go: wait, done: sender };
    let last = Arc::new(Last(Mutex::new(Some(claim))));
    let enrolled = store.bell().enroll(&[name("default")], &[name("greet")], Arc::clone(&last) as _);
    // Polled once, which hands it in, and dropped.
    let job = job("left");
    let _ = store.enqueue([job.clone()].into()).now_or_never();
    while last.0.lock().unwrap().is_some() {
        tokio::task::yield_now().await;
    }
    drop((enrolled, last, store));
    go.send(()).unwrap();
    done.recv_timeout(Duration::from_secs(60)).expect("the thread goes on");
    let store = open(&path).await;
    assert!(store.get([job.id].into()).await.unwrap()[0].is_some());
}
