//! A file that goes away under the store, and a schema that a newer program has changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use windlass_core::store::{Filter, Inspect, Jobs, Leases};
use windlass_core::{LeaseId, StoreError, StoreErrorKind};
use windlass_store_sqlite::SqliteStore;

use super::{job, open};

/// Far more than the store needs to notice, for a machine that others use too.
const PATIENCE: Duration = Duration::from_secs(20);

/// Enqueues until that is refused.
async fn refusal(store: &SqliteStore) -> StoreError {
    let began = Instant::now();
    loop {
        match store.enqueue([job("x")].into()).await {
            Err(error) => return error,
            Ok(_) => assert!(began.elapsed() < PATIENCE, "enqueues are still accepted"),
        }
    }
}

fn all_of(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| PathBuf::from(format!("{}{suffix}", path.display())))
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_file_is_said_and_nothing_more_is_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    store.enqueue([job("x")].into()).await.unwrap();
    all_of(&path).iter().for_each(|file| fs::remove_file(file).unwrap());
    let error = refusal(&store).await;
    assert_eq!(error.kind(), StoreErrorKind::Fatal);
    assert!(error.to_string().contains("was deleted or replaced"), "{error}");
    // Not only enqueues: whatever is asked, the store that others see would not know of it.
    for error in [
        store.renew(LeaseId::new(), Duration::from_secs(1), 1).await.unwrap_err(),
        store.list(&Filter::default(), None, 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::Fatal, "{error}");
    }
    assert!(!path.exists(), "nothing was made in its place");
}

#[cfg(unix)]
#[tokio::test]
async fn a_replaced_file_is_noticed_and_one_that_is_put_back_works_again() {
    let directory = tempfile::tempdir().unwrap();
    let (path, aside) = (directory.path().join("jobs.db"), directory.path().join("aside.db"));
    let store = open(&path).await;
    store.enqueue([job("x")].into()).await.unwrap();
    fs::rename(&path, &aside).unwrap();
    fs::write(&path, "").unwrap();
    assert_eq!(refusal(&store).await.kind(), StoreErrorKind::Fatal);
    fs::rename(&aside, &path).unwrap();
    let began = Instant::now();
    while store.enqueue([job("y")].into()).await.is_err() {
        assert!(began.elapsed() < PATIENCE, "the file is back in its place");
        tokio::task::yield_now().await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_deleted_log_is_noticed_too() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    fs::remove_file(&all_of(&path)[1]).unwrap();
    let error = refusal(&store).await;
    assert!(error.to_string().contains("jobs.db-wal was deleted"), "{error}");
}

#[tokio::test]
async fn a_program_that_runs_stays_out_of_a_newer_schema() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let store = open(&path).await;
    store.enqueue([job("x")].into()).await.unwrap();
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE windlass_meta SET value = value + 1 WHERE key = 'layout'", []).unwrap();
    let error = refusal(&store).await;
    assert!(matches!(error, StoreError::SchemaTooNew { found, known } if found == known + 1), "{error}");
    let error = store.list(&Filter::default(), None, 1).await.unwrap_err();
    assert!(matches!(error, StoreError::SchemaTooNew { .. }), "{error}");
}
