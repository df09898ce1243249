//! Leases of workers. What keeps one alive goes through a connection of its own: a lease must not run out because
//! others have a lot to do.
//!
//! A lease is kept once beside the jobs of every queue that its worker serves, so that a claim or a reap tests it in the
//! same script that writes. It lives in each of them by itself: where the copy is lost the jobs of that queue are, and
//! nothing else.

mod copies;
mod held;
mod holders;
mod look;
mod peers;
mod renew;
mod served;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::job::LostJob;
use windlass_core::store::{
    LeaseRecord, Leases, NewLease, Renewal, Right, Settled, Settlement, StoreResult, Swept,
};
use windlass_core::{LeaseId, Name};

use crate::RedisStore;
use crate::agenda::Notes;
use crate::connect::Call;
pub(crate) use copies::LeaseCopy;
pub(crate) use holders::{Holder, Holders};
pub(crate) use peers::peers;
pub(crate) use served::Served;

#[async_trait]
impl Leases for RedisStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        let lease = lease.clone();
        self.remote
            .call(Call::LEASE, async move |tools, session| renew::open(&tools, &session, &lease).await)
            .await
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.remote
            .call(Call::LEASE, async move |tools, session| {
                tools.wakeups.refresh_peers();
                let renewed = renew::renew(&tools, &session, lease, ttl, limit);
                tokio::join!(renewed, Notes::flush(&tools, &session)).0
            })
            .await
    }

    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.remote
            .call(Call::LEASE, async move |tools, session| {
                Box::pin(renew::close(&tools, &session, lease)).await
            })
            .await
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.remote
            .call(Call::READ, async move |tools, session| look::lost(&tools, &session, limit).await)
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
            .call(Call::READ, async move |tools, session| {
                held::held(&tools, &session, lease, nonce, &queues, limit).await
            })
            .await
    }

    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.settle_by(Right::LostLease, settlements).await
    }

    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.remote
            .call(Call::WRITE, async move |tools, session| look::sweep(&tools, &session, limit).await)
            .await
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.remote
            .call(Call::READ, async move |tools, session| look::list(&tools, &session, limit).await)
            .await
    }
}
