//! A store that fails on demand, around the real memory store.

#[path = "faulty/records.rs"]
mod records;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use windlass_core::bell::Bell;
use windlass_core::clock::Timestamp;
use windlass_core::job::LostJob;
use windlass_core::queue::{QueueConfig, QueueRecord, Removed};
use windlass_core::store::{
    About, Amended, Begin, ClaimAnswer, ClaimRequest, Cursor, Duty, EndPlace, Ended, Enqueued, Filter,
    Inspect, JobPage, Jobs, LeaseRecord, Leases, Maintenance, NewLease, Progress, Promotion, Queues, Renewal,
    Seen, Settled, Settlement, Sharing, Shift, Store, StoreResult, Swept, Wakeup,
};
use windlass_core::{Bytes, CallId, HolderId, JobId, JobRecord, LeaseId, Name, NewJob, State, StoreError};
use windlass_store_memory::MemoryStore;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Enqueue,
    Claim,
    Settle,
    Progress,
    Open,
    Renew,
    Lost,
    Begin,
    Held,
    SettleLate,
    States,
    Write,
    WriteFenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing happens.
    Unavailable,
    /// It happens, but the answer is lost.
    Unknown,
    /// It does not happen, and the caller is not told.
    Vanished,
    /// It is answered as done and is not: the server lost it.
    Forgotten,
    /// Nothing happens, for a reason that does not pass.
    Internal,
    /// It happens; the answer comes once [`Faulty::release`] says so.
    Late,
    /// It happens, and the answer is lost once all of its jobs are gone.
    Outlived,
    Panic,
}

pub(crate) struct Faulty {
    inner: MemoryStore,
    late: Semaphore,
    faults: Mutex<HashMap<Call, (Fault, u32)>>,
    failed: Mutex<HashMap<Call, u32>>,
    called: Mutex<HashMap<Call, u32>>,
    stuck: Mutex<Vec<JobId>>,
    sharing: Sharing,
    finishes_calls: bool,
    /// What the store says about these queues, whatever it is asked.
    sick: Mutex<HashMap<Name, Fault>>,
    /// So many looks at jobs do not show any.
    hidden: Mutex<u32>,
    /// How many jobs each enqueue and settlement was about, and their bytes.
    sizes: Mutex<Vec<(Call, usize, usize)>>,
    claimed_bytes: Mutex<Vec<usize>>,
    /// Instead of the store's own: it does not ring, and workers take it for one that does.
    silent: Option<Bell>,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Self> {
        Self::with(Sharing::Store)
    }

    /// One that finishes a call whose caller has gone away, so that a lone enqueue passes no lane.
    pub(crate) fn finishing() -> Arc<Self> {
        Arc::new(Self { finishes_calls: true, ..Self::make(Sharing::Store) })
    }

    pub(crate) fn with(sharing: Sharing) -> Arc<Self> {
        Arc::new(Self::make(sharing))
    }

    fn make(sharing: Sharing) -> Self {
        Self {
            inner: MemoryStore::new(),
            late: Semaphore::new(0),
            faults: Mutex::default(),
            failed: Mutex::default(),
            called: Mutex::default(),
            stuck: Mutex::default(),
            sharing,
            finishes_calls: false,
            sick: Mutex::default(),
            hidden: Mutex::default(),
            sizes: Mutex::default(),
            claimed_bytes: Mutex::default(),
            silent: None,
        }
    }

    /// One whose wake-ups are all lost.
    pub(crate) fn silent() -> Arc<Self> {
        Arc::new(Self { silent: Some(Bell::new()), ..Self::make(Sharing::Store) })
    }

    /// Calls about jobs of this queue fail, together with all else that is in them.
    pub(crate) fn sicken(&self, queue: &str, fault: Option<Fault>) {
        let (queue, mut sick) = (Name::new(queue).unwrap(), self.sick.lock().unwrap());
        match fault {
            Some(fault) => sick.insert(queue, fault),
            None => sick.remove(&queue),
        };
    }

    /// The next answer of this kind is lost once the store has no jobs.
    pub(crate) fn lose_until_gone(&self, call: Call) {
        self.fail(call, Fault::Outlived, 1);
    }

    /// The next looks at jobs do not show any.
    pub(crate) fn hide(&self, looks: u32) {
        *self.hidden.lock().unwrap() = looks;
    }

    /// How many jobs each call was about, and their bytes.
    pub(crate) fn sizes(&self, call: Call) -> Vec<(usize, usize)> {
        let sizes = self.sizes.lock().unwrap();
        sizes.iter().filter(|(of, ..)| *of == call).map(|(_, jobs, bytes)| (*jobs, *bytes)).collect()
    }

    fn measure(&self, call: Call, bytes: impl ExactSizeIterator<Item = usize>) {
        self.sizes.lock().unwrap().push((call, bytes.len(), bytes.sum()));
    }

    /// Lets one late answer go.
    pub(crate) fn release(&self) {
        self.late.add_permits(1);
    }

    /// Settling fails as long as one of these jobs is among those to settle.
    pub(crate) fn stick(&self, jobs: impl IntoIterator<Item = JobId>) {
        *self.stuck.lock().unwrap() = jobs.into_iter().collect();
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
        self.fail_as(call, self.fault(call), inner).await
    }

    /// As `around`, for a call about jobs of these queues.
    async fn about<'a, T>(
        &self,
        call: Call,
        mut queues: impl Iterator<Item = &'a Name>,
        inner: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        let sick = queues.find_map(|queue| self.sick.lock().unwrap().get(queue).copied());
        match sick {
            Some(fault) => {
                *self.failed.lock().unwrap().entry(call).or_default() += 1;
                self.fail_as(call, Some(fault), inner).await
            }
            None => self.around(call, inner).await,
        }
    }

    async fn fail_as<T>(
        &self,
        call: Call,
        fault: Option<Fault>,
        inner: impl Future<Output = StoreResult<T>>,
    ) -> StoreResult<T> {
        match fault {
            None => inner.await,
            Some(Fault::Unavailable) => {
                Err(StoreError::Unavailable { what: "switched off".into(), source: None })
            }
            Some(Fault::Unknown) => {
                inner.await?;
                Err(StoreError::Unknown { what: "answer lost".into(), source: None })
            }
            Some(Fault::Forgotten) => unreachable!("only outcomes are forgotten"),
            Some(Fault::Vanished) => Err(StoreError::Unknown { what: "question lost".into(), source: None }),
            Some(Fault::Internal) => Err(StoreError::Internal { what: "a defect".into(), source: None }),
            Some(Fault::Late) => {
                let answer = inner.await;
                self.late.acquire().await.unwrap().forget();
                answer
            }
            Some(Fault::Outlived) => {
                inner.await?;
                while !self.inner.list(&Filter::default(), None, 1).await?.jobs.is_empty() {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Err(StoreError::Unknown { what: "answer lost".into(), source: None })
            }
            Some(Fault::Panic) => panic!("{call:?} panics on demand"),
        }
    }
}

#[async_trait]
impl Jobs for Faulty {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.measure(Call::Enqueue, jobs.iter().map(|job| job.payload.len()));
        let queues = jobs.iter().map(|job| &job.queue);
        self.about(Call::Enqueue, queues, self.inner.enqueue_once(call, Arc::clone(&jobs))).await
    }
    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.claimed_bytes.lock().unwrap().push(request.bytes);
        self.around(Call::Claim, self.inner.claim(request)).await
    }
    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        if settlements.iter().any(|settlement| self.stuck.lock().unwrap().contains(&settlement.id)) {
            return Err(StoreError::Unavailable { what: "a row is locked".to_owned(), source: None });
        }
        if self.faults.lock().unwrap().get(&Call::Settle).is_some_and(|fault| fault.0 == Fault::Forgotten)
            && self.fault(Call::Settle).is_some()
        {
            return Ok(settlements.iter().map(|each| Settled::Applied(each.transition.state)).collect());
        }
        let outputs = settlements.iter().map(|each| each.transition.output.as_ref().map_or(0, Bytes::len));
        self.measure(Call::Settle, outputs);
        let queues = settlements.iter().map(|settlement| &settlement.queue);
        self.about(Call::Settle, queues, self.inner.settle(Arc::clone(&settlements))).await
    }
    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        // Those that are stuck are passed over among others, as where their rows are locked.
        let stuck = if attempts.len() > 1 { self.stuck.lock().unwrap().clone() } else { Vec::new() };
        let free = attempts.iter().filter(|attempt| !stuck.contains(&attempt.id)).cloned().collect();
        let mut told = self.around(Call::Begin, self.inner.begin(free)).await?.into_iter();
        let answer = |attempt: &Begin| {
            if stuck.contains(&attempt.id) { Settled::Fenced } else { told.next().unwrap() }
        };
        Ok(attempts.iter().map(answer).collect())
    }
    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.around(Call::SettleLate, self.inner.settle_late(settlements)).await
    }
    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        let queues = reports.iter().map(|report| &report.queue);
        self.about(Call::Progress, queues, self.inner.progress(Arc::clone(&reports))).await
    }
    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        let is_hidden = {
            let mut hidden = self.hidden.lock().unwrap();
            let is_hidden = *hidden > 0;
            *hidden = hidden.saturating_sub(1);
            is_hidden
        };
        let records = self.inner.get(ids).await?;
        Ok(if is_hidden { records.iter().map(|_| None).collect() } else { records })
    }
    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<State>>> {
        self.around(Call::States, self.inner.states(ids)).await
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
        self.inner.retry_seen(jobs).await
    }
    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.inner.delete_seen(jobs).await
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
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.around(Call::Held, self.inner.held(lease, nonce, queues, limit)).await
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
impl Queues for Faulty {
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
impl Inspect for Faulty {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        self.inner.list(filter, after, limit).await
    }
    async fn ended(
        &self,
        queue: &Name,
        state: State,
        after: EndPlace,
        limit: u32,
    ) -> StoreResult<Vec<Ended>> {
        self.inner.ended(queue, state, after, limit).await
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

impl Wakeup for Faulty {
    fn bell(&self) -> &Bell {
        self.silent.as_ref().unwrap_or_else(|| self.inner.bell())
    }
}

impl Store for Faulty {
    fn about(&self) -> About {
        About { sharing: self.sharing, ..self.inner.about() }
    }
    fn finishes_calls(&self) -> bool {
        self.finishes_calls
    }
    fn records(&self) -> Option<&dyn windlass_core::store::Records> {
        Some(self)
    }
}
