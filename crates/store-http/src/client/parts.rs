//! The parts of the contract, each call by its verb.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use windlass_core::bell::Bell;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::LostJob;
use windlass_core::queue::{QueueConfig, QueueRecord, Removed};
use windlass_core::record::{Record, RecordKey};
use windlass_core::store::{
    Amended, AttemptWrite, AttemptWritten, Begin, Checkup, ClaimAnswer, ClaimRequest, Cursor, Depth, Duty,
    EndPlace, Ended, Enqueued, Filter, Finding, Inspect, JobPage, Jobs, LeaseRecord, Leases, Maintenance,
    NewLease, Progress, Promotion, Queues, RecordPage, RecordTotals, Records, Renewal, Right, Seen, Settled,
    Settlement, Shift, StoreResult, Swept, Tallies, Wakeup,
};
use windlass_core::tally::{Row, Window};
use windlass_core::{
    CallId, HolderId, JobId, JobRecord, LeaseId, Name, NewJob, State, StoreError, Timestamp,
};

use super::HttpStore;
use crate::wire::verbs::{self, BeginAttempts, EndedJobs, Enqueue};

#[async_trait]
impl Jobs for HttpStore {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.ask(Enqueue { call, jobs }).await
    }

    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        Ok(self.ask(verbs::Claim { request }).await?.into())
    }

    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.ask(BeginAttempts { attempts }).await
    }

    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.ask(verbs::Settle { settlements }).await
    }

    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.ask(verbs::SettleLate { settlements }).await
    }

    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        self.ask(verbs::Report { reports }).await
    }

    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        let mut jobs = Vec::with_capacity(ids.len());
        // Large jobs come in several answers, each of one at least.
        while jobs.len() < ids.len() {
            let rest = if jobs.is_empty() { Arc::clone(&ids) } else { ids[jobs.len()..].into() };
            let some = self.ask(verbs::Get { ids: rest }).await?.0;
            if some.is_empty() {
                let what = "an answer about jobs is empty".to_owned();
                return Err(StoreError::Internal { what, source: None });
            }
            jobs.extend(some);
        }
        Ok(jobs)
    }

    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<State>>> {
        self.ask(verbs::States { ids }).await
    }

    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.ask(verbs::Cancel { ids }).await
    }

    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.ask(verbs::Withdraw { ids }).await
    }

    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.ask(verbs::Retry { ids }).await
    }

    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.ask(verbs::Delete { ids }).await
    }

    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.ask(verbs::RetrySeen { jobs }).await
    }

    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.ask(verbs::DeleteSeen { jobs }).await
    }
}

#[async_trait]
impl Leases for HttpStore {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        self.ask(verbs::Open { lease: lease.clone() }).await
    }

    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.ask(verbs::Renew { lease, ttl, limit }).await
    }

    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.ask(verbs::Close { lease }).await
    }

    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.ask(verbs::Lost { limit }).await
    }

    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.ask(verbs::Held { lease, nonce, queues, limit }).await
    }

    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.ask(verbs::Reap { settlements }).await
    }

    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.ask(verbs::Sweep { limit }).await
    }

    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.ask(verbs::Leases { limit }).await
    }
}

#[async_trait]
impl Queues for HttpStore {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        // Tested here too, for the error is then the library's own.
        config.check()?;
        self.ask(verbs::Define { queue: queue.clone(), config: Box::new(config.clone()) }).await
    }

    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool> {
        config.check()?;
        let (before, config) = (Box::new(before.clone()), Box::new(config.clone()));
        self.ask(verbs::Redefine { queue: queue.clone(), before, config }).await
    }

    async fn now(&self) -> StoreResult<Timestamp> {
        self.ask(verbs::Now {}).await
    }

    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        let (mut queues, mut after) = (Vec::new(), after.cloned());
        loop {
            let limit = limit.saturating_sub(u32::try_from(queues.len()).unwrap_or(u32::MAX));
            let page = self.ask(verbs::Queues { after, limit }).await?;
            queues.extend(page.queues.0);
            // What this caller may not see was left out, so a page may be short although there are more.
            match page.next {
                Some(next) if limit > 0 => after = Some(next),
                _ => return Ok(queues),
            }
        }
    }

    async fn queue(&self, name: &Name) -> StoreResult<Option<QueueRecord>> {
        Ok(self.ask(verbs::Queue { name: name.clone() }).await?.and_then(|found| found.0.into_iter().next()))
    }

    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        self.ask(verbs::Remove { queue: queue.clone() }).await
    }
}

#[async_trait]
impl Inspect for HttpStore {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        self.ask(verbs::List { filter: filter.clone(), after: after.cloned(), limit }).await
    }

    async fn ended(
        &self,
        queue: &Name,
        state: State,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        self.ask(EndedJobs { queue: queue.clone(), state, after, limit }).await
    }
}

#[async_trait]
impl Maintenance for HttpStore {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.ask(verbs::Promote { limit }).await
    }

    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        self.ask(verbs::Prune { limit }).await
    }

    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        self.ask(verbs::Tidy { limit }).await
    }

    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        self.ask(verbs::TakeDuty { duty, holder, ttl }).await
    }

    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        self.ask(verbs::LeaveDuty { duty, holder }).await
    }
}

#[async_trait]
impl Checkup for HttpStore {
    async fn examine(&self, depth: Depth) -> StoreResult<Vec<Finding>> {
        self.ask(verbs::Examine { depth }).await
    }
}

#[async_trait]
impl Tallies for HttpStore {
    async fn tallies(&self, window: &Window) -> StoreResult<Vec<Row>> {
        window.check()?;
        self.ask(verbs::ReadTallies { window: window.clone() }).await
    }
}

#[async_trait]
impl Records for HttpStore {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        self.ask(verbs::ReadRecords { queue: queue.clone(), keys }).await
    }

    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        let (queue, prefix, after) = (queue.clone(), prefix.to_owned(), after.cloned());
        self.ask(verbs::ListRecords { queue, prefix, after, limit }).await
    }

    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        self.ask(verbs::Totals { queue: queue.clone() }).await
    }

    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        what.check_in(queue)?;
        self.ask(verbs::Write { call, queue: queue.clone(), what }).await
    }

    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        let written = self.ask(verbs::WriteFenced { right, items }).await?;
        Ok(written.into_iter().map(AttemptWritten::from).collect())
    }
}

impl Wakeup for HttpStore {
    fn bell(&self) -> &Bell {
        self.heard_bell()
    }
}
