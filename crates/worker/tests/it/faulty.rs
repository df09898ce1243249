//! A store that fails on demand, around the real memory store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use windlass_core::bell::Bell;
use windlass_core::job::LostJob;
use windlass_core::queue::{QueueConfig, QueueRecord};
use windlass_core::store::{
    About, Amended, Begin, ClaimAnswer, ClaimRequest, Cursor, Enqueued, Filter, Inspect, JobPage, Jobs,
    LeaseRecord, Leases, Maintenance, NewLease, Progress, Promotion, Queues, Renewal, Settled, Settlement,
    Store, StoreResult, Swept, Wakeup,
};
use windlass_core::{CallId, JobId, JobRecord, LeaseId, Name, NewJob, StoreError};
use windlass_store_memory::MemoryStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Enqueue,
    Claim,
    Settle,
    Open,
    Renew,
    Lost,
    Begin,
    Held,
    SettleLate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing happens.
    Unavailable,
    /// It happens, but the answer is lost.
    Unknown,
    /// It does not happen, and nobody says so.
    Vanished,
    /// Nothing happens, for a reason that does not pass.
    Internal,
    /// It happens; the answer comes once [`Faulty::release`] says so.
    Late,
    Panic,
}

pub(crate) struct Faulty {
    inner: MemoryStore,
    late: Semaphore,
    faults: Mutex<HashMap<Call, (Fault, u32)>>,
    failed: Mutex<HashMap<Call, u32>>,
    called: Mutex<HashMap<Call, u32>>,
    stuck: Mutex<Option<JobId>>,
    claimed_bytes: Mutex<Vec<usize>>,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            late: Semaphore::new(0),
            faults: Mutex::default(),
            failed: Mutex::default(),
            called: Mutex::default(),
            stuck: Mutex::default(),
            claimed_bytes: Mutex::default(),
        })
    }

    /// Lets one late answer go.
    pub(crate) fn release(&self) {
        self.late.add_permits(1);
    }

    /// Settling fails as long as this job is among those to settle.
    pub(crate) fn stick(&self, job: Option<JobId>) {
        *self.stuck.lock().unwrap() = job;
    }

    /// The next `times` calls fail.
    pub(crate) fn fail(&self, call: Call, fault: Fault, times: u32) {
        self.faults.lock().unwrap().insert(call, (fault, times));
    }

    pub(crate) fn heal(&self) {
        self.faults.lock().unwrap().clear();
    }

    /// How often a call has failed on demand.
    pub(crate) fn failed(&self, call: Call) -> u32 {
        self.failed.lock().unwrap().get(&call).copied().unwrap_or(0)
    }

    /// How many bytes each claim asked for.
    pub(crate) fn claimed_bytes(&self) -> Vec<usize> {
        self.claimed_bytes.lock().unwrap().clone()
    }

    /// How often a call was made.
    pub(crate) fn called(&self, call: Call) -> u32 {
        self.called.lock().unwrap().get(&call).copied().unwrap_or(0)
    }

    fn fault(&self, call: Call) -> Option<Fault> {
        let mut faults = self.faults.lock().unwrap();
        let (fault, left) = faults.get_mut(&call).filter(|(_, left)| *left > 0)?;
        *left -= 1;
        *self.failed.lock().unwrap().entry(call).or_default() += 1;
        Some(*fault)
    }

    async fn around<T>(&self, call: Call, inner: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        *self.called.lock().unwrap().entry(call).or_default() += 1;
        match self.fault(call) {
            None => inner.await,
            Some(Fault::Unavailable) => {
                Err(StoreError::Unavailable { what: "switched off".into(), source: None })
            }
            Some(Fault::Unknown) => {
                inner.await?;
                Err(StoreError::Unknown { what: "answer lost".into(), source: None })
            }
            Some(Fault::Vanished) => Err(StoreError::Unknown { what: "question lost".into(), source: None }),
            Some(Fault::Internal) => Err(StoreError::Internal { what: "a defect".into(), source: None }),
            Some(Fault::Late) => {
                let answer = inner.await;
                self.late.acquire().await.unwrap().forget();
                answer
            }
            Some(Fault::Panic) => panic!("{call:?} panics on demand"),
        }
    }
}

#[async_trait]
impl Jobs for Faulty {
    async fn enqueue_once(&self, call: CallId, jobs: &[NewJob]) -> StoreResult<Vec<Enqueued>> {
        self.around(Call::Enqueue, self.inner.enqueue_once(call, jobs)).await
    }
    async fn claim(&self, request: &ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.claimed_bytes.lock().unwrap().push(request.bytes);
        self.around(Call::Claim, self.inner.claim(request)).await
    }
    async fn settle(&self, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
        if settlements.iter().any(|settlement| Some(settlement.id) == *self.stuck.lock().unwrap()) {
            return Err(StoreError::Unavailable { what: "a row is locked".to_owned(), source: None });
        }
        self.around(Call::Settle, self.inner.settle(settlements)).await
    }
    async fn begin(&self, attempts: &[Begin]) -> StoreResult<Vec<Settled>> {
        self.around(Call::Begin, self.inner.begin(attempts)).await
    }
    async fn settle_late(&self, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
        self.around(Call::SettleLate, self.inner.settle_late(settlements)).await
    }
    async fn progress(&self, reports: &[Progress]) -> StoreResult<Vec<Settled>> {
        self.inner.progress(reports).await
    }
    async fn get(&self, ids: &[JobId]) -> StoreResult<Vec<Option<JobRecord>>> {
        self.inner.get(ids).await
    }
    async fn cancel(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.inner.cancel(ids).await
    }
    async fn retry(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.inner.retry(ids).await
    }
    async fn delete(&self, ids: &[JobId]) -> StoreResult<Vec<Amended>> {
        self.inner.delete(ids).await
    }
}

#[async_trait]
impl Leases for Faulty {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        self.around(Call::Open, self.inner.open(lease)).await
    }
    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.around(Call::Renew, self.inner.renew(lease, ttl, limit)).await
    }
    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.inner.close(lease).await
    }
    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.around(Call::Lost, self.inner.lost(limit)).await
    }
    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: &[Name],
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.around(Call::Held, self.inner.held(lease, nonce, queues, limit)).await
    }
    async fn reap(&self, settlements: &[Settlement]) -> StoreResult<Vec<Settled>> {
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
impl Queues for Faulty {
    async fn define(&self, queue: &Name, config: &QueueConfig) -> StoreResult<()> {
        self.inner.define(queue, config).await
    }
    async fn queues(&self, after: Option<&Name>, limit: u32) -> StoreResult<Vec<QueueRecord>> {
        self.inner.queues(after, limit).await
    }
}

#[async_trait]
impl Inspect for Faulty {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        self.inner.list(filter, after, limit).await
    }
}

#[async_trait]
impl Maintenance for Faulty {
    async fn promote(&self, limit: u32) -> StoreResult<Promotion> {
        self.inner.promote(limit).await
    }
    async fn prune(&self, limit: u32) -> StoreResult<u32> {
        self.inner.prune(limit).await
    }
}

impl Wakeup for Faulty {
    fn bell(&self) -> &Bell {
        self.inner.bell()
    }
}

impl Store for Faulty {
    fn about(&self) -> About {
        self.inner.about()
    }
}
