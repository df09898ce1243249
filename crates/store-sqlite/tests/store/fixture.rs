//! Files that earlier programs left behind: `tests/fixtures/layout-N.db`, one per layout since the first, never written
//! anew. After a new migration, `WINDLASS_FIXTURE=layout-2.db cargo test -p windlass-store-sqlite fixture` writes the
//! next one.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_store_testkit::fixture;

use crate::open;

fn kept() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

#[tokio::test]
async fn what_this_program_leaves_is_worked_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.db");
    fixture::write(Arc::new(open(&path).await)).await;
    // Opened once more, so that all of it is in the one file.
    drop(open(&path).await);
    if let Some(name) = std::env::var_os("WINDLASS_FIXTURE") {
        let to = kept().join(name);
        assert!(!to.exists(), "{} is kept as it is", to.display());
        rusqlite::Connection::open(&path).unwrap().execute("VACUUM INTO ?1", [to.to_str().unwrap()]).unwrap();
    }
    let store = Arc::new(open(&path).await);
    fixture::check(store.clone()).await;
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
        fixture::drain(store).await;
        files += 1;
    }
    assert!(files > 0, "a file of every layout is kept");
}
