//! The write-ahead log stays short, whoever reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
        store.enqueue(&jobs).await.unwrap();
        let claimed = claim(&other, lease, 500).await;
        other.settle(&completed(&claimed)).await.unwrap();
        longest = longest.max(store.gauges().log_bytes);
    }
    stop.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert!(longest > 0, "the log was measured");
    assert!(longest <= 64 * MIB, "the log grew to {} MiB", longest / MIB);
}
