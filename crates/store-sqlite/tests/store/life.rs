//! The life of jobs in a file that is closed and opened again.

use futures_util::FutureExt;
use windlass_core::State;
use windlass_core::store::{Enqueued, Jobs, Queues, Settled};

use super::{claim, completed, job, lease, open};

#[tokio::test]
async fn jobs_are_kept_through_a_reopened_file_and_completed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let (short, long) = (job("short"), job("x".repeat(100_000)));
    {
        let store = open(&path).await;
        assert_eq!(store.enqueue([short.clone(), long.clone()].into()).await.unwrap(), [Enqueued::New; 2]);
    }
    assert!(!directory.path().join("jobs.db-wal").exists(), "the last to close leaves no log behind");

    let store = open(&path).await;
    let repeated = store.enqueue([short.clone(), long.clone()].into()).await.unwrap();
    assert_eq!(repeated, [Enqueued::Existing(State::Ready); 2]);
    let lease = lease(&store).await;
    let jobs = claim(&store, lease, 10).await;
    assert_eq!(jobs.iter().map(|job| job.payload.len()).collect::<Vec<_>>(), [5, 100_000]);
    let settlements = completed(&jobs);
    assert_eq!(
        store.settle(settlements.as_slice().into()).await.unwrap(),
        [Settled::Applied(State::Completed); 2]
    );
    assert_eq!(store.settle(settlements.as_slice().into()).await.unwrap(), [Settled::Fenced; 2]);
    let records = store.get([short.id, long.id].into()).await.unwrap();
    assert_eq!(records[1].as_ref().unwrap().payload, long.payload);
    assert_eq!(records[0].as_ref().unwrap().attempts[0].worker, "w");
    let counts = store.queues(None, 10).await.unwrap()[0].counts;
    assert_eq!((counts.of(State::Completed), counts.total()), (2, 2));
}

#[tokio::test]
async fn the_last_handle_finishes_what_was_handed_in() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let jobs: Vec<_> = (0..100).map(|number| job(number.to_string())).collect();
    let store = open(&path).await;
    // Each call is polled once, which hands it in, and then dropped.
    for one in &jobs {
        let _ = store.enqueue([one.clone()].into()).now_or_never();
    }
    drop(store);
    let store = open(&path).await;
    let ids: Vec<_> = jobs.iter().map(|job| job.id).collect();
    assert_eq!(store.get(ids.as_slice().into()).await.unwrap().iter().flatten().count(), 100);
}

#[tokio::test]
async fn a_store_in_memory_is_its_own() {
    let one = windlass_store_sqlite::SqliteStore::open("sqlite::memory:").await.unwrap();
    let two = windlass_store_sqlite::SqliteStore::open("sqlite://:memory:").await.unwrap();
    let job = job("x");
    one.enqueue([job.clone()].into()).await.unwrap();
    assert!(two.get([job.id].into()).await.unwrap()[0].is_none());
    assert!(one.get([job.id].into()).await.unwrap()[0].is_some());
}
