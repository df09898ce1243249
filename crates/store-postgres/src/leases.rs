//! Leases of workers. What keeps one alive goes through connections of its own: a lease must not run out because
//! others have a lot to do.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use windlass_core::job::LostJob;
use windlass_core::store::{
    LeaseRecord, Leases, NewLease, Renewal, Right, Settled, Settlement, StoreResult, Swept, serves,
};
use windlass_core::{LeaseId, Name};

use crate::PostgresStore;
use crate::connect::Call;
use crate::functions::{CLOSE, HELD, LEASES, LOST, OPEN, RENEW, SWEEP};
use crate::row::{self, at};

#[async_trait]
impl Leases for PostgresStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        let (id, ttl, worker) = (row::lease_uuid(lease.id), row::micros(lease.ttl), lease.label());
        let serves = lease.serves(self.remote.tools().wakeups.address());
        self.remote
            .call(Call::LEASE, async move |_, session| {
                session.call(&OPEN, &[&id, &ttl, &worker, &serves]).await?;
                Ok(())
            })
            .await
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.remote
            .call(Call::LEASE, async move |tools, session| {
                let (id, ttl, limit) = (row::lease_uuid(lease), row::micros(ttl), i64::from(limit));
                let rows = session.call(&RENEW, &[&id, &ttl, &limit]).await?;
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
        self.remote
            .call(Call::LEASE.for_all(), async move |_, session| {
                session.call(&CLOSE, &[&row::lease_uuid(lease)]).await?;
                Ok(())
            })
            .await
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.remote
            .call(Call::READ, async move |_, session| {
                let rows = session.call(&LOST, &[&i64::from(limit)]).await?;
                rows.iter().map(row::job::lost).collect()
            })
            .await
    }

    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.remote
            .call(Call::READ, async move |_, session| {
                let (id, nonce, limit) = (row::lease_uuid(lease), row::to_stored(nonce), i64::from(limit));
                let queues: Vec<_> = queues.iter().map(Name::as_str).collect();
                let rows = session.call(&HELD, &[&id, &nonce, &queues, &limit]).await?;
                rows.iter().map(row::job::lost).collect()
            })
            .await
    }

    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.settle_by(Right::LostLease, settlements).await
    }

    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.remote
            .call(Call::WRITE, async move |_, session| {
                let row = session.call_one(&SWEEP, &[&i64::from(limit)]).await?;
                Ok(Swept { leases: at::<i64>(&row, 0)? as u32 })
            })
            .await
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.remote
            .call(Call::READ, async move |_, session| {
                let rows = session.call(&LEASES, &[&i64::from(limit)]).await?;
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
