//! Windlass inside your own SQL transaction.
//!
//! `client.enqueue(job).within(&mut tx)` and `ctx.complete_within(&mut tx)` take anything that is a [`Tx`]: a
//! transaction or connection of a driver whose feature is on. This crate runs the store's statements on it and
//! turns the driver's errors and rows into the words of `windlass-core`; which statements those are is the
//! store's business. No other crate has a driver's type in its public signatures.
//!
//! | feature | types | databases |
//! |---|---|---|
//! | `sqlx` | `Transaction`, `PoolConnection` and connections of sqlx 0.9 | with `postgres`, with `sqlite` |
//! | `sqlx-08` | the same of sqlx 0.8 | PostgreSQL |
//! | `tokio-postgres` | `Transaction`, `Client` | PostgreSQL |
//! | `rusqlite` | `Transaction`, `Savepoint`, `Connection` | SQLite |

mod converse;
#[cfg(feature = "rusqlite")]
mod rusqlite;
#[cfg(all(feature = "sqlx", any(feature = "postgres", feature = "sqlite")))]
mod sqlx;
#[cfg(feature = "sqlx-08")]
mod sqlx_08;
#[cfg(feature = "tokio-postgres")]
mod tokio_postgres;
mod versioned;

pub use converse::wait;
pub use versioned::Versioned;
use windlass_core::follow_ups::FollowUps;
use windlass_core::record::{Record, RecordKey};
use windlass_core::sql::line;
use windlass_core::store::{Enqueued, Settled, Settlement, StoreResult, Within};
use windlass_core::{Name, NewJob, Store, StoreError};

/// A transaction, or a connection, of the user's own driver.
///
/// Given a connection that has no transaction open, each call takes effect by itself, at once.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction that Windlass can write in",
    label = "not a transaction or connection of a known driver",
    note = "turn on the feature of its driver: `sqlx` (0.9), `sqlx-08`, `tokio-postgres` or `rusqlite`",
    note = "pooled connections and wrapped transactions are passed as what they point to: `&mut *tx`"
)]
pub trait Tx: converse::Converse {}

impl<T: converse::Converse + ?Sized> Tx for T {}

/// A [`Tx`] of a blocking driver: a call on it never waits for a runtime.
pub trait BlockingTx: Tx + converse::Blocking {}

impl<T: Tx + converse::Blocking + ?Sized> BlockingTx for T {}

/// Enqueues within a transaction; see [`Within::enqueue`].
pub async fn enqueue<T: Tx>(store: &dyn Store, tx: &mut T, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
    let within = part::<T>(store)?;
    let (mut line, operator) = line();
    tx.converse(operator, within.enqueue(&mut line, jobs)).await
}

/// Completes an attempt within a transaction; see [`Within::complete`].
pub async fn complete<T: Tx>(store: &dyn Store, tx: &mut T, settlement: &Settlement) -> StoreResult<Settled> {
    let within = part::<T>(store)?;
    let (mut line, operator) = line();
    let mut is_fenced = false;
    let conversation = async {
        let answer = within.complete(&mut line, settlement).await;
        is_fenced = matches!(answer, Ok(Settled::Fenced));
        answer
    };
    let answer = tx.converse(operator, conversation).await;
    // On a connection without a transaction the end of the conversation is the commit, which a stale fence
    // makes fail.
    if is_fenced { Ok(Settled::Fenced) } else { answer }
}

/// Reads records within a transaction; see [`Within::read_records`].
pub async fn read_records<T: Tx>(
    store: &dyn Store,
    tx: &mut T,
    queue: &Name,
    keys: &[RecordKey],
) -> StoreResult<Vec<Option<Record>>> {
    let within = part::<T>(store)?;
    let (mut line, operator) = line();
    tx.converse(operator, within.read_records(&mut line, queue, keys)).await
}

/// Writes records, and jobs of their queue, within a transaction; see [`Within::write_records`].
pub async fn write_records<T: Tx>(
    store: &dyn Store,
    tx: &mut T,
    queue: &Name,
    what: &FollowUps,
) -> StoreResult<Vec<Enqueued>> {
    what.check_in(queue)?;
    let within = part::<T>(store)?;
    let (mut line, operator) = line();
    tx.converse(operator, within.write_records(&mut line, queue, what)).await
}

/// The store's part for transactions, if it speaks what the transaction speaks.
fn part<T: Tx>(store: &dyn Store) -> StoreResult<&dyn Within> {
    let scheme = store.about().scheme;
    let refused = |what: String| Err(StoreError::Transaction(what));
    match store.within() {
        None => refused(format!(
            "a {scheme} store cannot take part in a transaction: only jobs that live in the same {} database can",
            T::DIALECT.as_str()
        )),
        Some(within) if within.dialect() != T::DIALECT => refused(format!(
            "the transaction is of {} and the jobs are in {}: begin it on the database that the store is in",
            T::DIALECT.as_str(),
            within.dialect().as_str()
        )),
        Some(within) => Ok(within),
    }
}
