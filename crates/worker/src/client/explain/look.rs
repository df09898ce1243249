//! What a store says about a job and what is around it. Reads only, and a bounded number of rows: lists are read from the
//! newest job on, for ten pages at most.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::time::Duration;

use windlass_core::clock::Timestamp;
use windlass_core::flow::Tally;
use windlass_core::queue::{KeyRules, QueueConfig, QueueRecord};
use windlass_core::store::LeaseRecord;
use windlass_core::store::serves::KINDS_KEPT;
use windlass_core::unique::Lifetime;
use windlass_core::{JobId, JobRecord, Name, State};

use super::blocked::{FlowLook, FlowSeen};
use super::flow_look;
use super::line::{Line, Looking};
use crate::client::queue::{CALLS_MAX, PAGE};
use crate::client::{Client, QueueHandle};
use crate::error::Result;

/// Leases that are read.
pub(super) const LEASES_MAX: u32 = 1_000;
/// Lost jobs among which the one in question is looked for.
const LOST_MAX: u32 = 1_000;
/// Completed jobs that tell how fast a queue goes, and how old their ends may be.
const PACE_JOBS_MIN: u32 = 3;
const PACE_AGE_MAX: Duration = Duration::from_secs(600);

/// What was read.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub(super) now: Timestamp,
    pub(super) job: JobRecord,
    /// Nothing for a queue that was removed meanwhile.
    pub(super) queue: Option<QueueRecord>,
    /// The newest rule of its definition, and the newest one known, where this program does not know it.
    pub(super) unknown_rule: Option<(u32, u32)>,
    pub(super) leases: Vec<LeaseRecord>,
    pub(super) line: Line,
    /// How long one job takes to leave the queue, by those that completed lately.
    pub(super) pace: Option<Duration>,
    /// Running jobs of its key.
    pub(super) key_running: Vec<JobId>,
    /// When jobs of its key were claimed.
    pub(super) key_starts: Vec<Timestamp>,
    /// Whether it runs under a lease that has run out, and can be taken back.
    pub(super) is_lost: bool,
    /// Another job that holds its unique key.
    pub(super) holder: Option<JobId>,
    /// The flow that holds it, if it is held.
    pub(super) flow: Option<FlowLook>,
    /// The flow that it has added and waits for, and how far that is.
    pub(super) gathered: Option<(FlowSeen, Tally)>,
}

impl Seen {
    /// The definition of its queue.
    pub(super) fn config(&self) -> QueueConfig {
        self.queue.as_ref().map(|queue| queue.config.clone()).unwrap_or_default()
    }

    /// Living workers that serve its queue.
    pub(super) fn serving(&self) -> impl Iterator<Item = &LeaseRecord> {
        self.leases.iter().filter(|lease| !lease.is_lost && lease.queues.contains(&self.job.queue))
    }
}

/// Whether a worker runs a kind, as far as its lease says: it keeps the first kinds only.
pub(super) fn runs(lease: &LeaseRecord, kind: &Name) -> bool {
    lease.kinds.is_empty() || lease.kinds.len() >= KINDS_KEPT || lease.kinds.contains(kind)
}

/// Reads what explains a job; nothing if the store does not have it.
pub(super) async fn at(client: &Client, id: JobId) -> Result<Option<Seen>> {
    let now = client.store().now().await?;
    let Some(job) = client.job(id).await? else { return Ok(None) };
    let handle = client.queue(&job.queue)?;
    let queue = handle.record().await?;
    let leases = client.workers(LEASES_MAX).await?;
    let mut seen = Seen {
        now,
        job,
        queue,
        unknown_rule: None,
        leases,
        line: Line::default(),
        pace: None,
        key_running: Vec::new(),
        key_starts: Vec::new(),
        is_lost: false,
        holder: None,
        flow: None,
        gathered: None,
    };
    match seen.job.state {
        State::Running => {
            let lost = client.store().lost(LOST_MAX).await?;
            seen.is_lost = lost.iter().any(|lost| lost.id == id);
        }
        State::Dead | State::Cancelled => seen.holder = holder(&handle, &seen.job).await?,
        State::Completed => {}
        State::Blocked => seen.flow = flow_look::holding(client, &seen.job).await?,
        _ => waiting(client, &handle, &mut seen).await?,
    }
    Ok(Some(seen))
}

/// What is around a job that waits.
async fn waiting(client: &Client, handle: &QueueHandle, seen: &mut Seen) -> Result<()> {
    seen.unknown_rule = handle.unknown_rule().await;
    let config = seen.config();
    if seen.job.due_at > seen.now {
        seen.gathered = flow_look::gathered(client, &seen.job, seen.now).await?;
        return Ok(());
    }
    seen.line = line(handle, seen, &config).await?;
    if seen.line.ahead > 0 {
        seen.pace = pace(handle, seen.now).await?;
    }
    if let (Some(key), Some(KeyRules { concurrency, rate, .. })) = (seen.job.key.clone(), config.keys) {
        if concurrency.is_some() {
            seen.key_running = running_of(handle, &key).await?;
        }
        if let Some(rate) = rate {
            seen.key_starts = starts_of(client, handle, &key, seen.now.minus(2 * rate.per)).await?;
        }
    }
    Ok(())
}

/// Goes through the jobs of a state, the newest first, until told to stop. Answers whether there are more.
async fn each(
    handle: &QueueHandle,
    state: Option<State>,
    mut look: impl FnMut(JobRecord) -> ControlFlow<()>,
) -> Result<bool> {
    let mut next = None;
    for _ in 0..CALLS_MAX {
        let page = handle.list(state, next.as_ref(), PAGE).await?;
        for job in page.jobs {
            if look(job).is_break() {
                return Ok(true);
            }
        }
        next = page.next;
        if next.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Which ready jobs come first.
async fn line(handle: &QueueHandle, seen: &Seen, config: &QueueConfig) -> Result<Line> {
    let are_known = seen.serving().all(|lease| (1..KINDS_KEPT).contains(&lease.kinds.len()));
    let kinds: BTreeSet<&Name> = seen.serving().flat_map(|lease| &lease.kinds).collect();
    let mut looking =
        Looking::new(&seen.job, config, seen.now, (are_known && !kinds.is_empty()).then_some(kinds));
    let has_more = each(handle, Some(State::Ready), |job| {
        looking.add(&job);
        ControlFlow::Continue(())
    })
    .await?;
    Ok(looking.end(has_more))
}

/// How long a job takes to leave the queue, by those that completed in the last minutes.
async fn pace(handle: &QueueHandle, now: Timestamp) -> Result<Option<Duration>> {
    let page = handle.list(State::Completed, None, PAGE).await?;
    let ends = page.jobs.iter().filter_map(|job| job.finished_at);
    let ends: Vec<Timestamp> = ends.filter(|at| now.since(*at) < PACE_AGE_MAX).collect();
    let count = u32::try_from(ends.len()).unwrap_or(u32::MAX);
    let first = ends.into_iter().min();
    Ok(first.filter(|_| count >= PACE_JOBS_MIN).map(|first| now.since(first) / count))
}

async fn running_of(handle: &QueueHandle, key: &Name) -> Result<Vec<JobId>> {
    let mut running = Vec::new();
    each(handle, Some(State::Running), |job| {
        running.extend((job.key.as_ref() == Some(key)).then_some(job.id));
        ControlFlow::Continue(())
    })
    .await?;
    Ok(running)
}

/// When the newest jobs of a key were claimed, earliest first, as far as they are kept.
async fn starts_of(
    client: &Client,
    handle: &QueueHandle,
    key: &Name,
    after: Timestamp,
) -> Result<Vec<Timestamp>> {
    let mut ids = Vec::new();
    each(handle, None, |job| {
        ids.extend((job.key.as_ref() == Some(key) && job.fence > 0).then_some(job.id));
        if ids.len() < PAGE as usize { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .await?;
    let jobs = client.store().get(ids.into()).await?;
    let attempts = jobs.into_iter().flatten().flat_map(|job| job.attempts);
    let mut starts: Vec<Timestamp> =
        attempts.map(|attempt| attempt.started_at).filter(|at| *at > after).collect();
    starts.sort_unstable();
    Ok(starts)
}

/// The job that holds the unique key of one that has ended, where a retry would take it again.
async fn holder(handle: &QueueHandle, job: &JobRecord) -> Result<Option<JobId>> {
    let Some(key) = job.unique.filter(|key| key.lifetime == Lifetime::End) else { return Ok(None) };
    let mut holder = None;
    for state in [State::Running, State::Ready, State::Scheduled, State::Blocked] {
        each(handle, Some(state), |other| {
            let is_holder =
                other.id != job.id && other.unique.is_some_and(|other| other.digest == key.digest);
            if is_holder && holds(&other) {
                holder = Some(other.id);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })
        .await?;
        if holder.is_some() {
            break;
        }
    }
    Ok(holder)
}

/// Whether a job that has not ended may hold its key still.
fn holds(job: &JobRecord) -> bool {
    match job.unique.map(|key| key.lifetime) {
        // It is given up with the first claim.
        Some(Lifetime::Start) => job.fence == 0,
        Some(_) => true,
        None => false,
    }
}
