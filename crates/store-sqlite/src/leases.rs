//! Leases of workers. Renewals go through the urgent lane: a lease must not run out because others have a lot
//! to write.

mod outlive;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use windlass_core::bell::Address;
use windlass_core::clock::Timestamp;
use windlass_core::job::LostJob;
use windlass_core::store::{
    LeaseRecord, Leases, NewLease, Renewal, Right, Settled, Settlement, StoreResult, Swept, serves,
};
use windlass_core::{LeaseId, Name};

use crate::error::Fault;
use crate::jobs::settle;
use crate::session::Session;
use crate::{SqliteStore, row};
pub(crate) use outlive::outlive;

const OPEN: &str = include_str!("../queries/leases/open.sql");
const LIVING: &str = include_str!("../queries/leases/living.sql");
const RENEW: &str = include_str!("../queries/leases/renew.sql");
const CANCELLED: &str = include_str!("../queries/leases/cancelled.sql");
const CLOSE: &str = include_str!("../queries/leases/close.sql");
const CLOSE_IDLE: &str = include_str!("../queries/leases/close_idle.sql");
const IS_LOST: &str = include_str!("../queries/leases/is_lost.sql");
const LOST: &str = include_str!("../queries/leases/lost.sql");
const HELD: &str = include_str!("../queries/leases/held.sql");
const SWEEP: &str = include_str!("../queries/leases/sweep.sql");
const LIST: &str = include_str!("../queries/leases/list.sql");

#[async_trait]
impl Leases for SqliteStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        let lease = lease.clone();
        self.write_urgently(move |session| open(session, &lease)).await
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.write_urgently(move |session| renew(session, lease, ttl, limit)).await
    }

    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.write_urgently(move |session| close(session, lease)).await
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.read_leases(move |connection, now| lost(connection, now, limit)).await
    }

    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.read(move |connection, _| held(connection, lease, nonce, &queues, limit as usize)).await
    }

    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        let rows = settlements.len();
        self.write(rows, move |session| settle::settle(session, &settlements, Right::LostLease)).await
    }

    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.write(limit as usize, move |session| {
            outlive::shorten(session)?;
            let gone = session.prepare(SWEEP)?.execute(params![session.now.as_micros(), limit])?;
            Ok(Swept { leases: gone as u32 })
        })
        .await
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.read_leases(move |connection, now| list(connection, now, limit)).await
    }
}

/// A lease that has not run out.
pub(crate) struct Living {
    pub(crate) key: i64,
    pub(crate) worker: String,
}

pub(crate) fn living(session: &Session<'_>, lease: LeaseId) -> Result<Option<Living>, Fault> {
    let mut statement = session.prepare(LIVING)?;
    let found = statement.query_row(params![lease.as_bytes(), session.now.as_micros()], |row| {
        Ok(Living { key: row.get(0)?, worker: row.get(1)? })
    });
    Ok(found.optional()?)
}

/// Whether the lease under a key has run out or is gone.
pub(crate) fn is_lost(session: &Session<'_>, key: i64) -> Result<bool, Fault> {
    Ok(session.prepare(IS_LOST)?.query_row([key, session.now.as_micros()], |row| row.get(0))?)
}

/// A lease that is there already stays as it is: the call before may have lost its answer.
fn open(session: &Session<'_>, lease: &NewLease) -> Result<(), Fault> {
    session.prepare(OPEN)?.execute(params![
        lease.id.as_bytes(),
        lease.label(),
        lease.serves(Address::Unknown),
        session.now.as_micros(),
        session.now.plus(lease.ttl).as_micros(),
        row::micros(lease.ttl),
    ])?;
    Ok(())
}

fn renew(session: &Session<'_>, lease: LeaseId, ttl: Duration, limit: u32) -> Result<Renewal, Fault> {
    let now = session.now;
    let fields = params![lease.as_bytes(), now.plus(ttl).as_micros(), now.as_micros(), row::micros(ttl)];
    let key: Option<i64> = session.prepare(RENEW)?.query_row(fields, |row| row.get(0)).optional()?;
    let Some(key) = key else { return Ok(Renewal::Lost) };
    let mut statement = session.prepare(CANCELLED)?;
    let mut rows = statement.query(params![key, limit])?;
    let mut cancel = Vec::new();
    while let Some(found) = rows.next()? {
        // A job whose id does not read runs nowhere.
        if let Some(id) = row::readable(row::job_id(found, 0))? {
            cancel.push((id, row::fence(found, 1)?));
        }
    }
    Ok(Renewal::Renewed { cancel, lost: Vec::new() })
}

/// A lease that no job hangs on is forgotten; otherwise it runs out now and the jobs can be reaped.
fn close(session: &Session<'_>, lease: LeaseId) -> Result<(), Fault> {
    let fields = params![lease.as_bytes(), session.now.as_micros()];
    if session.prepare(CLOSE_IDLE)?.execute(fields)? == 0 {
        session.prepare(CLOSE)?.execute(fields)?;
    }
    Ok(())
}

fn lost(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<LostJob>, Fault> {
    let mut statement = connection.prepare_cached(LOST)?;
    let mut rows = statement.query(params![now.as_micros(), limit])?;
    let mut jobs = Vec::new();
    while let Some(found) = rows.next()? {
        jobs.extend(row::lost(found)?);
    }
    Ok(jobs)
}

fn held(
    connection: &Connection,
    lease: LeaseId,
    nonce: u64,
    queues: &[Name],
    limit: usize,
) -> Result<Vec<LostJob>, Fault> {
    let mut statement = connection.prepare_cached(HELD)?;
    let mut rows = statement.query(params![lease.as_bytes(), row::to_stored(nonce)])?;
    let mut jobs = Vec::new();
    while jobs.len() < limit
        && let Some(found) = rows.next()?
    {
        jobs.extend(row::lost(found)?.filter(|job| queues.contains(&job.queue)));
    }
    Ok(jobs)
}

fn list(connection: &Connection, now: Timestamp, limit: u32) -> Result<Vec<LeaseRecord>, Fault> {
    let mut statement = connection.prepare_cached(LIST)?;
    let mut rows = statement.query([limit])?;
    let mut leases = Vec::new();
    while let Some(found) = rows.next()? {
        let Some(id) = row::readable(row::id_bytes(found, 0))? else { continue };
        let expires_at = row::time(found.get(4)?);
        let (queues, kinds) = serves::read(&found.get::<_, String>(2)?);
        leases.push(LeaseRecord {
            id: LeaseId::from_bytes(id),
            worker: found.get(1)?,
            queues,
            kinds,
            opened_at: row::time(found.get(3)?),
            expires_at,
            is_lost: expires_at <= now,
            running: found.get::<_, u32>(5)?.into(),
        });
    }
    Ok(leases)
}
