//! The part every job goes through. Each verb is one script in one queue; a call about several queues is a call of each.
//! [`enqueue`], [`claim`], [`settle`] and [`amend`] say what goes in and what comes out.

mod amend;
mod begin;
mod claim;
pub(crate) mod enqueue;
mod get;
pub(crate) mod outcomes;
pub(crate) mod packed;
mod progress;
pub(crate) mod settle;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::job::{JobRecord, NewJob};
use windlass_core::store::{
    Amended, Amendment, Begin, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Progress, Right, Seen, Settled,
    Settlement, StoreResult,
};
use windlass_core::{CallId, JobId, Name, State};

use crate::RedisStore;
use crate::connect::Call;

#[async_trait]
impl Jobs for RedisStore {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                enqueue::enqueue(&tools, &session, call, &jobs).await
            })
            .await
    }

    fn seen_in(&self, queue: &Name, ids: &[JobId]) {
        self.remote.tools().queue_cache.note(queue, ids.iter().copied());
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.remote
            .call(Call::WRITE, async move |tools, session| claim::claim(&tools, &session, &request).await)
            .await
    }

    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| begin::begin(&tools, &session, &attempts).await)
            .await
    }

    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.settle_by(Right::Fence, settlements).await
    }

    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.settle_by(Right::Late, settlements).await
    }

    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                progress::progress(&tools, &session, &reports).await
            })
            .await
    }

    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        self.remote.call(Call::READ, async move |tools, session| get::get(&tools, &session, &ids).await).await
    }

    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<State>>> {
        self.remote
            .call(Call::READ, async move |tools, session| get::states(&tools, &session, &ids).await)
            .await
    }

    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.amend(Amendment::Cancel, ids).await
    }

    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.amend(Amendment::Withdraw, ids).await
    }

    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.amend(Amendment::Retry, ids).await
    }

    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.amend(Amendment::Delete, ids).await
    }

    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.amend_seen(Amendment::Retry, jobs).await
    }

    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.amend_seen(Amendment::Delete, jobs).await
    }
}

impl RedisStore {
    pub(crate) async fn settle_by(
        &self,
        right: Right,
        settlements: Arc<[Settlement]>,
    ) -> StoreResult<Vec<Settled>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                settle::settle(&tools, &session, &settlements, right).await
            })
            .await
    }

    async fn amend(&self, amendment: Amendment, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                amend::amend(&tools, &session, amendment, &ids, &HashMap::new()).await
            })
            .await
    }

    async fn amend_seen(&self, amendment: Amendment, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                amend::amend_seen(&tools, &session, amendment, &jobs).await
            })
            .await
    }
}

#[cfg(test)]
mod tests;
