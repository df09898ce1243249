//! Random flows: what their jobs do, what they check while they run, and what must have become of every job in the end.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::flow::{OnFailure, Role, Status};
use windlass_core::outcome::Ending;
use windlass_core::retry::{Jitter, Policy};
use windlass_core::{JobId, Options, State as JobState};
use windlass_worker::{Client, Ctx, Edges, FlowHandle, FlowNode, FlowView, Job, JobError, State};

pub(super) const QUEUES: [&str; 2] = ["default", "other"];

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Act {
    Complete,
    Die,
    Discard,
    /// Fails once.
    Stumble,
}

/// A job of a random flow. It gives back a number that follows from its place and from what it got.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Knot {
    place: u32,
    act: Act,
    parents: Vec<JobId>,
}

impl Job for Knot {
    const KIND: &'static str = "knot";
    type Output = u64;

    fn options() -> Options {
        // Faults hit the same job more often than life would.
        Options::new().max_stalls(1_000).retry(Policy::fixed(1_000, Duration::ZERO).jitter(Jitter::None))
    }
}

/// A flow that was laid out, and what its jobs have seen.
#[derive(Clone)]
pub(super) struct Web {
    /// Sees the store as it is.
    raw: Client,
    inner: Arc<Inner>,
}

struct Inner {
    jobs: Vec<Planned>,
    callbacks: Vec<Role>,
    alive_max: Option<u32>,
    /// A person has asked for its end.
    is_unwanted: AtomicBool,
    /// What must never be, and was: a panic in a job would only be tried again.
    wrongs: Mutex<Vec<String>>,
    starts: Mutex<BTreeMap<u32, u32>>,
    outputs: Mutex<BTreeMap<u32, u64>>,
}

struct Planned {
    queue: &'static str,
    act: Act,
    parents: Vec<(u32, OnFailure)>,
}

/// Mixes a number into another, so that neither order nor place can be confused.
fn mix(all: u64, one: u64) -> u64 {
    (all ^ one).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

fn of_parts(place: u32, got: impl Iterator<Item = u64>) -> u64 {
    got.fold(mix(7, u64::from(place)), mix)
}

impl Web {
    pub(super) fn new(raw: Client, seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let queues = random.usize(1..3);
        let policies = [OnFailure::Fail, OnFailure::Run, OnFailure::Skip, OnFailure::CancelRest];
        // One in four may cancel itself: what runs then ends in one of two ways.
        let policies = &policies[..if random.u32(0..4) == 0 { 4 } else { 3 }];
        let jobs = (0..random.u32(5..51)).map(|place| {
            let count = if place == 0 { 0 } else { random.usize(0..4) };
            let mut parents: Vec<u32> = (0..count).map(|_| random.u32(0..place)).collect();
            parents.sort_unstable();
            parents.dedup();
            let parents =
                parents.into_iter().map(|parent| (parent, policies[random.usize(..policies.len())]));
            let parents = parents.collect();
            let act = match random.u32(0..100) {
                0..75 => Act::Complete,
                75..85 => Act::Die,
                85..90 => Act::Discard,
                _ => Act::Stumble,
            };
            Planned { queue: QUEUES[random.usize(..queues)], act, parents }
        });
        let jobs = jobs.collect();
        let callbacks = [Role::OnSuccess, Role::OnEnd, Role::OnFirstFailure];
        let callbacks = callbacks.into_iter().filter(|_| random.bool()).collect();
        let alive_max = (random.u32(0..3) == 0).then(|| random.u32(1..5));
        let (is_unwanted, wrongs, starts, outputs) = Default::default();
        let inner = Inner { jobs, callbacks, alive_max, is_unwanted, wrongs, starts, outputs };
        Self { raw, inner: Arc::new(inner) }
    }

    /// Stores the flow by this client.
    pub(super) async fn submit(&self, client: &Client) -> windlass_worker::Result<FlowHandle> {
        let mut flow = client.flow("random");
        let mut nodes: Vec<FlowNode<Knot>> = Vec::new();
        for (place, planned) in self.inner.jobs.iter().enumerate() {
            let edge = |(parent, policy): &(u32, OnFailure)| nodes[*parent as usize].on_failure(*policy);
            let after: Vec<Edges> = planned.parents.iter().map(edge).collect();
            let parents = planned.parents.iter().map(|(parent, _)| nodes[*parent as usize].id()).collect();
            let job = Knot { place: place as u32, act: planned.act, parents };
            nodes.push(flow.add_after(after, job.with(Options::new().queue(planned.queue))));
        }
        if let Some(alive_max) = self.inner.alive_max {
            flow.at_most(alive_max);
        }
        let all: Vec<JobId> = nodes.iter().map(FlowNode::id).collect();
        for (place, role) in self.inner.callbacks.iter().enumerate() {
            let place = (nodes.len() + place) as u32;
            // Not all have ended when the first one fails.
            let parents = if *role == Role::OnFirstFailure { Vec::new() } else { all.clone() };
            let job = Knot { place, act: Act::Complete, parents };
            match role {
                Role::OnSuccess => flow.on_success(job),
                Role::OnEnd => flow.on_end(job),
                _ => flow.on_first_failure(job),
            };
        }
        flow.submit().await
    }

    /// Cancels the flow by this client, which may die meanwhile.
    pub(super) async fn cancel(&self, client: &Client, flow: &FlowHandle) {
        self.inner.is_unwanted.store(true, Ordering::SeqCst);
        let flow = client.flow_handle(flow.home(), flow.id()).unwrap();
        let _may_fail = tokio::time::timeout(Duration::from_secs(60), flow.cancel()).await;
    }

    /// What holds whenever a job runs.
    async fn enter(&self, job: &Knot, ctx: &Ctx) {
        let flow = ctx.flow().unwrap();
        let view = self.raw.flow_handle(flow.home(), flow.id()).unwrap().view().await.unwrap();
        let mut wrongs = Vec::new();
        if self.inner.alive_max.is_some_and(|alive| view.tally.open > alive) {
            wrongs.push(format!("too many are alive: {:?}", view.tally));
        }
        let parents = self.raw.store().states(job.parents.as_slice().into()).await.unwrap();
        for (id, state) in job.parents.iter().zip(parents) {
            let status = view.nodes.iter().find(|node| node.id == *id).unwrap().status;
            // One that never runs is withdrawn after others are sent.
            let has_ended = state.is_none_or(|state| state.is_terminal() || state == JobState::Blocked);
            if !has_ended || !status.has_ended() {
                wrongs
                    .push(format!("job {} runs too early: one before it is {state:?} {status:?}", job.place));
            }
        }
        self.inner.wrongs.lock().unwrap().extend(wrongs);
        *self.inner.starts.lock().unwrap().entry(job.place).or_default() += 1;
    }

    /// Whether any of its jobs has run.
    pub(super) fn has_begun(&self) -> bool {
        !self.inner.starts.lock().unwrap().is_empty()
    }

    fn starts(&self, place: usize) -> u32 {
        self.inner.starts.lock().unwrap().get(&(place as u32)).copied().unwrap_or(0)
    }

    /// Compares what has become of every job with what follows from the ends of others.
    pub(super) async fn check(&self, view: &FlowView) {
        assert_eq!(*self.inner.wrongs.lock().unwrap(), [""; 0]);
        let statuses: Vec<Status> = view.nodes.iter().map(|node| node.status).collect();
        let (jobs, callbacks) = statuses.split_at(self.inner.jobs.len());
        let mut cancels = false;
        for (place, planned) in self.inner.jobs.iter().enumerate() {
            let (allowed, cancels_rest) = allowed(planned, jobs);
            let is_allowed = allowed.contains(&plain(jobs[place]))
                || (view.is_cancelled && jobs[place] == Status::Cancelled);
            assert!(is_allowed, "job {place} is {:?}, not {allowed:?}: {statuses:?}", jobs[place]);
            cancels |= cancels_rest && jobs[place] == Status::Cancelled;
            let has_run = self.starts(place) > 0;
            let must_run = matches!(plain(jobs[place]), Status::Completed | Status::Dead);
            let may_run = must_run || jobs[place] == Status::Cancelled;
            assert!(has_run || !must_run, "job {place} ended and did not run");
            assert!(may_run || !has_run, "job {place} ran and is {:?}", jobs[place]);
        }
        let is_unwanted = self.inner.is_unwanted.load(Ordering::SeqCst);
        assert!(is_unwanted || view.is_cancelled == cancels, "{statuses:?}");
        let has_failed = jobs.iter().any(|status| status.is_failure());
        for (place, (role, status)) in self.inner.callbacks.iter().zip(callbacks).enumerate() {
            let is_due = match role {
                Role::OnSuccess => !has_failed,
                Role::OnFirstFailure => has_failed,
                _ => true,
            };
            let wanted = if is_due { Status::Completed } else { Status::Skipped };
            assert_eq!(*status, wanted, "{role:?}");
            assert_eq!(self.starts(jobs.len() + place) > 0, is_due, "{role:?}");
        }
        self.check_outputs(view);
        self.check_store(view).await;
    }

    fn check_outputs(&self, view: &FlowView) {
        let outputs = self.inner.outputs.lock().unwrap();
        let mut wanted: Vec<Option<u64>> = Vec::new();
        for (place, planned) in self.inner.jobs.iter().enumerate() {
            let got = planned.parents.iter().filter_map(|(parent, _)| wanted[*parent as usize]);
            let is_done = plain(view.nodes[place].status) == Status::Completed;
            let output = is_done.then(|| of_parts(place as u32, got));
            assert!(!is_done || outputs.get(&(place as u32)).copied() == output, "the output of job {place}");
            wanted.push(output);
        }
        for (place, role) in self.inner.callbacks.iter().enumerate() {
            let place = (self.inner.jobs.len() + place) as u32;
            let is_late = *role != Role::OnFirstFailure && self.starts(place as usize) > 0;
            let output = of_parts(place, wanted.iter().copied().flatten());
            assert!(!is_late || outputs[&place] == output, "{role:?} did not get all outputs");
        }
    }

    /// Nothing is left open, and no job was done twice.
    async fn check_store(&self, view: &FlowView) {
        for queue in QUEUES {
            let open = self.raw.queue(queue).unwrap().counts().await.unwrap().open();
            assert_eq!(open, 0, "jobs are left in {queue}");
            let records = self.raw.records(queue).unwrap();
            let notes = records.list("flow-end/", None, 9).await.unwrap().records;
            assert!(notes.is_empty(), "notes are left in {queue}: {notes:?}");
            let outputs = records.list("flow-out/", None, 9).await.unwrap().records;
            assert!(outputs.is_empty() || !view.tally.is_success(), "outputs are left in {queue}");
            assert_eq!(records.list("flow/", None, 9).await.unwrap().records, [], "it is over");
        }
        for (place, node) in view.nodes.iter().enumerate() {
            let Some(job) = self.raw.job(node.id).await.unwrap() else { continue };
            assert!(u64::from(self.starts(place)) <= job.fence, "each start was a claim: {job:?}");
            assert_eq!(job.attempts.len() as u64, job.fence, "each claim is explained: {job:?}");
            let done =
                job.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Completed)).count();
            assert_eq!(done, usize::from(plain(node.status) == Status::Completed), "{job:?}");
            let state = Status::of_end(job.state).expect("it has ended");
            let is_same = state == plain(node.status)
                || (state == Status::Cancelled && matches!(node.status, Status::Failed | Status::Skipped));
            assert!(is_same, "the flow says {:?}: {job:?}", node.status);
        }
    }
}

/// Whether an output is kept makes no difference here.
fn plain(status: Status) -> Status {
    if status == Status::Yielded { Status::Completed } else { status }
}

/// How a job may end, by how those ended that it waits for; and whether it may cancel the rest. Where several of them fail, the
/// first to fail decides.
fn allowed(planned: &Planned, jobs: &[Status]) -> (Vec<Status>, bool) {
    let failed = |policy: OnFailure| {
        planned.parents.iter().any(|(parent, on)| *on == policy && jobs[*parent as usize].is_failure())
    };
    let mut allowed = Vec::new();
    allowed.extend(failed(OnFailure::Fail).then_some(Status::Failed));
    allowed.extend(failed(OnFailure::Skip).then_some(Status::Skipped));
    let cancels_rest = failed(OnFailure::CancelRest);
    if allowed.is_empty() && !cancels_rest {
        allowed.push(match planned.act {
            Act::Complete | Act::Stumble => Status::Completed,
            Act::Die => Status::Dead,
            Act::Discard => Status::Cancelled,
        });
    }
    (allowed, cancels_rest)
}

pub(super) async fn run(job: Knot, ctx: Ctx, State(web): State<Web>) -> Result<u64, JobError> {
    web.enter(&job, &ctx).await;
    match job.act {
        Act::Die => return Err(JobError::fail("as told")),
        Act::Discard => return Err(JobError::discard("as told")),
        Act::Stumble if ctx.attempt() == 1 => return Err(JobError::new("as told")),
        Act::Complete | Act::Stumble => {}
    }
    let got = ctx.outputs::<Knot>().await?;
    let output = of_parts(job.place, got.into_iter());
    web.inner.outputs.lock().unwrap().insert(job.place, output);
    Ok(output)
}
