//! What follow-ups and records cost: the end of an attempt with one job beside the same in two calls, checkpoints of many
//! attempts at once beside their progress, and what attempts say of themselves.

mod sayings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use windlass::core::follow_ups::FollowUps;
use windlass::core::job::{ClaimedJob, NewJob};
use windlass::core::record::{RecordKey, RecordWrite};
use windlass::core::store::{
    AttemptWrite, AttemptWritten, ClaimAnswer, ClaimRequest, NewLease, Progress, QueueShare, Right, Settled,
    Settlement, SharedStore,
};
use windlass::core::{Bytes, Fence, LeaseId, Name, judge};
use windlass::worker::Job as _;
use windlass::{Client, JobState, Options, Outcome};

use crate::ours::{self, Nothing};
use crate::report::{self, Report};
use crate::subject::{Place, Subject};

/// How much to measure.
#[derive(Debug, Clone, Copy)]
struct Scale {
    jobs: u32,
    rounds: u32,
    /// Checkpoints of each attempt.
    steps: u32,
    /// How long attempts report and log.
    seconds: u64,
}

impl Scale {
    fn new(is_quick: bool) -> Self {
        match is_quick {
            true => Self { jobs: 20_000, rounds: 1, steps: 20, seconds: 4 },
            false => Self { jobs: 60_000, rounds: 5, steps: 50, seconds: 15 },
        }
    }
}

/// Attempts that end in one call.
const BATCH: usize = 500;
/// Attempts that write at once.
const ATTEMPTS: u32 = 1_000;
/// What a checkpoint remembers.
const VALUE: &[u8] = &[b'x'; 100];

/// Measures the stores whose name contains this, as far as they keep records.
pub(crate) async fn run(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let scale = Scale::new(is_quick);
    let is_meant = |subject: &Subject| only.is_none_or(|only| subject.name().contains(only));
    for subject in Subject::ALL.into_iter().filter(is_meant) {
        if subject.place()?.client().await?.store().records().is_none() {
            report.progress(&format!("{}: it keeps no records", subject.name()));
            continue;
        }
        follow_ups(subject, scale, &mut report).await?;
        checkpoints(subject, scale, &mut report).await?;
        sayings::measure(subject, scale.seconds, &mut report).await?;
    }
    report.print();
    Ok(())
}

/// Measures only what progress and logs of attempts cost.
pub(crate) async fn run_sayings(is_quick: bool, only: Option<&str>, mut report: Report) -> Result<()> {
    let is_meant = |subject: &Subject| only.is_none_or(|only| subject.name().contains(only));
    for subject in Subject::ALL.into_iter().filter(is_meant) {
        sayings::measure(subject, Scale::new(is_quick).seconds, &mut report).await?;
    }
    report.print();
    Ok(())
}

async fn follow_ups(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut together, mut apart) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: follow-ups, round {round} of {}", subject.name(), scale.rounds));
        apart.push(ends(subject, scale.jobs, Write::Apart).await?);
        together.push(ends(subject, scale.jobs, Write::Together).await?);
    }
    let (together, apart) = (report::median(&mut together), report::median(&mut apart));
    report.rate(subject, "settle 500 with one job each", together, "settle 500, then enqueue 500", apart);
    Ok(())
}

async fn checkpoints(subject: Subject, scale: Scale, report: &mut Report) -> Result<()> {
    let (mut remembered, mut reported) = (vec![], vec![]);
    for round in 1..=scale.rounds {
        report.progress(&format!("{}: checkpoints, round {round} of {}", subject.name(), scale.rounds));
        reported.push(steps(subject, scale.steps, Step::Progress).await?);
        remembered.push(steps(subject, scale.steps, Step::Checkpoint).await?);
    }
    let (remembered, reported) = (report::median(&mut remembered), report::median(&mut reported));
    report.rate(subject, "checkpoints of 1,000 attempts, one by one", remembered, "their progress", reported);
    Ok(())
}

/// How an end and the job that follows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    Together,
    Apart,
}

/// Attempts a second that end and are followed, without the claims before.
async fn ends(subject: Subject, jobs: u32, write: Write) -> Result<f64> {
    let place = subject.place()?;
    let (store, lease) = filled(&place, jobs).await?;
    let (mut spent, mut done) = (Duration::ZERO, 0);
    loop {
        let claimed = claim(&store, lease, u32::try_from(BATCH)?).await?;
        if claimed.is_empty() {
            break;
        }
        let next: Vec<NewJob> = claimed.iter().map(|_| next()).collect::<Result<_>>()?;
        let ends: Vec<Settlement> = claimed.iter().map(completed).collect();
        done += claimed.len();
        let items: Vec<_> = ends.iter().zip(&next).map(|(end, job)| followed(end, job)).collect();
        let started = Instant::now();
        match write {
            Write::Together => applied(&store, items.into()).await?,
            Write::Apart => {
                let settled = store.settle(ends.into()).await?;
                ensure!(settled.iter().all(|answer| matches!(answer, Settled::Applied(_))), "{settled:?}");
                store.enqueue(next.into()).await?;
            }
        }
        spent += started.elapsed();
    }
    ensure!(done == jobs as usize, "{done} of {jobs} jobs were claimed");
    Ok(done as f64 / spent.as_secs_f64())
}

/// What an attempt says before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Checkpoint,
    Progress,
}

/// Writes a second of attempts that each wait for their write before the next.
async fn steps(subject: Subject, steps: u32, step: Step) -> Result<f64> {
    let place = subject.place()?;
    let (store, lease) = filled(&place, ATTEMPTS).await?;
    let mut claimed = Vec::new();
    while claimed.len() < ATTEMPTS as usize {
        let more = claim(&store, lease, ATTEMPTS).await?;
        ensure!(!more.is_empty(), "{} of {ATTEMPTS} jobs were claimed", claimed.len());
        claimed.extend(more);
    }
    let started = Instant::now();
    let attempts: Vec<_> = claimed
        .into_iter()
        .map(|attempt| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                for _ in 0..steps {
                    write_step(&store, &attempt, step).await?;
                }
                anyhow::Ok(())
            })
        })
        .collect();
    for attempt in attempts {
        attempt.await??;
    }
    Ok(f64::from(steps * ATTEMPTS) / started.elapsed().as_secs_f64())
}

async fn write_step(store: &SharedStore, attempt: &ClaimedJob, step: Step) -> Result<()> {
    let (queue, id, fence) = (attempt.queue.clone(), attempt.id, attempt.fence);
    match step {
        Step::Checkpoint => {
            let key = RecordKey::new(format!("step/{id}"))?;
            let records = vec![RecordWrite::put(key, Bytes::from_static(VALUE))];
            let then = FollowUps { jobs: Vec::new(), records };
            applied(store, [AttemptWrite { queue, id, fence, transition: None, then }].into()).await
        }
        Step::Progress => {
            let report = Progress { queue, id, fence, progress: Bytes::from_static(VALUE) };
            let answers = store.progress([report].into()).await?;
            ensure!(answers == [Settled::Applied(JobState::Running)], "{answers:?}");
            Ok(())
        }
    }
}

async fn applied(store: &SharedStore, items: Arc<[AttemptWrite]>) -> Result<()> {
    let records = store.records().expect("stores without records are left out");
    let answers = records.write_fenced(Right::Fence, items).await?;
    let refused = answers.iter().find(|answer| !matches!(answer, AttemptWritten::Applied(_)));
    ensure!(refused.is_none(), "{refused:?}");
    Ok(())
}

fn completed(job: &ClaimedJob) -> Settlement {
    let transition = judge(&job.facts, Outcome::Completed { output: None }, 0.5);
    Settlement { queue: job.queue.clone(), id: job.id, fence: job.fence, transition }
}

/// An end, and the job that follows.
fn followed(end: &Settlement, next: &NewJob) -> AttemptWrite {
    AttemptWrite {
        queue: end.queue.clone(),
        id: end.id,
        fence: end.fence,
        transition: Some(end.transition.clone()),
        then: FollowUps { jobs: vec![next.clone()], records: Vec::new() },
    }
}

/// A job that no claim here asks for.
fn next() -> Result<NewJob> {
    Ok(NewJob::new("bench.next", "{\"i\":1}", Options::new())?)
}

/// A store with waiting jobs, and a lease on it.
async fn filled(place: &Place, jobs: u32) -> Result<(SharedStore, LeaseId)> {
    let client = place.client().await?;
    ours::fill(&client, jobs).await?;
    leased(&client).await
}

/// A store, and a lease on it.
pub(crate) async fn leased(client: &Client) -> Result<(SharedStore, LeaseId)> {
    let (store, id) = (Arc::clone(client.store()), LeaseId::new());
    let (queues, ttl) = (vec![Name::new("default")?], Duration::from_secs(600));
    let kinds = vec![Name::new(Nothing::KIND)?];
    store.open(&NewLease { id, worker: "bench".into(), ttl, queues, kinds }).await?;
    Ok((store, id))
}

pub(crate) async fn claim(store: &SharedStore, lease: LeaseId, limit: u32) -> Result<Vec<ClaimedJob>> {
    let request = ClaimRequest {
        lease,
        nonce: Fence::nonce(),
        queues: vec![QueueShare { queue: Name::new("default")?, limit }],
        kinds: vec![Name::new(Nothing::KIND)?],
        limit,
        at_once: limit,
        bytes: usize::MAX,
    };
    match store.claim(request).await? {
        ClaimAnswer::Jobs { jobs, .. } => Ok(jobs),
        ClaimAnswer::LeaseLost => anyhow::bail!("the lease was lost"),
    }
}
