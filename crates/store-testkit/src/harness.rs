//! What a store's author writes once to attach the suite.

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::Name;
use windlass_core::store::SharedStore;

/// Gives the suite stores to test, and moves their time.
///
/// Clauses hold on a clock that runs by itself as well as on one that stands still between two calls of
/// [`advance`](Harness::advance); the model test needs one that stands still.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A fresh store without any jobs, queues or leases. Stores that were made before stay usable.
    async fn fresh(&self) -> SharedStore;

    /// Another handle on the content of a store that [`fresh`](Harness::fresh) made, as another process
    /// would open it. Nothing where there is no such thing; the clauses about it are then skipped.
    async fn another(&self, of: &SharedStore) -> Option<SharedStore>;

    /// Moves the clock of every store of this harness forward by at least this much.
    async fn advance(&self, by: Duration);

    /// Gives a queue of a store that [`fresh`](Harness::fresh) made a definition whose newest rule has this number, as a
    /// program does that knows the rule (see [`RULES`](windlass_core::queue::RULES)): by writing to the store directly.
    /// False where that is not possible; the clauses about it are then skipped.
    async fn use_rule(&self, _of: &SharedStore, _queue: &Name, _rule: u32) -> bool {
        false
    }

    /// The clauses that this store cannot keep, with reasons. They are skipped, loudly.
    fn cannot(&self) -> Vec<Exception> {
        Vec::new()
    }
}

/// A clause that a store cannot keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exception {
    /// The clause as `part::clause`, or `model`.
    pub clause: &'static str,
    /// Why it cannot be kept, for readers who choose a store.
    pub reason: &'static str,
}
