//! Random flows for workers that are killed: what their jobs do, and what must have become of every job in the end. A job gives
//! back a number that follows from its place and from what those gave back that it waited for.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass::core::flow::{OnFailure, Role, Status};
use windlass::worker::{Edges, FlowHandle, FlowNode, FlowView};
use windlass::{Client, Ctx, Ending, Job, JobError, JobRecord, JobState, Options, Retry, State};

use crate::producer::claims;
use crate::witness::{Ledger, Witness};

/// What a job does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// It completes.
    Complete,
    /// It dies.
    Die,
    /// It ends itself on purpose.
    Discard,
    /// It fails once, and completes then.
    Stumble,
}

/// A job of a flow.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Knot {
    place: u32,
    act: Act,
    millis: u64,
    /// It comes before all others have ended.
    is_early: bool,
}

impl Job for Knot {
    const KIND: &'static str = "e2e.knot";
    type Output = u64;

    fn options() -> Options {
        // Random kills hit the same job more often than life would.
        Options::new().max_stalls(1_000).retry(Retry::fixed(1_000, Duration::ZERO))
    }
}

/// Handles [`Knot`].
pub async fn knot(job: Knot, ctx: Ctx, State(witness): State<Witness>) -> Result<u64, JobError> {
    witness.start(&ctx);
    let parents = ctx.parents().await?;
    if parents.iter().any(|parent| !parent.status.has_ended()) && !job.is_early {
        return Err(JobError::fail(format!("it runs too early: {parents:?}")));
    }
    tokio::time::sleep(Duration::from_millis(job.millis)).await;
    match job.act {
        Act::Die => return Err(JobError::fail("as told")),
        Act::Discard => return Err(JobError::discard("as told")),
        Act::Stumble if ctx.attempt() == 1 => return Err(JobError::new("as told")),
        Act::Complete | Act::Stumble => {}
    }
    let got: Result<Vec<_>, _> =
        parents.iter().filter_map(|parent| parent.output::<Knot>().transpose()).collect();
    Ok(of_parts(job.place, got?))
}

/// Mixes a number into another, so that neither order nor place can be confused.
fn mix(all: u64, one: u64) -> u64 {
    (all ^ one).wrapping_mul(0x0100_0000_01b3).rotate_left(17)
}

fn of_parts(place: u32, got: impl IntoIterator<Item = u64>) -> u64 {
    got.into_iter().fold(mix(7, u64::from(place)), mix)
}

/// A flow as it was laid out.
#[derive(Debug)]
pub struct Web {
    jobs: Vec<Planned>,
    callbacks: Vec<Role>,
    alive_max: Option<u32>,
}

#[derive(Debug)]
struct Planned {
    queue: String,
    act: Act,
    millis: u64,
    parents: Vec<(u32, OnFailure)>,
}

impl Web {
    /// One of up to so many jobs in these queues.
    pub fn random(seed: u64, jobs: u32, queues: &[&str]) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let policies = [OnFailure::Fail, OnFailure::Run, OnFailure::Skip, OnFailure::CancelRest];
        // One in four may cancel itself: what runs then ends in one of two ways.
        let policies = &policies[..if random.u32(0..4) == 0 { 4 } else { 3 }];
        let jobs = (0..random.u32(5..=jobs)).map(|place| {
            let count = if place == 0 { 0 } else { random.usize(0..4) };
            let mut parents: Vec<u32> = (0..count).map(|_| random.u32(0..place)).collect();
            parents.sort_unstable();
            parents.dedup();
            let mut edge = |parent| (parent, policies[random.usize(..policies.len())]);
            let parents = parents.into_iter().map(&mut edge).collect();
            let act = match random.u32(0..100) {
                0..80 => Act::Complete,
                80..87 => Act::Die,
                87..92 => Act::Discard,
                _ => Act::Stumble,
            };
            let queue = queues[random.usize(..queues.len())].to_owned();
            Planned { queue, act, millis: random.u64(0..60), parents }
        });
        let jobs = jobs.collect();
        let roles = [Role::OnSuccess, Role::OnEnd, Role::OnFirstFailure];
        let callbacks = roles.into_iter().filter(|_| random.bool()).collect();
        Self { jobs, callbacks, alive_max: (random.u32(0..3) == 0).then(|| random.u32(1..6)) }
    }

    /// One job that waits for many, which take about so long.
    pub fn fan_in(children: u32, queues: &[&str], last: &str, millis: u64) -> Self {
        let queue = |child: u32| queues[child as usize % queues.len()].to_owned();
        let child = |child| Planned { queue: queue(child), act: Act::Complete, millis, parents: Vec::new() };
        let mut jobs: Vec<Planned> = (0..children).map(child).collect();
        let parents = (0..children).map(|child| (child, OnFailure::Fail)).collect();
        jobs.push(Planned { queue: last.to_owned(), act: Act::Complete, millis: 0, parents });
        Self { jobs, callbacks: vec![Role::OnEnd], alive_max: None }
    }

    /// How many jobs and callbacks it has.
    pub fn len(&self) -> u64 {
        (self.jobs.len() + self.callbacks.len()) as u64
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores it.
    pub async fn submit(&self, client: &Client) -> windlass::Result<FlowHandle> {
        let mut flow = client.flow("random");
        let mut nodes: Vec<FlowNode<Knot>> = Vec::new();
        for (place, planned) in self.jobs.iter().enumerate() {
            let edge = |(parent, policy): &(u32, OnFailure)| nodes[*parent as usize].on_failure(*policy);
            let after: Vec<Edges> = planned.parents.iter().map(edge).collect();
            let job = Knot { place: place as u32, act: planned.act, millis: planned.millis, is_early: false };
            nodes.push(flow.add_after(after, job.with(Options::new().queue(&planned.queue))));
        }
        if let Some(alive_max) = self.alive_max {
            flow.at_most(alive_max);
        }
        let queue = &self.jobs[self.jobs.len() - 1].queue;
        for (place, role) in self.callbacks.iter().enumerate() {
            let (place, is_early) = ((nodes.len() + place) as u32, *role == Role::OnFirstFailure);
            let job = Knot { place, act: Act::Complete, millis: 0, is_early };
            let job = job.with(Options::new().queue(queue));
            match role {
                Role::OnSuccess => flow.on_success(job),
                Role::OnEnd => flow.on_end(job),
                _ => flow.on_first_failure(job),
            };
        }
        flow.submit().await
    }

    /// Compares what has become of every job with what follows from the ends of others. Answers how many claims were lost.
    pub fn check(&self, view: &FlowView, records: &[JobRecord], ledger: &Ledger) -> u64 {
        let statuses: Vec<Status> = view.nodes.iter().map(|node| plain(node.status)).collect();
        let what = format!("flow {} {statuses:?}", view.id);
        assert!(view.is_over, "{what}");
        let (jobs, callbacks) = statuses.split_at(self.jobs.len());
        let (mut outputs, mut cancels): (Vec<Option<u64>>, bool) = (Vec::new(), false);
        for (place, planned) in self.jobs.iter().enumerate() {
            let (status, (allowed, cancels_rest)) = (jobs[place], planned.allowed(jobs));
            let is_allowed = allowed.contains(&status) || (view.is_cancelled && status == Status::Cancelled);
            assert!(is_allowed, "job {place} is {status:?}, not {allowed:?}: {what}");
            cancels |= cancels_rest && status == Status::Cancelled;
            let got = planned.parents.iter().filter_map(|(parent, _)| outputs[*parent as usize]);
            let output = (status == Status::Completed).then(|| of_parts(place as u32, got));
            assert_eq!(output_of(&records[place]), output, "job {place} of {what}: {:?}", records[place]);
            outputs.push(output);
            planned.check_order(&records[place], records, &what);
        }
        assert_eq!(view.is_cancelled, cancels, "{what}");
        let has_failed = jobs.iter().any(|status| status.is_failure());
        for (place, (role, status)) in self.callbacks.iter().zip(callbacks).enumerate() {
            let is_due = match role {
                Role::OnSuccess => !has_failed,
                Role::OnFirstFailure => has_failed,
                _ => true,
            };
            let wanted = if is_due { Status::Completed } else { Status::Skipped };
            assert_eq!(*status, wanted, "{role:?} of {what}");
            if is_due && *role != Role::OnFirstFailure {
                let place = jobs.len() + place;
                let output = of_parts(place as u32, outputs.iter().copied().flatten());
                assert_eq!(output_of(&records[place]), Some(output), "{role:?} of {what}");
            }
        }
        records.iter().zip(statuses).map(|(record, status)| check_claims(record, status, ledger)).sum()
    }
}

impl Planned {
    /// How it may end, by how those ended that it waits for; and whether it may cancel the rest. Where several of them fail, the
    /// first to fail decides.
    fn allowed(&self, jobs: &[Status]) -> (Vec<Status>, bool) {
        let failed = |policy: OnFailure| {
            self.parents.iter().any(|(parent, on)| *on == policy && jobs[*parent as usize].is_failure())
        };
        let mut allowed = Vec::new();
        allowed.extend(failed(OnFailure::Fail).then_some(Status::Failed));
        allowed.extend(failed(OnFailure::Skip).then_some(Status::Skipped));
        let cancels_rest = failed(OnFailure::CancelRest);
        if allowed.is_empty() && !cancels_rest {
            allowed.push(match self.act {
                Act::Complete | Act::Stumble => Status::Completed,
                Act::Die => Status::Dead,
                Act::Discard => Status::Cancelled,
            });
        }
        (allowed, cancels_rest)
    }

    /// By the clock of the store, which wrote all of it: it was sent after the ends of those that it waited for.
    fn check_order(&self, record: &JobRecord, all: &[JobRecord], what: &str) {
        let parents = self.parents.iter().map(|(parent, _)| &all[*parent as usize]);
        // One that never ran is withdrawn after others are sent.
        for before in parents.filter(|before| before.fence > 0) {
            let is_after = before.finished_at.is_none_or(|ended| ended <= record.due_at);
            assert!(record.fence == 0 || is_after, "{record:?} ran before {before:?} ended: {what}");
        }
    }
}

/// Whether an output is kept makes no difference here.
fn plain(status: Status) -> Status {
    if status == Status::Yielded { Status::Completed } else { status }
}

fn output_of(record: &JobRecord) -> Option<u64> {
    record.output.as_ref().map(|output| serde_json::from_slice(output).expect("a number"))
}

/// The job ended as its flow says, once, and each of its claims has a reason.
fn check_claims(record: &JobRecord, status: Status, ledger: &Ledger) -> u64 {
    let is_same = match status {
        Status::Completed => record.state == JobState::Completed,
        Status::Dead => record.state == JobState::Dead,
        Status::Failed | Status::Skipped => record.state == JobState::Cancelled && record.fence == 0,
        _ => record.state == JobState::Cancelled,
    };
    assert!(is_same, "the flow says {status:?}: {record:?}");
    let done = record.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Completed)).count();
    assert_eq!(done, usize::from(status == Status::Completed), "{record:?}");
    assert_eq!(claims(record), record.fence, "each claim is known: {record:?}");
    assert!(ledger.count(record.id, "start") as u64 <= record.fence, "each start was a claim: {record:?}");
    let lost = record.attempts.iter().filter(|attempt| attempt.ending == Some(Ending::Stalled)).count();
    lost as u64
}
