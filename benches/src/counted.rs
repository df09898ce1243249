//! A store that counts the calls which jobs cause, and is otherwise the one that it is around.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use windlass::core::bell::Bell;
use windlass::core::clock::Timestamp;
use windlass::core::follow_ups::FollowUps;
use windlass::core::job::LostJob;
use windlass::core::queue::{QueueConfig, QueueRecord, Removed};
use windlass::core::record::{Record, RecordKey};
use windlass::core::store::{
    About, Amended, AttemptWrite, AttemptWritten, Begin, ClaimAnswer, ClaimRequest, Cursor, Duty, EndPlace,
    Ended, Enqueued, Filter, Inspect, JobPage, Jobs, LeaseRecord, Leases, Maintenance, NewLease, Progress,
    Promotion, Queues, RecordPage, RecordTotals, Records, Renewal, Right, Seen, Settled, Settlement,
    SharedStore, Shift, Store, StoreResult, Swept, Wakeup,
};
use windlass::core::{CallId, HolderId, LeaseId, Name, NewJob, StoreError};
use windlass::{JobId, JobRecord, JobState};

/// A store, and how often it was called.
pub(crate) struct Counted {
    inner: SharedStore,
    calls: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counted {
    pub(crate) fn around(inner: SharedStore) -> Arc<Self> {
        Arc::new(Self { inner, calls: Mutex::default() })
    }

    /// Calls of `progress` and of `write_fenced` so far.
    pub(crate) fn writes(&self) -> u64 {
        let calls = self.calls();
        ["progress", "write_fenced"].iter().filter_map(|name| calls.get(name)).sum()
    }

    /// Calls so far, by what they are.
    pub(crate) fn calls(&self) -> BTreeMap<&'static str, u64> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, name: &'static str) {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner).entry(name).or_default() += 1;
    }

    fn records_inside(&self) -> StoreResult<&dyn Records> {
        self.inner.records().ok_or_else(|| StoreError::Address("it keeps no records".into()))
    }
}

#[async_trait]
impl Jobs for Counted {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.count("enqueue");
        self.inner.enqueue_once(call, jobs).await
    }
    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.count("claim");
        self.inner.claim(request).await
    }
    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.count("begin");
        self.inner.begin(attempts).await
    }
    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.count("settle");
        self.inner.settle(settlements).await
    }
    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.inner.settle_late(settlements).await
    }
    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        self.count("progress");
        self.inner.progress(reports).await
    }
    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        self.inner.get(ids).await
    }
    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobState>>> {
        self.inner.states(ids).await
    }
    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.inner.cancel(ids).await
    }
    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.inner.withdraw(ids).await
    }
    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.inner.retry(ids).await
    }
    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.inner.delete(ids).await
    }
    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.count("retry_seen");
        self.inner.retry_seen(jobs).await
    }
    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.inner.delete_seen(jobs).await
    }
}

#[async_trait]
impl Records for Counted {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        self.count("read");
        self.records_inside()?.read(queue, keys).await
    }
    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        self.count("list");
        self.records_inside()?.list(queue, prefix, after, limit).await
    }
    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        self.records_inside()?.totals(queue).await
    }
    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        self.count("write");
        self.records_inside()?.write(call, queue, what).await
    }
    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        self.count("write_fenced");
        self.records_inside()?.write_fenced(right, items).await
    }
}

#[async_trait]
impl Leases for Counted {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        self.inner.open(lease).await
    }
    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.inner.renew(lease, ttl, limit).await
    }
    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.inner.close(lease).await
    }
    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.inner.lost(limit).await
    }
    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.inner.held(lease, nonce, queues, limit).await
    }
    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.inner.reap(settlements).await
    }
    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.inner.sweep(limit).await
    }
    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.inner.leases(limit).await
    }
}

#[async_trait]
impl Queues for Counted {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        self.inner.define(queue, config).await
    }
    async fn redefine(&self, queue: &Name, before: &QueueConfig, config: &QueueConfig) -> StoreResult<bool> {
        self.inner.redefine(queue, before, config).await
    }
    async fn now(&self) -> StoreResult<Timestamp> {
        self.inner.now().await
    }
    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        self.inner.queues(after, limit).await
    }
    async fn remove(&self, queue: &Name) -> StoreResult<Removed> {
        self.inner.remove(queue).await
    }
}

#[async_trait]
impl Inspect for Counted {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        Inspect::list(&*self.inner, filter, after, limit).await
    }
    async fn ended(
        &self,
        queue: &Name,
        state: JobState,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        self.inner.ended(queue, state, after, limit).await
    }
}

#[async_trait]
impl Maintenance for Counted {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.inner.promote(limit).await
    }
    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        self.inner.prune(limit).await
    }
    async fn tidy(&self, limit: u32) -> StoreResult<u32> {
        self.inner.tidy(limit).await
    }
    async fn take_duty(&self, duty: Duty, holder: HolderId, ttl: Duration) -> StoreResult<Shift> {
        self.inner.take_duty(duty, holder, ttl).await
    }
    async fn leave_duty(&self, duty: Duty, holder: HolderId) -> StoreResult<()> {
        self.inner.leave_duty(duty, holder).await
    }
}

impl Wakeup for Counted {
    fn bell(&self) -> &Bell {
        self.inner.bell()
    }
}

impl Store for Counted {
    fn about(&self) -> About {
        self.inner.about()
    }
    fn finishes_calls(&self) -> bool {
        self.inner.finishes_calls()
    }
    fn records(&self) -> Option<&dyn Records> {
        self.inner.records().map(|_| self as _)
    }
}
