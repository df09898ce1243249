//! Loops that keep a store in order. Every worker may run them; they only do what is still to be done.

mod promoter;
mod pruner;
mod reaper;

pub use promoter::{PromoteSummary, Promoter};
pub use pruner::{PruneSummary, Pruner};
pub use reaper::{ReapSummary, Reaper};

/// Whether a worker also keeps the store in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance {
    /// It takes lost jobs back, promotes due jobs of queues without workers and prunes.
    On,
    /// It leaves that to others.
    Off,
}

/// Items of one store call.
const BATCH_MAX: u32 = 500;
/// Store calls of one round, so that a round ends; the next one goes on.
const CALLS_MAX: u32 = 200;
