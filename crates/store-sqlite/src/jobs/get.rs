//! Looking jobs up by id, with their attempts.

use rusqlite::Connection;
use windlass_core::JobId;
use windlass_core::job::JobRecord;

use crate::error::Fault;
use crate::row::{self, JobRow};

const GET: &str = include_str!("../../queries/jobs/get.sql");
const ATTEMPTS: &str = include_str!("../../queries/jobs/attempts.sql");

pub(super) fn get(connection: &Connection, ids: &[JobId]) -> Result<Vec<Option<JobRecord>>, Fault> {
    let mut by_id = connection.prepare_cached(GET)?;
    let mut records = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = by_id.query([id.as_bytes()])?;
        let found = rows.next()?.map(JobRow::read).transpose()?;
        drop(rows);
        records.push(found.map(|job| with_attempts(connection, job)).transpose()?);
    }
    Ok(records)
}

fn with_attempts(connection: &Connection, job: JobRow) -> Result<JobRecord, Fault> {
    let mut attempts = Vec::new();
    let mut statement = connection.prepare_cached(ATTEMPTS)?;
    let mut rows = statement.query([job.seq])?;
    while let Some(found) = rows.next()? {
        attempts.push(row::attempt(found)?);
    }
    Ok(job.record.with_attempts(attempts, job.last_claim))
}
