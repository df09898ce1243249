//! Looking jobs up by id, with their attempts.

use std::collections::HashMap;

use windlass_core::JobId;
use windlass_core::job::JobRecord;

use crate::error::Fault;
use crate::functions::GET;
use crate::row;
use crate::session::Session;

pub(super) async fn get(session: &Session, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>, Fault> {
    let wanted: Vec<_> = ids.iter().copied().map(row::uuid).collect();
    let rows = session.call(&GET, &[&wanted]).await?;
    let mut records = HashMap::with_capacity(rows.len());
    for found in &rows {
        let record = row::job::record(found)?;
        records.insert(record.id, record);
    }
    Ok(ids.iter().map(|id| records.get(id).cloned()).collect())
}
