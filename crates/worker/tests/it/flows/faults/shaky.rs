//! What one process sees of a store that others use as well: its calls fail or lose their answers now and then, and at one of
//! them the process is killed or stopped.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::bell::Bell;
use windlass_core::clock::Timestamp;
use windlass_core::follow_ups::FollowUps;
use windlass_core::job::LostJob;
use windlass_core::queue::{QueueConfig, QueueRecord, Removed};
use windlass_core::record::{Record, RecordKey};
use windlass_core::store::{
    About, Amended, AttemptWrite, AttemptWritten, Begin, ClaimAnswer, ClaimRequest, Cursor, Duty, EndPlace,
    Ended, Enqueued, Filter, Inspect, JobPage, Jobs, LeaseRecord, Leases, Maintenance, NewLease, Progress,
    Promotion, Queues, RecordPage, RecordTotals, Records, Renewal, Right, Seen, Settled, Settlement, Shift,
    Store, StoreResult, Swept, Wakeup,
};
use windlass_core::{CallId, HolderId, JobId, JobRecord, LeaseId, Name, NewJob, State, StoreError};
use windlass_store_memory::MemoryStore;

/// What becomes of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Lives,
    /// This call takes effect, and none is answered from then on.
    Killed(u32),
    /// This call takes effect, and nothing is answered until [`Shaky::resume`].
    Stopped(u32),
    /// It ends jobs, and nothing that it says about flows arrives.
    Mute,
}

/// The store, as a process sees it.
pub(super) struct Shaky {
    inner: Arc<MemoryStore>,
    plan: Mutex<Plan>,
    /// Jobs that attempts have left for other queues than their own, and that are still on their way.
    pub(super) on_the_way: Mutex<Vec<NewJob>>,
    is_held: watch::Sender<bool>,
}

struct Plan {
    random: fastrand::Rng,
    /// How many calls of a thousand fail.
    odds: u32,
    fate: Fate,
    calls: u32,
}

impl Shaky {
    pub(super) fn new(inner: &Arc<MemoryStore>, seed: u64, odds: u32, fate: Fate) -> Arc<Self> {
        let plan = Plan { random: fastrand::Rng::with_seed(seed), odds, fate, calls: 0 };
        Arc::new(Self {
            inner: Arc::clone(inner),
            plan: Mutex::new(plan),
            on_the_way: Mutex::default(),
            is_held: watch::Sender::new(false),
        })
    }

    /// From now on every call is answered.
    pub(super) fn heal(&self) {
        self.plan.lock().unwrap().odds = 0;
    }

    /// Lets a process go on that was stopped.
    pub(super) fn resume(&self) {
        self.plan.lock().unwrap().fate = Fate::Lives;
        self.is_held.send_replace(false);
    }

    /// How many calls were made.
    pub(super) fn calls(&self) -> u32 {
        self.plan.lock().unwrap().calls
    }

    /// Whether the process goes on by itself.
    pub(super) fn is_alive(&self) -> bool {
        !*self.is_held.borrow()
    }

    async fn until_resumed(&self) {
        let mut is_held = self.is_held.subscribe();
        let _never_closed = is_held.wait_for(|is_held| !is_held).await;
    }

    async fn around<T>(&self, inner: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        self.until_resumed().await;
        let (turns, luck, fate, call) = {
            let mut plan = self.plan.lock().unwrap();
            plan.calls += 1;
            let luck = plan.random.u32(0..1_000) < plan.odds;
            let luck = luck.then(|| plan.random.u32(0..3));
            (plan.random.u32(0..4), luck, plan.fate, plan.calls)
        };
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let answer = match luck {
            None => inner.await,
            Some(0) => Err(StoreError::Unavailable { what: "switched off".into(), source: None }),
            Some(1) => Err(StoreError::Unknown { what: "question lost".into(), source: None }),
            Some(_) => {
                inner.await?;
                Err(StoreError::Unknown { what: "answer lost".into(), source: None })
            }
        };
        if let Fate::Killed(at) | Fate::Stopped(at) = fate
            && call >= at
        {
            self.is_held.send_replace(true);
        }
        self.until_resumed().await;
        answer
    }

    /// As `around`, for calls by which flows are moved on.
    async fn moving<T>(&self, inner: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        if self.plan.lock().unwrap().fate == Fate::Mute {
            return Err(StoreError::Unavailable { what: "nothing arrives".into(), source: None });
        }
        self.around(inner).await
    }
}

#[async_trait]
impl Jobs for Shaky {
    async fn enqueue_once(&self, call: CallId, jobs: Arc<[NewJob]>) -> StoreResult<Vec<Enqueued>> {
        self.around(self.inner.enqueue_once(call, jobs)).await
    }
    async fn claim(&self, request: ClaimRequest) -> StoreResult<ClaimAnswer> {
        self.around(self.inner.claim(request)).await
    }
    async fn settle(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.around(self.inner.settle(settlements)).await
    }
    async fn begin(&self, attempts: Arc<[Begin]>) -> StoreResult<Vec<Settled>> {
        self.around(self.inner.begin(attempts)).await
    }
    async fn settle_late(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.around(self.inner.settle_late(settlements)).await
    }
    async fn progress(&self, reports: Arc<[Progress]>) -> StoreResult<Vec<Settled>> {
        self.around(self.inner.progress(reports)).await
    }
    async fn get(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<JobRecord>>> {
        self.around(self.inner.get(ids)).await
    }
    async fn states(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Option<State>>> {
        self.around(self.inner.states(ids)).await
    }
    async fn cancel(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.moving(self.inner.cancel(ids)).await
    }
    async fn withdraw(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.moving(self.inner.withdraw(ids)).await
    }
    async fn retry(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.around(self.inner.retry(ids)).await
    }
    async fn delete(&self, ids: Arc<[JobId]>) -> StoreResult<Vec<Amended>> {
        self.around(self.inner.delete(ids)).await
    }
    async fn retry_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.moving(self.inner.retry_seen(jobs)).await
    }
    async fn delete_seen(&self, jobs: Arc<[Seen]>) -> StoreResult<Vec<Amended>> {
        self.around(self.inner.delete_seen(jobs)).await
    }
}

#[async_trait]
impl Records for Shaky {
    async fn read(&self, queue: &Name, keys: Arc<[RecordKey]>) -> StoreResult<Vec<Option<Record>>> {
        self.around(Records::read(&*self.inner, queue, keys)).await
    }
    async fn list(
        &self,
        queue: &Name,
        prefix: &str,
        after: Option<&RecordKey>,
        limit: u32,
    ) -> StoreResult<RecordPage> {
        self.around(Records::list(&*self.inner, queue, prefix, after, limit)).await
    }
    async fn totals(&self, queue: &Name) -> StoreResult<RecordTotals> {
        self.around(Records::totals(&*self.inner, queue)).await
    }
    async fn write(&self, call: CallId, queue: &Name, what: FollowUps) -> StoreResult<Vec<Enqueued>> {
        self.moving(Records::write(&*self.inner, call, queue, what)).await
    }
    async fn write_fenced(
        &self,
        right: Right,
        items: Arc<[AttemptWrite]>,
    ) -> StoreResult<Vec<AttemptWritten>> {
        let (items, others) = apart(&items);
        let written = self
            .around(async {
                let written = Records::write_fenced(&*self.inner, right, items).await?;
                if written.iter().all(|written| matches!(written, AttemptWritten::Applied(_))) {
                    self.on_the_way.lock().unwrap().extend(others);
                }
                Ok(written)
            })
            .await;
        let on_the_way = std::mem::take(&mut *self.on_the_way.lock().unwrap());
        if !on_the_way.is_empty() {
            self.inner.enqueue(on_the_way.into()).await?;
        }
        written
    }
}

/// Items without their jobs for other queues, and those: stores that keep queues apart deliver them after the write.
fn apart(items: &[AttemptWrite]) -> (Arc<[AttemptWrite]>, Vec<NewJob>) {
    let (mut items, mut others) = (items.to_vec(), Vec::new());
    for item in &mut items {
        let jobs = std::mem::take(&mut item.then.jobs);
        let (own, other) = jobs.into_iter().partition(|job| job.queue == item.queue);
        item.then.jobs = own;
        others.extend::<Vec<NewJob>>(other);
    }
    (items.into(), others)
}

#[async_trait]
impl Leases for Shaky {
    async fn open(&self, lease: &NewLease) -> StoreResult<()> {
        self.around(self.inner.open(lease)).await
    }
    async fn renew(&self, lease: LeaseId, ttl: Duration, limit: u32) -> StoreResult<Renewal> {
        self.around(self.inner.renew(lease, ttl, limit)).await
    }
    async fn close(&self, lease: LeaseId) -> StoreResult<()> {
        self.around(self.inner.close(lease)).await
    }
    async fn lost(&self, limit: u32) -> StoreResult<Vec<LostJob>> {
        self.around(self.inner.lost(limit)).await
    }
    async fn held(
        &self,
        lease: LeaseId,
        nonce: u64,
        queues: Arc<[Name]>,
        limit: u32,
    ) -> StoreResult<Vec<LostJob>> {
        self.around(self.inner.held(lease, nonce, queues, limit)).await
    }
    async fn reap(&self, settlements: Arc<[Settlement]>) -> StoreResult<Vec<Settled>> {
        self.around(self.inner.reap(settlements)).await
    }
    async fn sweep(&self, limit: u32) -> StoreResult<Swept> {
        self.around(self.inner.sweep(limit)).await
    }
    async fn leases(&self, limit: u32) -> StoreResult<Vec<LeaseRecord>> {
        self.around(self.inner.leases(limit)).await
    }
}

#[async_trait]
impl Queues for Shaky {
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
impl Inspect for Shaky {
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage> {
        Inspect::list(&*self.inner, filter, after, limit).await
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
impl Maintenance for Shaky {
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

impl Wakeup for Shaky {
    fn bell(&self) -> &Bell {
        self.inner.bell()
    }
}

impl Store for Shaky {
    fn about(&self) -> About {
        self.inner.about()
    }
    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }
}
