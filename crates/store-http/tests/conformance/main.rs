//! The contract of stores, kept over HTTP: the suite runs on a store in memory, and parts of it on a file, with every call and
//! every ring passing a socket.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod faults;
mod file;
mod front;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::Name;
use windlass_core::clock::ManualClock;
use windlass_core::store::SharedStore;
use windlass_store_http::HttpStore;
use windlass_store_memory::MemoryStore;
use windlass_store_testkit::{Exception, Harness, async_trait};

use front::Front;

/// Stores in memory, each behind a server of its own.
#[derive(Default)]
struct Remote {
    clock: ManualClock,
    made: Mutex<Vec<(String, Front, Arc<MemoryStore>)>>,
}

#[async_trait]
impl Harness for Remote {
    async fn fresh(&self) -> SharedStore {
        let inner = Arc::new(MemoryStore::with_clock(Arc::new(self.clock.clone())));
        let front = Front::start(Arc::clone(&inner) as _).await;
        let store = HttpStore::open(&front.url()).await.unwrap();
        let place = windlass_core::Store::about(&store).place;
        self.made.lock().unwrap().push((place, front, inner));
        Arc::new(store)
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        let url = {
            let made = self.made.lock().unwrap();
            made.iter().find(|(place, ..)| *place == of.about().place).unwrap().1.url()
        };
        Some(Arc::new(HttpStore::open(&url).await.unwrap()))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn use_rule(&self, of: &SharedStore, queue: &Name, rule: u32) -> bool {
        let made = self.made.lock().unwrap();
        made.iter().find(|(place, ..)| *place == of.about().place).unwrap().2.use_rule(queue, rule);
        true
    }

    fn cannot(&self) -> Vec<Exception> {
        Vec::new()
    }
}

windlass_store_testkit::conformance!(Remote::default());
