//! Leases of workers. What keeps one alive goes through connections of its own: a lease must not run out because
//! others have a lot to do.

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use windlass_core::job::LostJob;
use windlass_core::store::{
    LeaseRecord, Leases, NewLease, Renewal, Settled, Settlement, StoreResult, Swept, serves,
};
use windlass_core::{LeaseId, Name};

use crate::PostgresStore;
use crate::connect::{Effect, Lane};
use crate::functions::{CLOSE, HELD, LEASES, LOST, OPEN, RENEW, SWEEP};
use crate::jobs::settle::{self, Right};
use crate::row::{self, at};

#[async_trait]
impl Leases for PostgresStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        let (id, ttl, worker) = (row::lease_uuid(lease.id), row::micros(lease.ttl), lease.label());
        let serves = lease.serves(self.tools.wakeups.address());
        self.call(Lane::Lease, Effect::Write, move |tools, session| async move {
            tools.statements.run(&session, &OPEN, &[&id, &ttl, &worker, &serves]).await?;
            Ok(())
        })
        .await
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.call(Lane::Lease, Effect::Write, move |tools, session| async move {
            let (id, ttl, limit) = (row::lease_uuid(lease), row::micros(ttl), i64::from(limit));
            let rows = tools.statements.run(&session, &RENEW, &[&id, &ttl, &limit]).await?;
            let Some((_lives, asked)) = rows.split_first() else { return Ok(Renewal::Lost) };
            let mut cancel = Vec::with_capacity(asked.len());
            for found in asked {
                cancel.push((row::job_id(found, 0)?, row::fence(found, 1)?));
            }
            tools.wakeups.refresh_peers();
            Ok(Renewal::Renewed { cancel, lost: Vec::new() })
        })
        .await
    }

    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        // Whatever the schema has become: others get the jobs sooner for it.
        self.call_anyway(Lane::Lease, Effect::Write, move |tools, session| async move {
            tools.statements.run(&session, &CLOSE, &[&row::lease_uuid(lease)]).await?;
            Ok(())
        })
        .await
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            let rows = tools.statements.run(&session, &LOST, &[&i64::from(limit)]).await?;
            rows.iter().map(row::job::lost).collect()
        })
        .await
    }

    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: &[Name],
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        let (id, nonce, limit) = (row::lease_uuid(lease), row::to_stored(nonce), i64::from(limit));
        let queues: Vec<String> = queues.iter().map(|queue| queue.as_str().to_owned()).collect();
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            let rows = tools.statements.run(&session, &HELD, &[&id, &nonce, &queues, &limit]).await?;
            rows.iter().map(row::job::lost).collect()
        })
        .await
    }

    async fn reap(&self, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
        let settlements = settlements.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            settle::settle(&tools, &session, &settlements, Right::LostLease).await
        })
        .await
    }

    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            let row = tools.statements.run_one(&session, &SWEEP, &[&i64::from(limit)]).await?;
            Ok(Swept { leases: at::<i64>(&row, 0)? as u32 })
        })
        .await
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            let rows = tools.statements.run(&session, &LEASES, &[&i64::from(limit)]).await?;
            let lease = |found| {
                let (queues, kinds) = serves::read(at(found, 2)?);
                Ok(LeaseRecord {
                    id: LeaseId::from(at::<Uuid>(found, 0)?),
                    worker: at(found, 1)?,
                    queues,
                    kinds,
                    opened_at: row::time(at(found, 3)?),
                    expires_at: row::time(at(found, 4)?),
                    is_lost: at(found, 5)?,
                    running: row::number(at(found, 6)?),
                })
            };
            rows.iter().map(lease).collect()
        })
        .await
    }
}
