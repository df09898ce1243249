//! Looking jobs up by id, with their attempts.

use std::collections::HashMap;

use windlass_core::job::JobRecord;
use windlass_core::{JobId, State};

use crate::error::Fault;
use crate::functions::{GET, STATES};
use crate::row::{self, at};
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

pub(super) async fn states(session: &Session, ids: &[JobId]) -> Result<Vec<Option<State>>, Fault> {
    let wanted: Vec<_> = ids.iter().copied().map(row::uuid).collect();
    let rows = session.call(&STATES, &[&wanted]).await?;
    let mut states = HashMap::with_capacity(rows.len());
    for found in &rows {
        states.insert(row::job_id(found, 0)?, row::state(at(found, 1)?)?);
    }
    Ok(ids.iter().map(|id| states.get(id).copied()).collect())
}
