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

use std::time::Duration;

use async_trait::async_trait;
use windlass_core::job::LostJob;
use windlass_core::store::{LeaseRecord, Leases, NewLease, Renewal, Settled, Settlement, StoreResult, Swept};
use windlass_core::{LeaseId, Name};

use crate::RedisStore;
use crate::connect::{Effect, Lane};
use crate::jobs::settle::{self, Right};
pub(crate) use copies::LeaseCopy;
pub(crate) use holders::{Holder, Holders};
pub(crate) use peers::peers;

#[async_trait]
impl Leases for RedisStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        let lease = lease.clone();
        self.call(Lane::Lease, Effect::Write, move |tools, session| async move {
            renew::open(&tools, &session, &lease).await
        })
        .await
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.call(Lane::Lease, Effect::Write, move |tools, session| async move {
            tools.wakeups.refresh_peers();
            renew::renew(&tools, &session, lease, ttl, limit).await
        })
        .await
    }

    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.call(Lane::Lease, Effect::Write, move |tools, session| async move {
            renew::close(&tools, &session, lease).await
        })
        .await
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            look::lost(&tools, &session, limit).await
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
        let queues = queues.to_vec();
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            held::held(&tools, &session, lease, nonce, &queues, limit).await
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
            look::sweep(&tools, &session, limit).await
        })
        .await
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            look::list(&tools, &session, limit).await
        })
        .await
    }
}
