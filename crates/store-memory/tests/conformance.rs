//! The reference keeps its own contract.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use windlass_core::Name;
use windlass_core::clock::ManualClock;
use windlass_core::store::SharedStore;
use windlass_store_memory::MemoryStore;
use windlass_store_testkit::{Harness, async_trait};

#[derive(Default)]
struct Memory {
    clock: ManualClock,
    made: Mutex<Vec<Arc<MemoryStore>>>,
}

#[async_trait]
impl Harness for Memory {
    async fn fresh(&self) -> SharedStore {
        let store = Arc::new(MemoryStore::with_clock(Arc::new(self.clock.clone())));
        self.made.lock().unwrap().push(Arc::clone(&store));
        store
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        Some(Arc::clone(of))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn use_rule(&self, of: &SharedStore, queue: &Name, rule: u32) -> bool {
        let made = self.made.lock().unwrap();
        let is_same = |store: &&Arc<MemoryStore>| std::ptr::addr_eq(Arc::as_ptr(store), Arc::as_ptr(of));
        made.iter().find(is_same).expect("it was made here").use_rule(queue, rule);
        true
    }
}

windlass_store_testkit::conformance!(Memory::default());
