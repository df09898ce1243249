//! A part of the contract on a file behind a server: what its own threads and transactions could change about the calls.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;
use windlass_core::clock::ManualClock;
use windlass_core::store::SharedStore;
use windlass_store_http::HttpStore;
use windlass_store_sqlite::{SqliteOptions, SqliteStore};
use windlass_store_testkit::{Harness, async_trait, clauses};

use crate::front::Front;

/// Stores in files, each behind a server of its own.
struct Files {
    folder: TempDir,
    clock: ManualClock,
    made: Mutex<Vec<(String, Front)>>,
}

#[async_trait]
impl Harness for Files {
    async fn fresh(&self) -> SharedStore {
        let number = self.made.lock().unwrap().len();
        let options = SqliteOptions::file(self.folder.path().join(format!("{number}.db")));
        let inner = SqliteStore::open_with(options.clock(Arc::new(self.clock.clone()))).await.unwrap();
        let front = Front::start(Arc::new(inner)).await;
        let store: SharedStore = Arc::new(HttpStore::open(&front.url()).await.unwrap());
        self.made.lock().unwrap().push((store.about().place, front));
        store
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        let url = {
            let made = self.made.lock().unwrap();
            made.iter().find(|(place, _)| *place == of.about().place).unwrap().1.url()
        };
        Some(Arc::new(HttpStore::open(&url).await.unwrap()))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

macro_rules! kept {
    ($($part:ident::$clause:ident)*) => {$(
        #[test]
        fn $clause() {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            runtime.unwrap().block_on(async {
                let (folder, clock, made) = (tempfile::tempdir().unwrap(), ManualClock::default(), Mutex::default());
                clauses::$part::$clause(&Files { folder, clock, made }).await;
            });
        }
    )*};
}

kept! {
    calls::a_repeated_call_is_known_when_its_jobs_are_gone
    at_once::of_overlapping_batches_each_job_is_new_once
    at_once::a_claim_and_a_close_agree
    wakeup::work_rings
    wakeup::finish_rings
    wakeup::those_who_wait_get_every_job_once
    records::records_outlive_their_queue
    begin::attempts_of_a_batch_are_apart
}
