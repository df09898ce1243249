//! The part that counts what happens to jobs.

use async_trait::async_trait;

use super::StoreResult;
use crate::tally::{Row, Window};

/// Counts of what happens to jobs, by queue, kind and minute of the store's clock.
///
/// What is counted, a [`Count`](crate::tally::Count), is counted in the very write in which it happens, once for each job and by
/// no write that has no effect: not by a repeat, not by a refused call, not for a stale fence. So for each queue, whatever has
/// crashed,
///
/// * accepted + sent back − completed − dead − cancelled − deleted is the number of jobs that wait or run, and
/// * started − the ends of attempts is the number of those that run, as long as no attempt that was taken back has ended late:
///   such an end is counted as well.
///
/// A start has a [bucket](crate::tally::Bucket) by the time from the due instant to the claim, the end of an attempt by
/// the time from its claim to that write. Tallies belong to the name of a queue and stay when the queue is removed.
///
/// Rows of each [`Interval`](crate::tally::Interval) are kept for its time. Of a queue and an interval a store keeps at most
/// [`KINDS_MAX`](crate::tally::KINDS_MAX) kinds by name, and which is its choice; the others are counted together. No row says
/// that nothing was counted.
#[async_trait]
pub trait Tallies: Send + Sync {
    /// What was counted in a span of time, by queue, instant and kind. Rows of an hour have one length: the one that is asked for, or
    /// the shortest that is still kept if that is longer. They hold all that was written before the call.
    ///
    /// # Errors
    /// When [more](crate::tally::WINDOWS_MAX) is asked for than is read at once.
    async fn tallies(&self, window: &Window) -> StoreResult<Vec<Row>>;
}
