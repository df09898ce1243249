//! The part every job goes through. Each verb is a call of one function of the schema; [`enqueue`], [`claim`],
//! [`settle`], [`progress`] and [`amend`] say what goes in and what comes out. An enqueue and a claim may share a call: [`handover`].

mod amend;
pub(crate) mod claim;
pub(crate) mod enqueue;
mod get;
pub(crate) mod handover;
mod progress;
pub(crate) mod settle;

use async_trait::async_trait;
use windlass_core::job::{JobRecord, NewJob};
use windlass_core::store::{
    Amended, Begin, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Progress, Settled, Settlement, StoreResult,
};
use windlass_core::{CallId, JobId, State};

use crate::PostgresStore;
use crate::connect::{Effect, Lane};
use settle::Right;

#[async_trait]
impl Jobs for PostgresStore {
    async fn enqueue_once(&self, call: CallId, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        let jobs = jobs.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            enqueue::enqueue(&tools, &session, call, &jobs).await
        })
        .await
    }

    async fn claim(&self, request: &ClaimRequest) -> StoreResult<ClaimAnswer> {
        let alone = async |enqueuing| {
            let request = request.clone();
            self.call(Lane::Work, Effect::Write, move |tools, session| async move {
                if let Some(enqueuing) = enqueuing {
                    tools.handover.wait_for(enqueuing).await;
                }
                claim::claim(&tools, &session, &request).await
            })
            .await
        };
        self.tools.handover.claim(request, alone).await
    }

    async fn begin(&self, attempts: &[Begin]) -> StoreResult<Vec<Settled>> {
        let attempts = attempts.to_vec();
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            progress::begin(&tools, &session, &attempts).await
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
            settle::settle(&tools, &session, &settlements, Right::Late).await
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

    async fn states(&self, ids: &[JobId]) -> StoreResult<Vec<Option<State>>> {
        let ids = ids.to_vec();
        self.call(Lane::Work, Effect::Read, move |tools, session| async move {
            get::states(&tools, &session, &ids).await
        })
        .await
    }

    async fn cancel(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.amend(amend::Verb::Cancel, ids).await
    }

    async fn retry(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.amend(amend::Verb::Retry, ids).await
    }

    async fn delete(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.amend(amend::Verb::Delete, ids).await
    }
}

impl PostgresStore {
    async fn amend(&self, verb: amend::Verb, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        let ids = ids.to_vec();
        let options = &self.server.shared().options;
        // Less than the whole call may take.
        let wait = options.lock_timeout.min(options.statement_timeout);
        self.call(Lane::Work, Effect::Write, move |tools, session| async move {
            amend::amend(&tools, &session, verb, &ids, wait).await
        })
        .await
    }
}
