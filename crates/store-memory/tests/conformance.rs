//! The reference keeps its own contract.

use std::sync::Arc;
use std::time::Duration;

use windlass_core::clock::ManualClock;
use windlass_core::store::SharedStore;
use windlass_store_memory::MemoryStore;
use windlass_store_testkit::{Harness, async_trait};

#[derive(Default)]
struct Memory {
    clock: ManualClock,
}

#[async_trait]
impl Harness for Memory {
    async fn fresh(&self) -> SharedStore {
        Arc::new(MemoryStore::with_clock(Arc::new(self.clock.clone())))
    }

    async fn another(&self, of: &SharedStore) -> Option<SharedStore> {
        Some(Arc::clone(of))
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

windlass_store_testkit::conformance!(Memory::default());
