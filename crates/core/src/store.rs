//! The contract between the engine and a store.
//!
//! Small traits by part, composed into the object-safe [`Store`]. The clauses that a store must keep are
//! code: `windlass-store-testkit` runs them against any implementation. The rules that hold for all parts:
//!
//! * **Batch first.** Many items in, one answer per item out, in the same order. [`Jobs::enqueue`] is all or
//!   nothing per call, everything else is per item. Items take effect one after the other, so an id that
//!   stands twice in a batch is treated as in two calls. Batches are shared (`Arc<[T]>`): a store that works on a
//!   thread of its own keeps one without a copy, and so does a caller that may have to repeat the call.
//! * **Bounded.** Every call takes a limit or a batch that the caller bounds; none touches an unbounded
//!   number of rows. A limit of 0 finds, moves or hands out nothing.
//! * **Fenced.** A write about an attempt is compare-and-set on state `running` and on the [`Fence`]. A stale
//!   fence is an answer, not an error.
//! * **The store's clock decides.** Callers send durations. Within one call the time is read once. An
//!   instant (due, expiry, end of a lease) has come when it is not after that time. Durations are kept to
//!   the microsecond at least, rounded up as by [`whole_micros`].
//! * **Told, not deciding.** What becomes of an attempt comes as a [`Transition`]; the store only heeds what it
//!   alone may know of: a request to cancel ([`Transition::honoring_cancel`]), and a queue that keeps none of the end
//!   ([`Retention::keeps`]).
//! * **Never half-way.** A call whose future is dropped either takes effect as a whole or not at all.
//! * **Owned batches.** A claim whose caller went away belongs to its lease and is reaped with it, so the
//!   engine runs claims in tasks of their own. One whose answer was lost is found by lease and nonce
//!   ([`Leases::held`]) and given back.
//! * **Read one by one.** A row or record says in which form it was written. What this program cannot read is
//!   answered as such ([`Unreadable`](crate::job::Unreadable)) and harms nothing else: not the call, not its
//!   neighbours, not a sweep. A definition of a queue that does not read counts as the default one, except that
//!   nothing of the queue is removed.
//!
//! ## Order
//!
//! Ready jobs of a queue are claimed by priority (highest first), then by due instant (earliest first), then
//! in the order in which the store accepted them. A job that is put back with [`NextDue::Keep`] keeps its
//! place. Where a queue has an [aging](crate::queue::QueueConfig::aging) the order is another one; see
//! [`Jobs::claim`].
//!
//! ## Expiry
//!
//! A job's expiry counts while it waits and its attempt counter is 0: an attempt that was given back
//! (returned, snoozed) did not start it. An expired job becomes `dead` with reason `expired` and without an
//! attempt record. A retry by hand of a job that had ended removes its expiry.
//!
//! ## Attempts
//!
//! The record of an attempt has the fence number and the attempt counter as the claim left them, the label
//! of the worker, and the instants of claim and settlement. Attempts that ended in any way but completed are
//! stored; one that runs or has completed is read from the job itself. Together at most
//! [`ATTEMPTS_KEPT`](crate::job::ATTEMPTS_KEPT), the newest.
//!
//! ## Rules
//!
//! A definition says the newest [rule](crate::queue::RULES) that it uses. Where this program does not know it, enqueues
//! and definitions are refused, the queue is not removed, and a claim takes nothing there and names it; see
//! [`check_rules`]. What runs may end, and people may look at the queue and change its jobs.
//!
//! ## What stores share
//!
//! Rules that every store would otherwise write again are functions here. A store that must decide inside its
//! server says the same there, and the test kit tells whether it does.
//!
//! | question | answer |
//! |---|---|
//! | is a job under a taken id the same one? | [`Taken::answer`] |
//! | where does a new job begin? may its payload be? | [`NewJob::entry`], [`NewJob::check_payload`] |
//! | may this program use a queue? | [`check_rules`], [`SickQueue::of_rules`] |
//! | what may a claim still take? | [`Room`] |
//! | what is written about an attempt? | [`Transition`] and its methods |
//! | does the end of a job stay? for how long? | [`Retention::keeps`], [`Keep::excess`] |
//! | which attempts does a record show? | [`JobRecord::with_attempts`] |
//! | may a job change so? which rings does that owe? | [`Move`] |
//! | is a job among those to find? where does a page begin? | [`Filter::matches`], [`Cursor::before`] |
//! | what is kept of a worker's label? | [`NewLease::label`] |
//! | may a record be changed? does a page end here? what may be written together? | [`RecordWrite::is_met_by`], [`RecordPage::of`], [`FollowUps::check`] |
//! | who may write an outcome? what may a person ask for? | [`Right`], [`Amendment`], [`Seen::is`] |
//! | what is a change of a job counted as? which rows make up an answer? | [`Move::cell`], [`Gather`] |
//! | how are numbers, times and definitions written? | [`stored`], [`QueueConfig::read`] |
//!
//! [`NewJob::entry`]: crate::NewJob::entry
//! [`RecordWrite::is_met_by`]: crate::record::RecordWrite::is_met_by
//! [`FollowUps::check`]: crate::follow_ups::FollowUps::check
//! [`NewJob::check_payload`]: crate::NewJob::check_payload
//! [`JobRecord::with_attempts`]: crate::JobRecord::with_attempts
//! [`Keep::excess`]: crate::queue::Keep::excess
//! [`Retention::keeps`]: crate::queue::Retention::keeps
//! [`QueueConfig::read`]: crate::queue::QueueConfig::read
//! [`stored`]: crate::stored
//! [`Gather`]: crate::tally::Gather
//! [`check_rules`]: crate::queue::check_rules
//! [`whole_micros`]: crate::clock::whole_micros
//! [`Fence`]: crate::Fence
//! [`Transition`]: crate::Transition
//! [`Transition::honoring_cancel`]: crate::Transition::honoring_cancel
//! [`NextDue::Keep`]: crate::judge::NextDue::Keep

mod checkup;
mod claim;
mod inspect;
mod jobs;
mod leases;
mod maintenance;
mod moves;
mod queues;
mod records;
pub mod serves;
mod tallies;
mod verbs;
mod wakeup;
mod within;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use checkup::{Checkup, Depth, Finding, Level};
pub use claim::{AMPLE, ClaimAnswer, ClaimRequest, QueueShare, Room, SickQueue, is_near};
pub use inspect::{Cursor, EndPlace, Ended, Filter, Inspect, JobPage, PAGE_MAX, SCAN_MAX};
pub use jobs::{Amended, Begin, Enqueued, Jobs, Progress, Seen, Settled, Settlement, Taken};
pub use leases::{LeaseRecord, Leases, NewLease, Renewal, Swept};
pub use maintenance::{Duty, Maintenance, Promotion, Shift};
pub use moves::{Cause, Move, Told};
pub use queues::Queues;
pub use records::{AttemptWrite, AttemptWritten, PAGE_BYTES, RecordPage, RecordTotals, Records, TOTALS_MAX};
pub use tallies::Tallies;
pub use verbs::{Amendment, Right};
pub use wakeup::Wakeup;
pub use within::Within;

use serde::{Deserialize, Serialize};

use crate::error::StoreError;

/// A place where jobs live. `Arc<dyn Store>` is what clients and workers hold.
pub trait Store: Jobs + Leases + Queues + Inspect + Maintenance + Wakeup + Send + Sync + 'static {
    /// What kind of store this is, where, and what "accepted" means in it.
    fn about(&self) -> About;

    /// Whether a call that has begun runs to its end although its caller has gone away. A client then hands in a lone
    /// call itself, instead of through a task of its own.
    fn finishes_calls(&self) -> bool {
        false
    }

    /// The part that writes inside a transaction of its user, for stores that live in an SQL database.
    fn within(&self) -> Option<&dyn Within> {
        None
    }

    /// The part that examines the store itself, for stores with settings of their own.
    fn checkup(&self) -> Option<&dyn Checkup> {
        None
    }

    /// The part that remembers, and writes several things at once.
    fn records(&self) -> Option<&dyn Records> {
        None
    }

    /// The part that counts what happens to jobs, by the minute.
    fn tallies(&self) -> Option<&dyn Tallies> {
        None
    }
}

/// A store that is shared by everyone who needs it.
pub type SharedStore = Arc<dyn Store>;

/// The result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

/// How many due and how many expired jobs a claim moves per queue. A bound on the work of one call, not
/// on a queue: the next call moves the next ones.
pub const PROMOTE_MAX: u32 = 1_000;

/// How long a store remembers a call that it accepted. Callers repeat a call for half of that at most.
pub const CALL_MEMORY: Duration = Duration::from_secs(120);

/// What kind of store this is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct About {
    /// The URL scheme, as `sqlite`.
    pub scheme: &'static str,
    /// Where it is, without secrets.
    pub place: String,
    /// What "accepted" means.
    pub durability: Durability,
    /// Which calls may share a store call.
    pub sharing: Sharing,
}

/// Which single calls of unrelated callers may share a store call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// All: a fault of one queue cannot reach the jobs of another.
    Store,
    /// Those about one queue: the store keeps queues apart, and one of them can fail by itself.
    Queue,
}

/// What an accepted job survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Durability {
    /// Nothing: it lives as long as the process.
    Process,
    /// The death of its clients. It lives as long as the server that keeps it in memory.
    Server,
    /// The death of its clients, and that of the server but for the newest jobs, which it writes with a delay.
    Delayed,
    /// The death of any process. A power cut may take the newest jobs.
    Crash,
    /// A power cut, on a disk that does not lie.
    PowerCut,
}

impl Durability {
    /// The level in a few words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Process => "lost when the process ends",
            Self::Server => "survives its clients, lost when the server ends",
            Self::Delayed => "survives its clients, a crash of the server may take the newest jobs",
            Self::Crash => "survives a crash, a power cut may take the newest jobs",
            Self::PowerCut => "survives a power cut",
        }
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
