//! Completing over a line.

use windlass_core::sql::Value;
use windlass_core::store::{Cause, Settled, Settlement};
use windlass_core::{State, StoreError};

use super::{Failed, UserTx};
use crate::error::Fault;
use crate::jobs::settle::RUNNING;
use crate::moves::{self, Standing};
use crate::row;
use crate::tallies::KindPlace;
use crate::transaction::Transaction;

const FOREIGN_KEYS: &str = include_str!("../../queries/within/foreign_keys.sql");
const MAKE_POISON: &str = include_str!("../../queries/within/make_poison.sql");
const POISON: &str = include_str!("../../queries/within/poison.sql");

pub(super) async fn complete(tx: &mut UserTx<'_>, settlement: &Settlement) -> Result<Settled, Failed> {
    check_foreign_keys(tx).await?;
    let Settlement { queue, id, fence, transition } = settlement;
    if transition.state != State::Completed {
        return Err(Fault::Defect(format!("completing told a job to become {}", transition.state)).into());
    }
    let right = vec![
        Value::Uuid(*id.as_bytes()),
        row::to_stored(fence.number).into(),
        row::to_stored(fence.nonce).into(),
    ];
    let rows = tx.ask(RUNNING, right).await?;
    let Some(found) = rows.first() else { return poison(tx).await };
    let seq = found.int(0)?;
    if found.text(1)? != queue.as_str() {
        return poison(tx).await;
    }
    let definition = tx.definition(queue).await?;
    let config = &definition.config;
    if let Err(error) = transition.check_output(config.caps.output) {
        return Ok(Settled::Refused(error));
    }
    let (has_key, has_gate) = (found.int(9)? == 1, found.int(10)? == 1);
    let mut kind = KindPlace::default();
    tx.note(|moves| kind = moves.tallies.kind(found.text(11).unwrap_or_default()));
    let since = found.optional_int(12)?.map(row::time);
    let job = Standing { seq, queue, state: State::Running, has_key, has_gate, kind, since };
    if config.retention.keeps(transition.state) {
        moves::settle(tx, job, transition, Cause::Settled).await?;
    } else {
        let job = moves::end_unkept(tx, job, transition, Cause::Settled).await?;
        moves::remove(tx, &[job], Cause::NotKept).await?;
    }
    Ok(Settled::Applied(transition.state))
}

/// What keeps a stale attempt from committing is a foreign key, which SQLite tests only where it is told to.
/// It cannot be told inside a transaction.
async fn check_foreign_keys(tx: &mut UserTx<'_>) -> Result<(), Failed> {
    let rows = tx.ask(FOREIGN_KEYS, Vec::new()).await?;
    if rows.first().map(|row| row.int(0)).transpose()? == Some(1) {
        return Ok(());
    }
    let what = "this connection does not test foreign keys, which is how a stale attempt is kept from \
                committing: run `PRAGMA foreign_keys = ON` before the transaction begins";
    Err(StoreError::Transaction(what.to_owned()).into())
}

/// Leaves the transaction open, for it is its owner's to end, but with a broken promise in it: `COMMIT` fails.
/// Rolling it back from here would let later statements of its owner take effect one by one.
async fn poison(tx: &mut UserTx<'_>) -> Result<Settled, Failed> {
    tx.ask(MAKE_POISON, Vec::new()).await?;
    tx.ask(POISON, Vec::new()).await?;
    Ok(Settled::Fenced)
}
