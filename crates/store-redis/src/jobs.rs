//! The part every job goes through. Each verb is one script in one queue; a call about several queues is a call of each.
//! [`enqueue`], [`claim`], [`settle`] and [`amend`] say what goes in and what comes out.

mod amend;
mod begin;
mod claim;
mod enqueue;
mod get;
pub(crate) mod packed;
mod progress;
pub(crate) mod settle;

use async_trait::async_trait;
use windlass_core::job::{JobRecord, NewJob};
use windlass_core::store::{
    Amended, Begin, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Progress, Settled, Settlement, StoreResult,
};
use windlass_core::{CallId, JobId};

use crate::RedisStore;
use crate::connect::{Effect, Lane};
use amend::Verb;
use settle::Right;

#[async_trait]
impl Jobs for RedisStore {
    async fn enqueue_once(&self, call: CallId, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        let jobs = jobs.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            enqueue::enqueue(&tools, &session, call, &jobs).await
        })
        .await
    }

    async fn claim(&self, request: &ClaimRequest) -> StoreResult<ClaimAnswer> {
        let request = request.clone();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            claim::claim(&tools, &session, &request).await
        })
        .await
    }

    async fn begin(&self, attempts: &[Begin]) -> StoreResult<Vec<Settled>> {
        let attempts = attempts.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            begin::begin(&tools, &session, &attempts).await
        })
        .await
    }

    async fn settle(&self, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
        let settlements = settlements.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            settle::settle(&tools, &session, &settlements, Right::Fence).await
        })
        .await
    }

    async fn settle_late(&self, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
        let settlements = settlements.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            settle::settle(&tools, &session, &settlements, Right::Reaped).await
        })
        .await
    }

    async fn progress(&self, reports: &[Progress]) -> StoreResult<Vec<Settled>> {
        let reports = reports.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            progress::progress(&tools, &session, &reports).await
        })
        .await
    }

    async fn get(&self, ids: &[JobId]) -> StoreResult<Vec<Option<JobRecord>>> {
        let ids = ids.to_vec();
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            get::get(&tools, &session, &ids).await
        })
        .await
    }

    async fn cancel(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.amend(Verb::Cancel, ids).await
    }

    async fn retry(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.amend(Verb::Retry, ids).await
    }

    async fn delete(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.amend(Verb::Delete, ids).await
    }
}

impl RedisStore {
    async fn amend(&self, verb: Verb, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        let ids = ids.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            amend::amend(&tools, &session, verb, &ids).await
        })
        .await
    }
}

#[cfg(test)]
mod tests;
