//! The part every job goes through. Each call becomes one operation of the writer; `accept`, [`claim`], [`settle`] and
//! [`amend`] say what it does inside the transaction, and change states by `moves`.

mod amend;
pub(crate) mod calls;
pub(crate) mod claim;
mod get;
pub(crate) mod settle;

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::job::{JobRecord, NewJob};
use windlass_core::store::{
    Amended, Amendment, Begin, ClaimAnswer, ClaimRequest, Enqueued, Jobs, Progress, Right, Seen, Settled,
    Settlement, StoreResult,
};
use windlass_core::{CallId, JobId};

use crate::SqliteStore;
use crate::accept::{self, Capacity};
use crate::error::Fault;
use crate::session::Session;
use crate::transaction::at_once;
use crate::writer::Lane;

#[async_trait]
impl Jobs for SqliteStore {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        let rows = rows(&jobs);
        let accept = move |session: &Session<'_>| accept_call(session, call, &jobs);
        // Refused while the disk is full, as other writes are not.
        self.inner.writer.call(Lane::Intake, rows, accept).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.write(request.limit as usize, move |session| claim::claim(session, &request)).await
    }

    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.write(settlements.len(), move |session| settle::settle(session, &settlements, Right::Fence))
            .await
    }

    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.write(attempts.len(), move |session| settle::begin(session, &attempts)).await
    }

    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.write(settlements.len(), move |session| settle::settle(session, &settlements, Right::Late)).await
    }

    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        self.write(reports.len(), move |session| settle::progress(session, &reports)).await
    }

    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        self.read(move |connection, _| get::get(connection, &ids)).await
    }

    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.write(ids.len(), move |session| amend::cancel(session, &ids, Amendment::Cancel)).await
    }

    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.write(ids.len(), move |session| amend::cancel(session, &ids, Amendment::Withdraw)).await
    }

    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.write(ids.len(), move |session| amend::retry(session, &amend::all(&ids))).await
    }

    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.write(ids.len(), move |session| amend::delete(session, &amend::all(&ids))).await
    }

    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.write(jobs.len(), move |session| amend::retry(session, &amend::seen(&jobs))).await
    }

    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.write(jobs.len(), move |session| amend::delete(session, &amend::seen(&jobs))).await
    }
}

/// About how many rows jobs are: a long payload is as much work as many.
pub(crate) fn rows(jobs: &[NewJob]) -> usize {
    jobs.len() + jobs.iter().map(|job| job.payload.len()).sum::<usize>() / 1_024
}

/// Accepts all jobs of a call or none, unless the call was accepted before.
pub(crate) fn accept_call(
    session: &Session<'_>,
    call: CallId,
    jobs: &[NewJob],
) -> Result<Vec<Enqueued>, Fault> {
    if !calls::remember(session, call)? {
        return Ok(vec![Enqueued::Repeated; jobs.len()]);
    }
    let before = accept::before(session, jobs)?;
    let answers = at_once(accept::accept(&mut session.tx(), jobs, Capacity::Binds));
    match &answers {
        Err(Fault::Refused(_)) => {
            calls::take_back(session, call);
            accept::take_back(session, before, jobs)?;
        }
        // A repeat is tested anew.
        Ok(met) if !met.is_empty() && met.iter().all(Enqueued::is_duplicate) => {
            calls::take_back(session, call);
        }
        _ => {}
    }
    answers
}
