//! Reads what `top` shows, in a few bounded calls, and compares it with the look before.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use windlass::Client;
use windlass_core::store::{EndPlace, Filter, LeaseRecord};
use windlass_core::{JobId, JobRecord, Name, State, Timestamp};

use super::verdict::Assessment;
use crate::command::known::{self, LEASES_MAX};
use crate::command::queues::{Look, look};
use crate::output::text;

/// How far back failures are shown when the view begins.
const SINCE: Duration = Duration::from_secs(3_600);
/// A write on its way may put an end before one that was seen.
const OVERLAP: Duration = Duration::from_secs(5);
/// How often ends are read although as many jobs are dead as before.
const AGAIN: Duration = Duration::from_secs(10);
/// Ends of one queue that one look reads.
const ENDS_MAX: u32 = 200;
/// Failures and jobs that are kept.
pub(super) const SHOWN_MAX: usize = 50;

/// What was seen at one look.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Frame {
    /// When, by the store's clock.
    pub(super) at: Timestamp,
    pub(super) verdict: Assessment,
    pub(super) queues: Vec<QueueLine>,
    pub(super) workers: Vec<WorkerLine>,
    /// The newest first.
    pub(super) failures: Vec<JobLine>,
    /// Jobs of the queue that was asked for.
    pub(super) jobs: Vec<JobLine>,
}

/// A queue.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct QueueLine {
    pub(super) name: String,
    pub(super) ready: u64,
    pub(super) scheduled: u64,
    pub(super) blocked: u64,
    pub(super) running: u64,
    pub(super) dead: u64,
    /// Jobs a second that came, and that completed; nothing where that cannot be told from the counts.
    pub(super) accepted_per_second: Option<f64>,
    pub(super) completed_per_second: Option<f64>,
    /// How long the oldest job waits, as people read it.
    pub(super) oldest: String,
    pub(super) overdue: u64,
    pub(super) workers: usize,
    pub(super) is_paused: bool,
    pub(super) lacks_workers: bool,
}

/// A worker.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WorkerLine {
    pub(super) name: String,
    pub(super) is_lost: bool,
    pub(super) running: u64,
    pub(super) queues: Vec<Name>,
    pub(super) opened_at: Timestamp,
}

/// A job.
#[derive(Debug, Clone, Serialize)]
pub(super) struct JobLine {
    pub(super) id: JobId,
    pub(super) queue: Name,
    pub(super) kind: Name,
    pub(super) state: State,
    pub(super) attempt: u32,
    /// When it ended, or else when it was accepted.
    pub(super) at: Timestamp,
    pub(super) error: Option<String>,
}

/// Looks again and again.
pub(super) struct Looker {
    client: Client,
    /// Of each queue, what was counted last, and when.
    before: HashMap<Name, (Instant, u64, u64)>,
    /// Of each queue, how many were dead, where the last of them ended, and when that was read.
    dead: HashMap<Name, (u64, EndPlace, Instant)>,
    failures: Vec<JobLine>,
}

impl Looker {
    pub(super) fn new(client: &Client) -> Self {
        let (before, dead, failures) = (HashMap::new(), HashMap::new(), Vec::new());
        Self { client: client.clone(), before, dead, failures }
    }

    /// Reads everything; of one queue also jobs that have not ended.
    pub(super) async fn look(&mut self, jobs_of: Option<Name>) -> anyhow::Result<Frame> {
        let at = self.client.store().now().await?;
        let queues = known::queues(&self.client).await?;
        let looks = look::at_all(&self.client, &queues).await?;
        let leases = self.client.workers(LEASES_MAX).await?;
        let rows: Vec<QueueLine> =
            queues.iter().zip(&looks).map(|(queue, look)| self.row(queue, look)).collect();
        for queue in &queues {
            self.read_failures(&queue.name, queue.counts.of(State::Dead), at).await?;
        }
        let jobs = match jobs_of {
            Some(queue) => self.open_jobs(queue).await?,
            None => Vec::new(),
        };
        let workers: Vec<WorkerLine> = leases.into_iter().map(worker).collect();
        let failures = self.failures.clone();
        Ok(Frame {
            at,
            verdict: Assessment::of(at, &rows, &workers, &failures),
            queues: rows,
            workers,
            failures,
            jobs,
        })
    }

    fn row(&mut self, queue: &windlass_core::queue::QueueRecord, look: &Look) -> QueueLine {
        let of = |state| queue.counts.of(state);
        let (total, completed) = (queue.counts.total(), of(State::Completed));
        let now = Instant::now();
        let before = self.before.insert(queue.name.clone(), (now, total, completed));
        // Counts fall when finished jobs are removed, and then say nothing of what came.
        let rate = |now_count: u64, before_count: u64, since: Instant| {
            let seconds = now.duration_since(since).as_secs_f64().max(0.001);
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            now_count.checked_sub(before_count).map(|more| more as f64 / seconds)
        };
        let rates = before.map(|(since, total_before, completed_before)| {
            (rate(total, total_before, since), rate(completed, completed_before, since))
        });
        let (accepted_per_second, completed_per_second) = rates.unwrap_or_default();
        let now = Timestamp::from(SystemTime::now());
        QueueLine {
            name: queue.name.to_string(),
            ready: of(State::Ready),
            scheduled: of(State::Scheduled),
            blocked: of(State::Blocked),
            running: of(State::Running),
            dead: of(State::Dead),
            accepted_per_second,
            completed_per_second,
            oldest: look.oldest(),
            overdue: look.backlog.overdue,
            workers: look.workers.len(),
            is_paused: queue.config.pauses.queue.as_ref().is_some_and(|pause| pause.holds(now)),
            lacks_workers: look.lacks_workers(queue),
        }
    }

    /// Reads which jobs of a queue died since the last look, if any did.
    async fn read_failures(&mut self, queue: &Name, dead: u64, now: Timestamp) -> anyhow::Result<()> {
        let first = EndPlace::since(now.minus(SINCE));
        let before = self.dead.get(queue).copied();
        // One that was sent back while another died leaves the count as it was.
        if before.is_none() && dead == 0
            || before.is_some_and(|(known, _, read)| known == dead && read.elapsed() < AGAIN)
        {
            return Ok(());
        }
        let (known, place) = before.map_or((0, first), |(known, place, _)| (known, place));
        let store = self.client.store();
        let ended = store.ended(queue, State::Dead, place, ENDS_MAX).await?;
        let last = ended.last().map_or(place, |last| last.place);
        // Where there are more than one look reads, the next one goes on.
        let count = if ended.len() < ENDS_MAX as usize { dead } else { known };
        let back = EndPlace::since(last.at.minus(OVERLAP));
        let place = if count == dead { back.max(first) } else { last };
        self.dead.insert(queue.clone(), (count, place, Instant::now()));
        let newest = &ended[ended.len().saturating_sub(SHOWN_MAX)..];
        let ids: Vec<JobId> = newest.iter().map(|ended| ended.id).collect();
        let jobs = store.get(ids.into()).await?;
        let died =
            jobs.into_iter().flatten().filter(|job| job.state == State::Dead && !job.kind.is_internal());
        for job in died {
            self.failures.retain(|known| known.id != job.id);
            self.failures.push(seen(&job));
        }
        self.failures.sort_by_key(|failure| std::cmp::Reverse((failure.at, failure.id)));
        self.failures.truncate(SHOWN_MAX);
        Ok(())
    }

    async fn open_jobs(&self, queue: Name) -> anyhow::Result<Vec<JobLine>> {
        let mut jobs = Vec::new();
        for state in [State::Running, State::Ready, State::Scheduled, State::Blocked] {
            let filter = Filter { queue: Some(queue.clone()), state: Some(state), ..Filter::default() };
            let page = self.client.list(&filter, None, u32::try_from(SHOWN_MAX).unwrap_or(50)).await?;
            jobs.extend(page.jobs.iter().map(seen));
        }
        jobs.truncate(SHOWN_MAX);
        Ok(jobs)
    }
}

fn worker(lease: LeaseRecord) -> WorkerLine {
    let LeaseRecord { worker, queues, opened_at, is_lost, running, .. } = lease;
    WorkerLine { name: worker, is_lost, running, queues, opened_at }
}

fn seen(job: &JobRecord) -> JobLine {
    JobLine {
        id: job.id,
        queue: job.queue.clone(),
        kind: job.kind.clone(),
        state: job.state,
        attempt: job.counters.attempt,
        at: job.finished_at.unwrap_or(job.enqueued_at),
        error: job.last_error().map(text::first_line),
    }
}
