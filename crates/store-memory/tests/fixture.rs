//! What is written to be kept for later programs can be found and worked off.

use std::sync::Arc;

use windlass_store_memory::MemoryStore;
use windlass_store_testkit::fixture;

#[tokio::test]
async fn what_is_kept_is_worked_off() {
    let store = Arc::new(MemoryStore::new());
    fixture::write(store.clone()).await;
    fixture::drain(store).await;
}
