//! The in-memory store of Windlass: the readable reference of the contract, for tests and for work that may
//! be lost.
//!
//! Plain ordered maps behind one lock. The lock makes every call a transaction, so what remains to read is
//! the meaning of the contract. Read `accept` (how a job gets in), `moves` (how it changes its state) and `job` (what
//! becomes of one job) first; `table` keeps the orders that are searched. `jobs`, `leases`, `queues`, `inspect`,
//! `maintenance`, `records` and `tallies` each implement the trait of their name. No call waits for anything but the lock, and none keeps it
//! while it waits.
//!
//! ```
//! use std::sync::Arc;
//! use windlass_core::store::SharedStore;
//! use windlass_store_memory::MemoryStore;
//!
//! let store: SharedStore = Arc::new(MemoryStore::new());
//! assert_eq!(store.about().scheme, "memory");
//! ```

mod accept;
mod aged;
mod bug;
mod calls;
mod gates;
mod inspect;
mod job;
mod jobs;
mod keys;
mod lease;
mod leases;
mod maintenance;
mod moves;
mod queue;
mod queues;
mod records;
mod table;
mod tallies;
mod wakeup;

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard};

use windlass_core::bell::Bell;
use windlass_core::clock::{Clock, SystemClock, Timestamp};
use windlass_core::store::{About, Durability, Records, Sharing, Store, Tallies};

#[cfg(feature = "planted-bugs")]
pub use bug::Bug;

use table::Table;

/// A store that lives and dies with the process.
#[derive(Debug)]
pub struct MemoryStore {
    table: Mutex<Table>,
    clock: Arc<dyn Clock>,
    bell: Bell,
}

impl MemoryStore {
    /// An empty store on the clock of the operating system.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::default()))
    }

    /// An empty store on any clock, such as one that a test moves.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let mut table = Table::default();
        table.steps.look(&*clock);
        Self { table: Mutex::new(table), clock, bell: Bell::new() }
    }

    /// An empty store that breaks the contract in one way.
    #[cfg(feature = "planted-bugs")]
    pub fn with_bug(clock: Arc<dyn Clock>, bug: Bug) -> Self {
        let store = Self::with_clock(clock);
        store.lock().plant(bug);
        store
    }

    /// Looks at the table. The time is read under the lock, so that instants grow in the order of calls.
    fn read<T>(&self, look: impl FnOnce(&Table, Timestamp) -> T) -> T {
        let mut table = self.lock();
        let now = table.now(&*self.clock);
        look(&table, now)
    }

    /// Changes the table, and rings only when the change can be seen.
    fn write<T>(&self, change: impl FnOnce(&mut Table, Timestamp) -> T) -> T {
        let mut table = self.lock();
        let now = table.now(&*self.clock);
        let answer = change(&mut table, now);
        let rings = mem::take(&mut table.rings);
        drop(table);
        // No other process hears of it.
        let _ = rings.ring(&self.bell);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no call panics while it holds the table")
    }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl Store for MemoryStore {
    fn about(&self) -> About {
        About {
            scheme: "memory",
            place: "this process".to_owned(),
            durability: Durability::Process,
            sharing: Sharing::Store,
        }
    }

    fn finishes_calls(&self) -> bool {
        true
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn tallies(&self) -> Option<&dyn Tallies> {
        Some(self)
    }
}
