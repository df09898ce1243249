//! Several stores on one file, as several processes would have it: each has its own connections, threads and
//! locks.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use windlass_core::bell::Topic;
use windlass_core::store::{Jobs, Queues, Settled, Wakeup};
use windlass_core::{JobId, State};
use windlass_store_sqlite::SqliteStore;

use super::{claim, completed, job, lease, open};

const STORES: usize = 4;
const JOBS: usize = 4_000;

/// Enqueues its share, then claims and settles until nothing is left; answers what it settled.
async fn work(store: SqliteStore) -> Vec<JobId> {
    let lease = lease(&store).await;
    let share = JOBS / STORES;
    for start in (0..share).step_by(20) {
        let jobs: Vec<_> = (start..start + 20).map(|number| job(number.to_string())).collect();
        store.enqueue(jobs.as_slice().into()).await.unwrap();
    }
    let mut settled = Vec::new();
    loop {
        let jobs = claim(&store, lease, 25).await;
        if jobs.is_empty() {
            return settled;
        }
        let answers = store.settle(completed(&jobs).into()).await.unwrap();
        assert!(answers.iter().all(|answer| *answer == Settled::Applied(State::Completed)));
        settled.extend(jobs.iter().map(|job| job.id));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_job_is_handed_out_once_and_no_caller_hears_of_locks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let mut workers = Vec::new();
    for _ in 0..STORES {
        workers.push(tokio::spawn(work(open(&path).await)));
    }
    let mut settled = Vec::new();
    for worker in workers {
        settled.extend(worker.await.expect("no call failed"));
    }
    // A store that found nothing may have stopped before another had enqueued its last.
    let store = open(&path).await;
    let lease = lease(&store).await;
    loop {
        let jobs = claim(&store, lease, 500).await;
        if jobs.is_empty() {
            break;
        }
        store.settle(completed(&jobs).into()).await.unwrap();
        settled.extend(jobs.iter().map(|job| job.id));
    }
    assert_eq!(settled.len(), JOBS, "every job was settled, none twice");
    assert_eq!(settled.iter().collect::<HashSet<_>>().len(), JOBS);
    let counts = store.queues(None, 10).await.unwrap()[0].counts;
    assert_eq!((counts.of(State::Completed), counts.total()), (JOBS as u64, JOBS as u64));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_writes_without_pause_lets_others_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let (greedy, modest) = (open(&path).await, open(&path).await);
    let hog = tokio::spawn(async move {
        loop {
            let jobs: Vec<_> = (0..200).map(|_| job("x")).collect();
            greedy.enqueue(jobs.as_slice().into()).await.unwrap();
        }
    });
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        let began = Instant::now();
        modest.enqueue([job("y")].into()).await.unwrap();
        slowest = slowest.max(began.elapsed());
    }
    hog.abort();
    assert!(slowest < Duration::from_secs(5), "a single enqueue waited {slowest:?}");
}

async fn heard(listener: &mut windlass_core::bell::Listener) {
    tokio::time::timeout(Duration::from_secs(10), listener.rung()).await.expect("the bell rings");
}

async fn pair(path: &Path) -> (SqliteStore, SqliteStore) {
    (open(path).await, open(path).await)
}

#[tokio::test]
async fn another_process_hears_of_work_and_of_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let (here, there) = pair(&directory.path().join("jobs.db")).await;
    let (mut work, mut finish) = (there.bell().listen(Topic::Work), there.bell().listen(Topic::Finish));
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let job = job("x");
        here.enqueue([job.clone()].into()).await.unwrap();
        let committed = Instant::now();
        heard(&mut work).await;
        fastest = fastest.min(committed.elapsed());
        here.cancel([job.id].into()).await.unwrap();
        heard(&mut finish).await;
    }
    assert!(fastest < Duration::from_millis(250), "the fastest ring took {fastest:?}");
}
