//! Opening: what is made, what is refused and how that is said.

use std::fs;

use windlass_core::store::{Durability, Jobs, Wakeup};
use windlass_core::{Store, StoreError};
use windlass_store_sqlite::{Create, SqliteOptions, SqliteStore, Synchronous, migrate};

use super::{job, open};

async fn refusal(url: &str) -> String {
    match SqliteStore::open(url).await {
        Err(StoreError::Address(text)) => text,
        other => panic!("{url}: expected a refusal of the address, got {other:?}"),
    }
}

#[tokio::test]
async fn a_place_that_will_not_do_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().display();
    fs::write(directory.path().join("notes.txt"), "these are not the rows you are looking for".repeat(100))
        .unwrap();
    for (place, right) in [
        (format!("{root}"), "is a directory"),
        (format!("{root}/missing/jobs.db"), "there is no directory"),
        (format!("{root}/notes.txt"), "is not an SQLite database"),
        (format!("{root}/jobs.db?create=never"), "there is no store at"),
        (format!("{root}/jobs.db?mode=ro"), "unknown parameter \"mode\""),
    ] {
        let text = refusal(&format!("sqlite://{place}")).await;
        assert!(text.contains(right) && !text.ends_with('.'), "{place}: {text}");
    }
    assert!(!directory.path().join("jobs.db").exists(), "a refused place is left as it was");
}

#[cfg(unix)]
#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;

    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory.path().join("jobs.db")).await;
    store.enqueue([job("x")].into()).await.unwrap();
    store.bell();
    for suffix in ["", "-wal", "-shm", "-bell", "-reserve"] {
        let path = directory.path().join(format!("jobs.db{suffix}"));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
}

#[tokio::test]
async fn a_store_says_what_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let about = open(&path).await.about();
    assert_eq!((about.scheme, about.durability), ("sqlite", Durability::PowerCut));
    assert_eq!(about.place, path.canonicalize().unwrap().display().to_string());
    let options = SqliteOptions::file(&path).synchronous(Synchronous::Normal).create(Create::Never);
    assert_eq!(SqliteStore::open_with(options).await.unwrap().about().durability, Durability::Crash);
    let memory = SqliteStore::open("sqlite::memory:").await.unwrap();
    assert_eq!(memory.about().durability, Durability::Process);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_an_unknown_file_has_everything_pending() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let url = format!("sqlite://{}", path.display());
    let before = migrate::status(&url).unwrap();
    assert_eq!((before.found, before.pending.len()), (0, migrate::MIGRATIONS.len()));
    assert!(!path.exists(), "looking makes nothing");
    drop(open(&path).await);
    let after = migrate::status(&url).unwrap();
    assert_eq!((after.found, after.pending.len()), (after.known, 0));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute("UPDATE windlass_meta SET value = value + 1 WHERE key = 'layout'", []).unwrap();
    let error = SqliteStore::open(&url).await.unwrap_err();
    assert!(
        matches!(error, StoreError::SchemaTooNew { found, known } if found == known + 1),
        "expected a refusal of the schema, got {error:?}"
    );
}

#[tokio::test]
async fn the_file_may_hold_tables_of_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("application.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('Ada')").unwrap();
    let store = open(&path).await;
    store.enqueue([job("x")].into()).await.unwrap();
    let people: i64 = connection.query_row("SELECT count(*) FROM people", [], |row| row.get(0)).unwrap();
    assert_eq!(people, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_may_open_a_new_file_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("jobs.db");
    let openings: Vec<_> = (0..12)
        .map(|_| {
            let options = SqliteOptions::file(&path);
            tokio::spawn(async move {
                let store = SqliteStore::open_with(options).await.unwrap();
                store.enqueue([job("x")].into()).await.unwrap();
            })
        })
        .collect();
    for opening in openings {
        opening.await.unwrap();
    }
}
