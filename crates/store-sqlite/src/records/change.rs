//! Tests and changes of records, in whichever transaction.

use windlass_core::clock::Timestamp;
use windlass_core::record::{Change, Expect, RecordWrite, Version};
use windlass_core::sql::SqlError;
use windlass_core::{Name, StoreError};

use super::look::{bits, version};
use crate::error::Fault;
use crate::transaction::{Field, Transaction};

const VERSION: &str = include_str!("../../queries/records/version.sql");
const PUT: &str = include_str!("../../queries/records/put.sql");
const REMOVE: &str = include_str!("../../queries/records/remove.sql");

/// Fails for the first record that is not as expected.
pub(crate) async fn check<T: Transaction>(
    tx: &mut T,
    queue: &Name,
    writes: &[RecordWrite],
) -> Result<(), T::Error> {
    for write in writes.iter().filter(|write| write.expect != Expect::Any) {
        let found = found(tx, queue, write).await?;
        if !write.is_met_by(found) {
            return Err(Fault::Refused(StoreError::Conflict { key: write.key.clone(), found }).into());
        }
    }
    Ok(())
}

/// The version that is there now.
async fn found<T: Transaction>(
    tx: &mut T,
    queue: &Name,
    write: &RecordWrite,
) -> Result<Option<Version>, T::Error> {
    let fields =
        [queue.as_str().into(), Field::Slice(write.key.as_str().as_bytes()), tx.now().as_micros().into()];
    let Some(row) = tx.find(VERSION, &fields).await? else { return Ok(None) };
    let stored = row.int(0).map_err(|error: SqlError| Fault::Corrupt(error.to_string()))?;
    Ok(Some(version(stored)))
}

/// Changes records whose expectations were tested.
pub(crate) async fn change<T: Transaction>(
    tx: &mut T,
    queue: &Name,
    writes: &[RecordWrite],
) -> Result<(), T::Error> {
    let now = tx.now();
    for write in writes {
        let (queue, key) = (queue.as_str().into(), Field::Slice(write.key.as_str().as_bytes()));
        match &write.change {
            Change::Put { version, value, .. } => {
                let expires_at = write.expires_at(now).map(Timestamp::as_micros);
                let fields = [
                    queue,
                    key,
                    bits(*version).into(),
                    now.as_micros().into(),
                    expires_at.into(),
                    Some(value).into(),
                ];
                tx.run(PUT, &fields).await?;
            }
            Change::Remove => tx.run(REMOVE, &[queue, key]).await?,
        }
    }
    Ok(())
}
