//! Files that earlier programs left behind: `tests/fixtures/layout-N.db`, one per layout since the first, never written
//! anew. After a new migration, `WINDLASS_FIXTURE=layout-4.db cargo test -p windlass-store-sqlite fixture` writes the
//! next one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::{Amended, Enqueued, Jobs};
use windlass_core::unique::Unique;
use windlass_core::{JobId, NewJob, Options, State};
use windlass_store_sqlite::SqliteStore;
use windlass_store_testkit::fixture;

use crate::open;

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// In a queue of their own, which the jobs of the test kit do not come to.
fn unique(word: &str, unique: Unique) -> NewJob {
    let options = Options::new().queue("unique").unique(unique);
    NewJob::new("work", "", options).unwrap().with_id(JobId::from_key("fixture", word))
}

fn until_end(word: &str) -> NewJob {
    unique(word, Unique::key("end"))
}

fn windowed(word: &str) -> NewJob {
    unique(word, Unique::key("window").for_window(Duration::from_secs(100 * 365 * 86_400)))
}

/// Leaves a key that a waiting job holds, and one that outlives its job.
async fn write_keys(store: &SqliteStore) {
    let (holder, gone) = (until_end("holder"), windowed("gone"));
    assert_eq!(store.enqueue([holder, gone.clone()].into()).await.unwrap(), [Enqueued::New; 2]);
    assert_eq!(store.delete([gone.id].into()).await.unwrap(), [Amended::Done(State::Ready)]);
}

async fn check_keys(store: &SqliteStore) {
    let (holder, gone) = (until_end("holder"), windowed("gone"));
    let record = store.get([holder.id].into()).await.unwrap().pop().unwrap().unwrap();
    assert_eq!((record.unreadable, record.unique), (None, holder.unique));
    let answers = store.enqueue([until_end("next"), windowed("next")].into()).await.unwrap();
    let met = |id, state| Enqueued::Duplicate { id, state };
    assert_eq!(answers, [met(holder.id, Some(State::Ready)), met(gone.id, None)]);
    assert_eq!(store.cancel([holder.id].into()).await.unwrap(), [Amended::Done(State::Cancelled)]);
    assert_eq!(store.enqueue([until_end("next")].into()).await.unwrap(), [Enqueued::New]);
}

#[tokio::test]
async fn what_this_program_leaves_is_worked_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    let store = Arc::new(open(&path).await);
    write_keys(&store).await;
    fixture::write(store).await;
    // Opened once more, so that all of it is in the one file.
    drop(open(&path).await);
    if let Some(name) = std::env::var_os("WINDLASS_FIXTURE") {
        let to = kept().join(name);
        assert!(!to.exists(), "{} is kept as it is", to.display());
        rusqlite::Connection::open(&path).unwrap().execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
    }
    let store = Arc::new(open(&path).await);
    fixture::check(store.clone()).await;
    check_keys(&store).await;
    fixture::drain(store).await;
}

#[tokio::test]
async fn what_earlier_programs_left_is_worked_off() {
    let mut files = 0;
    for file in fs::read_dir(kept()).unwrap() {
        let (file, folder) = (file.unwrap(), tempfile::tempdir().unwrap());
        let path = folder.path().join("jobs.db");
        fs::copy(file.path(), &path).unwrap();
        let store = Arc::new(open(&path).await);
        fixture::check(store.clone()).await;
        // The first layout had no keys.
        if file.file_name() != "layout-1.db" {
            check_keys(&store).await;
        }
        fixture::drain(store).await;
        files += 1;
    }
    assert!(files > 0, "a file of every layout is kept");
}
