//! The part that tells living workers from dead ones.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreResult;
use super::jobs::{Settled, Settlement};
use super::serves;
use crate::bell::Address;
use crate::clock::Timestamp;
use crate::id::{Fence, JobId, LeaseId};
use crate::job::LostJob;
use crate::name::Name;
use crate::size::label;

/// Leases of worker processes. All attempts of a worker hang on its one lease.
#[async_trait]
pub trait Leases {
    /// Opens a lease under an id that the worker made; it runs out `ttl` from now. A repeat changes nothing,
    /// so an open whose answer was lost can be repeated. A store that keeps the lease beside each queue opens it
    /// where it can, and elsewhere with a later renewal.
    async fn open(&self, lease: &NewLease) -> StoreResult<()>;

    /// Keeps a lease alive for `ttl` from now and tells which of its running jobs are asked to stop, at
    /// most `limit`. A lease that has run out stays so, even if it was not reaped yet.
    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal>;

    /// Ends a lease. Jobs that still hang on it can be reaped at once; without any it is forgotten. One that
    /// is unknown or has run out already stays as it is.
    async fn close(&self, lease: LeaseId) -> StoreResult<()>;

    /// Running jobs whose lease has run out, in any order, at most `limit`. Changes nothing. A job that cannot be
    /// taken back at present, because its row is locked, is left out and hides no other; one that does not read is
    /// answered with what does.
    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>>;

    /// Running jobs of these queues that were handed out under this lease with this nonce, in any order, at most
    /// `limit`. Changes nothing. A worker whose claim was not answered asks for them and gives them back.
    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>>;

    /// Takes lost jobs back: writes each transition as [`Jobs::settle`](super::Jobs::settle) does, if its
    /// fence still holds and its lease has still run out, tested again in the write. A job whose lease lives
    /// answers `Fenced`. An end that the queue keeps none of removes the job, as there.
    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>>;

    /// Forgets leases that have run out and that no job hangs on, at most `limit`.
    async fn sweep(&self, limit: u32) -> StoreResult<Swept>;

    /// The leases, newest first, at most `limit`.
    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>>;
}

/// A lease to open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewLease {
    /// A fresh id: one incarnation of one process.
    pub id: LeaseId,
    /// The worker's label for people; need not be unique. A store keeps what [`NewLease::label`] makes of it.
    pub worker: String,
    /// How long it lives without being renewed.
    pub ttl: Duration,
    /// The queues its worker serves. Claims under the lease name no others: a store that spreads queues over
    /// several servers keeps the lease beside each of them.
    pub queues: Vec<Name>,
    /// The kinds its worker runs, for people to see.
    pub kinds: Vec<Name>,
}

impl NewLease {
    /// The worker's label as stores keep it: any text, within [`LABEL_MAX`](crate::size::LABEL_MAX) bytes and
    /// without NUL.
    pub fn label(&self) -> String {
        label(&self.worker)
    }

    /// What its worker serves, as stores keep it, and where its process hears of work; [`serves::read`] reads it.
    pub fn serves(&self, address: Address) -> String {
        serves::text_at(&self.queues, &self.kinds, address)
    }
}

/// The answer to a renewal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Renewal {
    /// It lives on.
    Renewed {
        /// Running jobs of this lease that are asked to stop.
        cancel: Vec<(JobId, Fence)>,
        /// Queues in which the lease no longer lives, in a store that keeps it beside each of them; none elsewhere.
        lost: Vec<Name>,
    },
    /// It is unknown or has run out.
    Lost,
}

/// What a sweep forgot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Leases that are gone now.
    pub leases: u32,
}

/// A lease as anyone can look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseRecord {
    /// Its id.
    pub id: LeaseId,
    /// The worker's label.
    pub worker: String,
    /// The queues its worker serves.
    pub queues: Vec<Name>,
    /// The kinds its worker runs, the first [`KINDS_KEPT`](serves::KINDS_KEPT).
    pub kinds: Vec<Name>,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// When it runs out unless it is renewed.
    pub expires_at: Timestamp,
    /// Whether it had run out when this was read.
    pub is_lost: bool,
    /// Jobs that hang on it.
    pub running: u64,
}
