//! Looking jobs up by id, with their attempts.

use bytes::Bytes;
use redis::Value;
use windlass_core::job::JobRecord;
use windlass_core::{JobId, Name, State};

use crate::error::Fault;
use crate::queue_cache::QueueCache;
use crate::row::{Apart, Row, attempt};
use crate::scripts::{GET, STATES};
use crate::session::Session;
use crate::{Tools, answer};

/// How many jobs one script reads: each may have as many attempts as are kept, with 64 KiB of error text, beside payload,
/// output and progress.
const JOBS_MAX: usize = 8;

pub(super) async fn get(
    tools: &Tools,
    session: &Session,
    ids: &[JobId],
) -> Result<Vec<Option<JobRecord>>, Fault> {
    QueueCache::each(tools, session, ids, |queue, ids| async move {
        let mut records = Vec::with_capacity(ids.len());
        for ids in ids.chunks(JOBS_MAX) {
            records.extend(from_queue(tools, session, &queue, ids).await?);
        }
        Ok(records)
    })
    .await
}

async fn from_queue(
    tools: &Tools,
    session: &Session,
    queue: &Name,
    ids: &[JobId],
) -> Result<Vec<Option<JobRecord>>, Fault> {
    let mut arguments = vec![tools.clock()];
    arguments.extend(ids.iter().map(|id| Bytes::copy_from_slice(id.as_bytes())));
    let found = answer::array(session.run(&GET, tools.keys.queue(queue).all(), arguments).await?)?;
    if found.len() != ids.len() {
        return Err(Fault::Corrupt(format!("{} answers about {} jobs", found.len(), ids.len())));
    }
    ids.iter().zip(found).map(|(&id, found)| record(id, queue, answer::array(found)?)).collect()
}

/// The states of jobs, as callers ask that wait for many of them to end.
pub(super) async fn states(
    tools: &Tools,
    session: &Session,
    ids: &[JobId],
) -> Result<Vec<Option<State>>, Fault> {
    QueueCache::each(tools, session, ids, |queue, ids| async move {
        let mut arguments = vec![tools.clock()];
        arguments.extend(ids.iter().map(|id| Bytes::copy_from_slice(id.as_bytes())));
        let said = answer::bytes(session.run(&STATES, tools.keys.queue(&queue).all(), arguments).await?)?;
        if said.len() != ids.len() {
            return Err(Fault::Corrupt(format!("{} answers about {} jobs", said.len(), ids.len())));
        }
        said.iter().map(|&digit| state(digit)).collect()
    })
    .await
}

/// A state by its digit.
fn state(digit: u8) -> Result<Option<State>, Fault> {
    if digit == b'-' {
        return Ok(None);
    }
    let state = digit.checked_sub(b'0').and_then(|code| State::from_code(code.into()));
    state.map(Some).ok_or_else(|| Fault::Corrupt(format!("{digit} is not the digit of a state")))
}

fn record(id: JobId, queue: &Name, found: Vec<Value>) -> Result<Option<JobRecord>, Fault> {
    let mut parts = found.into_iter();
    let Some(record) = parts.next() else { return Ok(None) };
    let mut next = || parts.next().unwrap_or(Value::Nil);
    let row = Row::unpack(answer::bytes(record)?);
    let apart = Apart {
        payload: answer::optional_bytes(next())?,
        output: answer::optional_bytes(next())?,
        progress: answer::optional_bytes(next())?,
    };
    let first = answer::integer(next())?.unsigned_abs();
    let mut attempts = Vec::new();
    for (number, stored) in (first..).zip(parts) {
        let Some(stored) = answer::optional_bytes(stored)? else { continue };
        match attempt::unpack(number, stored) {
            Some(more) => attempts.extend(more),
            // It hides neither the job nor its other attempts.
            None => tracing::warn!(%id, %queue, number, "the record of an attempt does not read"),
        }
    }
    let (record, last) = row.record(id, queue, apart);
    Ok(Some(record.with_attempts(attempts, last)))
}
