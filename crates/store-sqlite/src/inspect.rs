//! Pages of jobs, the newest accepted first. A cursor is the place of the last job that was looked at, so jobs
//! that come, go or change between two pages move no other.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use windlass_core::store::{
    Cursor, EndPlace, Ended, Filter, Inspect, JobPage, PAGE_MAX, SCAN_MAX, StoreResult,
};
use windlass_core::stored::time;
use windlass_core::{Bytes, JobId, Name, State};

use crate::SqliteStore;
use crate::error::Fault;
use crate::row::{self, JobRow};

const SCAN: &str = include_str!("../queries/inspect/scan.sql");
const SCAN_FAILED: &str = include_str!("../queries/inspect/scan_failed.sql");
const SCAN_RUNNING: &str = include_str!("../queries/inspect/scan_running.sql");
const ENDED: &str = include_str!("../queries/inspect/ended.sql");
const RECORD: &str = include_str!("../queries/inspect/record.sql");

/// A page ends early when its payloads, outputs and progress reach this, in bytes.
const PAGE_BYTES: usize = 64 << 20;

#[async_trait]
impl Inspect for SqliteStore {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        let before = after.map(Cursor::number).transpose()?.unwrap_or(i64::MAX);
        let (filter, limit) = (filter.clone(), limit.min(PAGE_MAX) as usize);
        if limit == 0 {
            return Ok(JobPage::default());
        }
        self.read(move |connection, _| page(connection, &filter, before, limit)).await
    }

    async fn ended(
        &self,
        queue: &Name,
        state: State,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        let (queue, limit) = (queue.clone(), limit.min(PAGE_MAX));
        self.read(move |connection, _| ended(connection, &queue, state, after, limit)).await
    }
}

fn ended(
    connection: &Connection,
    queue: &Name,
    state: State,
    EndPlace { at, seq }: EndPlace,
    limit: u32,
) -> Result<Vec<Ended>, Fault> {
    let mut ended = connection.prepare_cached(ENDED)?;
    let mut rows = ended.query(params![queue.as_str(), state.code(), at.as_micros(), seq, limit])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let place = EndPlace { at: time(row.get(1)?), seq: row.get(2)? };
        found.push(Ended { id: JobId::from_bytes(row.get(0)?), place });
    }
    Ok(found)
}

fn page(connection: &Connection, filter: &Filter, mut before: i64, limit: usize) -> Result<JobPage, Fault> {
    let mut page = JobPage::default();
    let mut bytes = 0;
    let mut record = connection.prepare_cached(RECORD)?;
    // What is rare has an index of its own; the rest is looked through.
    let sql = match filter.state {
        Some(State::Dead | State::Cancelled) => SCAN_FAILED,
        Some(State::Running) => SCAN_RUNNING,
        _ => SCAN,
    };
    let mut scan = connection.prepare_cached(sql)?;
    let mut rows = match filter.state {
        Some(state) if sql == SCAN_FAILED => scan.query(params![before, SCAN_MAX + 1, state.code()])?,
        _ => scan.query(params![before, SCAN_MAX + 1])?,
    };
    let mut looked_at = 0;
    while let Some(row) = rows.next()? {
        if page.jobs.len() == limit || looked_at == SCAN_MAX || bytes >= PAGE_BYTES {
            page.next = Some(Cursor::before(before));
            break;
        }
        looked_at += 1;
        before = row.get(0)?;
        if !is_match(filter, row)? {
            continue;
        }
        let mut found = record.query([before])?;
        if let Some(found) = found.next()? {
            let job = JobRow::read(found)?.record;
            let size = |part: &Option<Bytes>| part.as_ref().map_or(0, Bytes::len);
            bytes += job.payload.len() + size(&job.output) + size(&job.progress);
            page.jobs.push(job);
        }
    }
    Ok(page)
}

fn is_match(filter: &Filter, row: &Row<'_>) -> Result<bool, Fault> {
    // What does not read is found only by those who do not ask for it.
    let text = |column: usize| Ok::<_, Fault>(row.get_ref(column)?.as_str().unwrap_or_default());
    let tags = if filter.tag.is_some() { row::readable(row::tags(row, 4))? } else { None };
    let Some(state) = row::readable(row::state(row, 1))? else {
        return Ok(filter.state.is_none() && filter.matches(text(2)?, text(3)?, State::Blocked, &[]));
    };
    Ok(filter.matches(text(2)?, text(3)?, state, &tags.unwrap_or_default()))
}
