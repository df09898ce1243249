//! The part that writes inside its user's own transaction.

use async_trait::async_trait;

use super::{Enqueued, Settled, Settlement, StoreResult};
use crate::follow_ups::FollowUps;
use crate::job::NewJob;
use crate::name::Name;
use crate::record::{Record, RecordKey};
use crate::sql::{Dialect, Line};

/// Enqueueing, completing and remembering over a connection that is not the store's own.
///
/// The user's transaction decides whether anything of it takes effect: the store writes through the
/// [`Line`] and never begins, commits or rolls back there, except as said below. What holds around a call:
///
/// * **PostgreSQL.** The connection may have no transaction open, so everything that a call writes is written
///   by one statement, which takes effect as a whole or not at all. A refused job must not abort the
///   user's transaction: it is answered by rows, not raised.
/// * **SQLite.** The caller puts each conversation into a savepoint and rolls back to it when the answer is an
///   error, so a call may use several statements.
/// * A future that is dropped half-way leaves the user's transaction as it is; the user rolls it back.
/// * An [`SqlError`](crate::sql::SqlError) becomes a [`StoreError`](crate::StoreError) by the store's own table:
///   `Unknown` where the line broke, since a connection without a transaction may have committed.
#[async_trait]
pub trait Within: Send + Sync {
    /// What the line must speak.
    fn dialect(&self) -> Dialect;

    /// As [`Jobs::enqueue`](super::Jobs::enqueue), visible to others when the transaction has been committed.
    ///
    /// The store is not told when that is. It may watch for it in the background and for a bounded time,
    /// and ring the bell for [`Topic::Work`](crate::bell::Topic::Work) when it came; polling finds the rest.
    async fn enqueue(&self, line: &mut Line, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>>;

    /// As [`Jobs::settle`](super::Jobs::settle) of one attempt, whose transition is to `completed`.
    ///
    /// When the answer is [`Settled::Fenced`], the transaction has been made unable to commit: on PostgreSQL
    /// by a statement that raises, on SQLite by a deferred constraint that is broken. It stays open, for it is
    /// its owner's to end: what the owner still writes must not take effect either. An output
    /// above its cap is answered with [`Settled::Refused`] and leaves the transaction as it was. The store may
    /// watch for the commit as after an enqueue, to ring for [`Topic::Finish`](crate::bell::Topic::Finish).
    async fn complete(&self, line: &mut Line, settlement: &Settlement) -> StoreResult<Settled>;

    /// As [`Records::read`](super::Records::read), with what the transaction has written itself.
    async fn read_records(
        &self,
        line: &mut Line,
        queue: &Name,
        keys: &[RecordKey],
    ) -> StoreResult<Vec<Option<Record>>>;

    /// As [`Records::write`](super::Records::write), visible to others when the transaction has been committed. The call is
    /// not remembered. A conflict is answered and leaves the transaction as it was. A record that another open transaction
    /// has written is waited for.
    async fn write_records(
        &self,
        line: &mut Line,
        queue: &Name,
        what: &FollowUps,
    ) -> StoreResult<Vec<Enqueued>>;
}
