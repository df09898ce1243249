//! The scene that clauses play on: a fresh store and short words for what most clauses do to it.

use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::job::{ClaimedJob, JobRecord, LostJob, NewJob};
use windlass_core::outcome::Failure;
use windlass_core::retry::{Jitter, Policy};
use windlass_core::store::{
    Amended, Begin, ClaimAnswer, ClaimRequest, Enqueued, Filter, NewLease, QueueShare, Settled, Settlement,
    SharedStore,
};
use windlass_core::{Fence, JobId, LeaseId, Name, Options, Outcome, State, StoreError, judge};

use crate::Harness;

/// The queue of a scene.
pub(crate) const QUEUE: &str = "default";
/// The kind of a scene's jobs.
pub(crate) const KIND: &str = "work";
/// The queues that a scene's leases are opened for; no clause claims from others.
const SERVED: [&str; 7] = [QUEUE, "a", "b", "c", "full", "nowhere", "other"];
/// How often a lease is opened whose answer is lost.
const OPENS_MAX: u32 = 5;
/// How long a scene's leases live.
pub(crate) const TTL: Duration = Duration::from_secs(30);

pub(crate) const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn name(text: &str) -> Name {
    Name::new(text).expect("clauses write proper names")
}

/// A job of the scene's kind. Its retries are far apart and without chance.
pub(crate) fn job(options: Options) -> NewJob {
    let policy = Policy::fixed(5, seconds(10)).jitter(Jitter::None);
    NewJob::new(KIND, "{}", options.over(Options::new().retry(policy))).expect("clauses write proper jobs")
}

pub(crate) fn jobs(count: usize) -> Vec<NewJob> {
    (0..count).map(|_| job(Options::new())).collect()
}

/// A claim of the scene's kind from the scene's queue.
pub(crate) fn request(lease: LeaseId, limit: u32) -> ClaimRequest {
    ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![share(QUEUE, limit)],
        kinds: vec![name(KIND)],
        limit,
        at_once: limit,
        bytes: usize::MAX,
    }
}

pub(crate) fn share(queue: &str, limit: u32) -> QueueShare {
    QueueShare { queue: name(queue), limit }
}

pub(crate) fn ids(jobs: &[ClaimedJob]) -> Vec<JobId> {
    jobs.iter().map(|job| job.id).collect()
}

/// Claims through all of the scenes at once, each again and again under a lease of its own, until nothing is
/// left.
pub(crate) async fn claim_at_once(
    scenes: &[&Scene],
    request: impl Fn(LeaseId) -> ClaimRequest,
) -> Vec<JobId> {
    let mut claims = Vec::new();
    for scene in scenes {
        let (store, request) = (scene.store.clone(), request(scene.lease().await));
        claims.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                match store.claim(request.clone()).await.expect("a claim is answered") {
                    ClaimAnswer::Jobs { jobs, .. } if jobs.is_empty() => return mine,
                    ClaimAnswer::Jobs { jobs, .. } => mine.extend(ids(&jobs)),
                    ClaimAnswer::LeaseLost => panic!("the lease lives"),
                }
            }
        }));
    }
    let mut handed_out = Vec::new();
    for claim in claims {
        handed_out.extend(claim.await.expect("no claim panics"));
    }
    handed_out
}

pub(crate) fn failed() -> Outcome {
    Outcome::Retry { failure: Failure::error("it failed") }
}

pub(crate) fn failed_for_good() -> Outcome {
    Outcome::Fail { failure: Failure::error("never again") }
}

pub(crate) fn completed() -> Outcome {
    Outcome::Completed { output: None }
}

/// The settlement of an attempt by the judge, with even dice.
pub(crate) fn settlement(job: &ClaimedJob, outcome: Outcome) -> Settlement {
    Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, outcome, 0.5),
    }
}

/// The settlement of a lost attempt by the judge.
pub(crate) fn stalled(job: &LostJob) -> Settlement {
    Settlement {
        queue: job.queue.clone(),
        id: job.id,
        fence: job.fence,
        transition: judge(&job.facts, Outcome::Stalled { worker: job.worker.clone() }, 0.5),
    }
}

/// What a reaper writes about a job, by what the store says of it.
pub(crate) fn taken_back(job: &LostJob) -> Settlement {
    Settlement { transition: judge(&job.facts, job.outcome(), 0.5), ..stalled(job) }
}

/// An attempt that has begun.
pub(crate) fn begin(job: &ClaimedJob) -> Begin {
    Begin { queue: job.queue.clone(), id: job.id, fence: job.fence }
}

/// Fences that look like this one and are not.
pub(crate) fn forgeries(fence: Fence) -> [Fence; 4] {
    let Fence { number, nonce } = fence;
    [
        Fence { number: number + 1, nonce },
        Fence { number: number - 1, nonce },
        Fence { number, nonce: nonce ^ 1 },
        Fence { number: 0, nonce: 0 },
    ]
}

/// A fresh store.
pub(crate) struct Scene {
    pub(crate) store: SharedStore,
}

impl Scene {
    pub(crate) async fn new(harness: &impl Harness) -> Self {
        Self { store: harness.fresh().await }
    }

    /// Enqueues a new job with these options.
    pub(crate) async fn add(&self, options: Options) -> JobId {
        self.enqueue(job(options)).await
    }

    /// Enqueues a job that must be new.
    pub(crate) async fn enqueue(&self, job: NewJob) -> JobId {
        let id = job.id;
        let answers = self.store.enqueue([job].into()).await.expect("a proper job is accepted");
        assert_eq!(answers, [Enqueued::New]);
        id
    }

    /// Enqueues so many plain jobs in one call.
    pub(crate) async fn add_many(&self, count: usize) -> Vec<JobId> {
        let jobs = jobs(count);
        let answers = self.store.enqueue(jobs.as_slice().into()).await.expect("proper jobs are accepted");
        assert_eq!(answers, vec![Enqueued::New; count]);
        jobs.iter().map(|job| job.id).collect()
    }

    /// Opens a lease that lives for [`TTL`].
    pub(crate) async fn lease(&self) -> LeaseId {
        let queues = SERVED.map(name).to_vec();
        let lease =
            NewLease { id: LeaseId::new(), worker: "worker".into(), ttl: TTL, queues, kinds: Vec::new() };
        for _ in 0..OPENS_MAX {
            match self.store.open(&lease).await {
                // Too late, on a busy machine: a repeat changes nothing.
                Err(StoreError::Unknown { .. }) => {}
                opened => {
                    opened.expect("a lease opens");
                    return lease.id;
                }
            }
        }
        panic!("a lease opens, but the store does not say so")
    }

    pub(crate) async fn ask(&self, request: &ClaimRequest) -> (Vec<ClaimedJob>, Option<Duration>) {
        let is_served = |share: &QueueShare| SERVED.contains(&share.queue.as_str());
        assert!(
            request.queues.iter().all(is_served),
            "a clause claims from a queue that its lease does not name"
        );
        match self.store.claim(request.clone()).await.expect("a claim is answered") {
            ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited: _, ample: _ } => {
                assert_eq!((unreadable, sick), (Vec::new(), Vec::new()), "all is well");
                (jobs, next_due)
            }
            ClaimAnswer::LeaseLost => panic!("the lease lives, but the claim says that it is lost"),
        }
    }

    /// Claims up to so many jobs of the scene's queue.
    pub(crate) async fn claim(&self, lease: LeaseId, limit: u32) -> Vec<ClaimedJob> {
        self.ask(&request(lease, limit)).await.0
    }

    /// Claims the one job that must be ready.
    pub(crate) async fn claim_one(&self, lease: LeaseId) -> ClaimedJob {
        let jobs = self.claim(lease, 1).await;
        jobs.into_iter().next().expect("a job is ready, but the claim hands out none")
    }

    /// Adds a job and claims it under a lease of its own.
    pub(crate) async fn running(&self, options: Options) -> ClaimedJob {
        let id = self.add(options).await;
        let job = self.claim_one(self.lease().await).await;
        assert_eq!(job.id, id);
        job
    }

    /// Adds a job and brings it to its end.
    pub(crate) async fn finished(&self, options: Options, outcome: Outcome) -> JobId {
        let job = self.running(options).await;
        self.settle(&job, outcome).await;
        assert!(self.state(job.id).await.is_terminal());
        job.id
    }

    /// Notes that an attempt has begun, whose fence must hold.
    pub(crate) async fn begin(&self, job: &ClaimedJob) {
        let answer = one(self.store.begin([begin(job)].into()).await.expect("beginning is answered"));
        assert_eq!(answer, Settled::Applied(State::Running));
    }

    /// The jobs whose lease has run out.
    pub(crate) async fn lost(&self) -> Vec<LostJob> {
        self.store.lost(1_000).await.expect("lost jobs can be read")
    }

    /// Lets the lease of the one job that runs run out, and takes it back as a reaper does.
    pub(crate) async fn reap_one(&self, harness: &impl Harness) -> State {
        harness.advance(TTL).await;
        let lost = one(self.lost().await);
        match one(self.store.reap([taken_back(&lost)].into()).await.expect("reaping is answered")) {
            Settled::Applied(state) => state,
            other => panic!("the lease is lost, but reaping answers {other:?}"),
        }
    }

    /// Settles an attempt whose fence must hold, and answers the state.
    pub(crate) async fn settle(&self, job: &ClaimedJob, outcome: Outcome) -> State {
        match self.settle_raw(settlement(job, outcome)).await {
            Settled::Applied(state) => state,
            other => panic!("the fence holds, but settling answers {other:?}"),
        }
    }

    pub(crate) async fn settle_raw(&self, settlement: Settlement) -> Settled {
        one(self.store.settle([settlement].into()).await.expect("settling is answered"))
    }

    pub(crate) async fn find(&self, id: JobId) -> Option<JobRecord> {
        one(self.store.get([id].into()).await.expect("jobs can be read"))
    }

    pub(crate) async fn get(&self, id: JobId) -> JobRecord {
        self.find(id).await.expect("the job is there")
    }

    pub(crate) async fn state(&self, id: JobId) -> State {
        self.get(id).await.state
    }

    pub(crate) async fn cancel(&self, id: JobId) -> Amended {
        one(self.store.cancel([id].into()).await.expect("cancelling is answered"))
    }

    pub(crate) async fn retry(&self, id: JobId) -> Amended {
        one(self.store.retry([id].into()).await.expect("retrying is answered"))
    }

    pub(crate) async fn delete(&self, id: JobId) -> Amended {
        one(self.store.delete([id].into()).await.expect("deleting is answered"))
    }

    /// All jobs that match, the newest first, read in pages.
    pub(crate) async fn list(&self, filter: &Filter) -> Vec<JobRecord> {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = self.store.list(filter, after.as_ref(), 100).await.expect("jobs can be listed");
            found.extend(page.jobs);
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    }

    pub(crate) async fn count(&self, queue: &str, state: State) -> u64 {
        let queues = self.store.queues(None, 1_000).await.expect("queues can be listed");
        let queue = queues.into_iter().find(|record| record.name.as_str() == queue);
        queue.map_or(0, |record| record.counts.of(state))
    }

    /// Asserts that the counters of every queue say what a list finds.
    pub(crate) async fn assert_counts(&self) {
        let found = self.list(&Filter::default()).await;
        let queues = self.store.queues(None, 1_000).await.expect("queues can be listed");
        for record in &queues {
            for state in State::ALL {
                let listed =
                    found.iter().filter(|job| job.queue == record.name && job.state == state).count();
                let counted = record.counts.of(state);
                assert_eq!(counted, listed as u64, "count of {state} jobs in queue {}", record.name);
            }
        }
        let counted: u64 = queues.iter().map(|record| record.counts.total()).sum();
        assert_eq!(counted, found.len() as u64, "count of all jobs");
    }
}

/// The answer for the one item that was asked about.
pub(crate) fn one<T>(answers: Vec<T>) -> T {
    assert_eq!(answers.len(), 1, "one item, one answer");
    answers.into_iter().next().expect("its length is one")
}

/// Asserts that `later` is this long after `earlier`, or a little more on a clock that runs by itself.
pub(crate) fn assert_after(later: Timestamp, earlier: Timestamp, by: Duration) {
    let distance = later.since(earlier);
    assert!(distance >= by && distance < by + seconds(5), "{distance:?} instead of {by:?}");
}
