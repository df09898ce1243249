//! The part every job goes through. Each verb is a call of one function of the schema; [`enqueue`], [`claim`],
//! [`settle`], [`progress`] and [`amend`] say what goes in and what comes out. An enqueue and a claim may share a call: [`handover`].

mod amend;
pub(crate) mod claim;
pub(crate) mod enqueue;
mod get;
pub(crate) mod handover;
mod progress;
pub(crate) mod settle;
pub(crate) mod unique;

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::job::{JobRecord, NewJob};
use windlass_core::store::{
    Amended, Amendment, Begin, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Progress, Right, Seen, Settled,
    Settlement, StoreResult,
};
use windlass_core::{CallId, JobId, State};

use self::amend::Asked;
use crate::PostgresStore;
use crate::connect::Call;

#[async_trait]
impl Jobs for PostgresStore {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                enqueue::enqueue(&tools, &session, call, &jobs).await
            })
            .await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        let request = Arc::new(request);
        let alone = async |enqueuing| {
            let request = Arc::clone(&request);
            self.remote
                .call(Call::WRITE, async move |tools, session| {
                    if let Some(enqueuing) = enqueuing {
                        tools.handover.wait_for(enqueuing).await;
                    }
                    claim::claim(&tools, &session, &request).await
                })
                .await
        };
        self.remote.tools().handover.claim(&request, alone).await
    }

    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.remote
            .call(Call::WRITE, async move |_, session| progress::begin(&session, &attempts).await)
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
        self.remote.call(Call::READ, async move |_, session| get::get(&session, &ids).await).await
    }

    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<State>>> {
        self.remote.call(Call::READ, async move |_, session| get::states(&session, &ids).await).await
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

impl PostgresStore {
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
                amend::amend(&tools, &session, amendment, &Asked::Any(&ids)).await
            })
            .await
    }

    async fn amend_seen(&self, amendment: Amendment, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.remote
            .call(Call::WRITE, async move |tools, session| {
                amend::amend(&tools, &session, amendment, &Asked::Seen(&jobs)).await
            })
            .await
    }
}
