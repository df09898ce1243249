//! The write-ahead log stays short, also beside readers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use windlass_core::store::{Filter, Inspect, Jobs};

use super::{claim, completed, job, lease, open};

const MIB: u64 = 1 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_stays_bounded_while_others_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let (store, other) = (open(&path).await, open(&path).await);
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = [store.clone(), other.clone()]
        .into_iter()
        .map(|store| {
            let stop = Arc::clone(&stop);
            tokio::spawn(async move {
                let mut pages = 0;
                while !stop.load(Ordering::Relaxed) {
                    store.list(&Filter::default(), None, 1_000).await.unwrap();
                    pages += 1;
                }
                pages
            })
        })
        .collect();
    let lease = lease(&store).await;
    let mut longest = 0;
    for _ in 0..60 {
        // About 1 MiB of log per round.
        let jobs: Vec<_> = (0..500).map(|_| job("x".repeat(900))).collect();
        store.enqueue(jobs.as_slice().into()).await.unwrap();
        let claimed = claim(&other, lease, 500).await;
        other.settle(completed(&claimed).into()).await.unwrap();
        longest = longest.max(store.gauges().log_bytes);
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert!(longest > 0, "the log was measured");
    assert!(longest <= 64 * MIB, "the log grew to {} MiB", longest / MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_stayed_for_long_leaves_no_long_log() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    let reader = rusqlite::Connection::open(&path).unwrap();
    reader.execute_batch("BEGIN; SELECT count(*) FROM windlass_jobs").unwrap();
    while store.gauges().log_bytes < 80 * MIB {
        let jobs: Vec<_> = (0..40).map(|_| job("x".repeat(100_000))).collect();
        store.enqueue(jobs.as_slice().into()).await.unwrap();
    }
    reader.execute_batch("COMMIT").unwrap();
    let began = Instant::now();
    while store.gauges().log_bytes > 32 * MIB {
        store.enqueue([job("y")].into()).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "the log has {} bytes", store.gauges().log_bytes);
    }
}
