//! The contract of stores, in a file and in memory.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::Name;
use windlass_core::clock::ManualClock;
use windlass_core::store::SharedStore;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_store_testkit::{Exception, Harness, async_trait};

/// Stores in files of one directory.
struct Files {
    directory: TempDir,
    made: AtomicUsize,
    clock: ManualClock,
    paths: Mutex<HashMap<String, PathBuf>>,
}

impl Files {
    fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            made: AtomicUsize::new(0),
            clock: ManualClock::default(),
            paths: Mutex::default(),
        }
    }

    async fn open(&self, path: PathBuf) -> SharedStore {
        let options = SqliteOptions::file(&path).clock(Arc::new(self.clock.clone()));
        let store: SharedStore = Arc::new(SqliteStore::open_with(options).await.unwrap());
        self.paths.lock().unwrap().insert(store.about().place, path);
        store
    }
}

#[async_trait]
impl Harness for Files {
    async fn fresh(&self) -> SharedStore {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        self.open(self.directory.path().join(format!("{number}.db"))).await
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        let path = self.paths.lock().unwrap()[&of.about().place].clone();
        Some(self.open(path).await)
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn cannot(&self) -> Vec<Exception> {
        without_duties()
    }

    async fn use_rule(&self, of: &SharedStore, queue: &Name, rule: u32) -> bool {
        let path = self.paths.lock().unwrap()[&of.about().place].clone();
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.busy_timeout(Duration::from_secs(30)).unwrap();
        let define = "INSERT INTO windlass_queues (name, config) VALUES (?1, ?2)
            ON CONFLICT (name) DO UPDATE SET config = excluded.config";
        connection.execute(define, [queue.as_str(), &format!("{{\"rules\":{rule}}}")]).unwrap();
        true
    }
}

/// Every process looks for itself what is to be done: that reads the file, and a duty would write it in each round.
fn without_duties() -> Vec<Exception> {
    let reason =
        "the processes of one machine sweep each for itself: a look costs less than the write of a duty";
    let clauses = [
        "duties::one_holder_has_a_duty",
        "duties::a_duty_that_ran_out_goes_to_the_next",
        "duties::a_duty_that_lasts_too_long_is_taken",
        "duties::a_duty_is_given_back_by_its_holder",
        "duties::of_many_at_once_one_has_it",
    ];
    clauses.map(|clause| Exception { clause, reason }).into()
}

/// Stores in memory, which no other process can open.
#[derive(Default)]
struct InMemory(ManualClock);

#[async_trait]
impl Harness for InMemory {
    async fn fresh(&self) -> SharedStore {
        let options = SqliteOptions::memory().clock(Arc::new(self.0.clone()));
        Arc::new(SqliteStore::open_with(options).await.unwrap())
    }

    async fn another(&self, _of: &SharedStore) -> Option<SharedStore> {
        None
    }

    async fn advance(&self, by: Duration) {
        self.0.advance(by);
    }

    fn cannot(&self) -> Vec<Exception> {
        without_duties()
    }
}

mod file {
    use super::*;
    windlass_store_testkit::conformance!(Files::new());
}

mod memory {
    use super::*;
    windlass_store_testkit::conformance!(InMemory::default());
}
