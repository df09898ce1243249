//! The JSON that programs get: instants as RFC 3339 text, durations as seconds, absent things as null. Fields
//! may be added, never renamed; `docs/operations/cli.md` describes them.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use windlass::worker::Cancellation;
use windlass_core::clock::Timestamp;
use windlass_core::job::{AttemptRecord, Trace};
use windlass_core::outcome::{Ending, Reason};
use windlass_core::queue::{JobDefaults, Keep, KeyRules, Pauses, Permits, QueueRecord, Rate};
use windlass_core::retry::{Backoff, Policy};
use windlass_core::size::Caps;
use windlass_core::store::{Durability, LeaseRecord};
use windlass_core::{JobRecord, Name, State};

use super::content::Content;
use crate::command::flows::FlowOf;
use crate::command::queues::Look;

/// An instant as text.
pub(crate) fn instant(at: Timestamp) -> String {
    at.to_string()
}

/// What an accepted job survives, as one word.
pub(crate) fn durability(durability: Durability) -> &'static str {
    match durability {
        Durability::Process => "process",
        Durability::Server => "server",
        Durability::Delayed => "delayed",
        Durability::Crash => "crash",
        Durability::PowerCut => "power_cut",
        _ => "other",
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct JobJson<'a> {
    id: String,
    queue: &'a Name,
    kind: &'a Name,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a Name>,
    state: State,
    reason: Option<&'static str>,
    priority: i16,
    payload: Content<'a>,
    payload_encoding: &'static str,
    output: Option<Content<'a>>,
    output_encoding: Option<&'static str>,
    progress: Option<Content<'a>>,
    progress_encoding: Option<&'static str>,
    attempt: u32,
    stalls: u32,
    stalls_max: u32,
    ambiguous: u32,
    retry: RetryJson,
    timeout_seconds: Option<f64>,
    tags: &'a [Name],
    meta: &'a BTreeMap<String, String>,
    trace: Option<&'a Trace>,
    fence: u64,
    cancel_requested: bool,
    /// Whether the handler of a running job is known to have begun.
    has_begun: bool,
    /// Why this program cannot read the job.
    unreadable: Option<String>,
    enqueued_at: String,
    due_at: String,
    expires_at: Option<String>,
    finished_at: Option<String>,
    /// Of the running attempt, as the next one.
    worker: Option<&'a str>,
    started_at: Option<String>,
    last_error: Option<&'a str>,
    /// Only with `jobs show`.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptJson<'a>>>,
    /// Only with `jobs show`, of a job that belongs to a flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    flow: Option<&'a FlowOf>,
    /// Only with `jobs show`, of a job that was cancelled, or asked to stop, by one who said why.
    #[serde(skip_serializing_if = "Option::is_none")]
    cancelled_by: Option<&'a Cancellation>,
}

impl<'a> JobJson<'a> {
    /// A job of a list.
    pub(crate) fn listed(job: &'a JobRecord) -> Self {
        let [payload, output, progress] = [Some(&job.payload), job.output.as_ref(), job.progress.as_ref()]
            .map(|bytes| bytes.map(|b| Content::of(b)));
        let payload = payload.unwrap_or(Content::Utf8(""));
        Self {
            id: job.id.to_string(),
            queue: &job.queue,
            kind: &job.kind,
            key: job.key.as_ref(),
            state: job.state,
            reason: job.reason.map(Reason::as_str),
            priority: job.priority,
            payload,
            payload_encoding: payload.encoding(),
            output,
            output_encoding: output.map(Content::encoding),
            progress,
            progress_encoding: progress.map(Content::encoding),
            attempt: job.counters.attempt,
            stalls: job.counters.stalls,
            stalls_max: job.spec.stalls_max,
            ambiguous: job.counters.ambiguous,
            retry: RetryJson::of(&job.spec.retry),
            timeout_seconds: job.spec.timeout.as_ref().map(Duration::as_secs_f64),
            tags: &job.tags,
            meta: &job.spec.meta,
            trace: job.spec.trace.as_ref(),
            fence: job.fence,
            cancel_requested: job.cancel_requested,
            has_begun: job.has_begun,
            unreadable: job.unreadable.as_ref().map(ToString::to_string),
            enqueued_at: instant(job.enqueued_at),
            due_at: instant(job.due_at),
            expires_at: job.expires_at.map(instant),
            finished_at: job.finished_at.map(instant),
            worker: job.running().map(|attempt| attempt.worker.as_str()),
            started_at: job.running().map(|attempt| instant(attempt.started_at)),
            last_error: job.last_error(),
            attempts: None,
            flow: None,
            cancelled_by: None,
        }
    }

    /// A job on its own, with its attempts.
    pub(crate) fn shown(job: &'a JobRecord) -> Self {
        Self { attempts: Some(job.attempts.iter().map(AttemptJson::of).collect()), ..Self::listed(job) }
    }

    /// The same with the flow that it belongs to.
    pub(crate) fn in_flow(self, flow: Option<&'a FlowOf>) -> Self {
        Self { flow, ..self }
    }

    /// The same with who cancelled it.
    pub(crate) fn cancelled_by(self, cancelled_by: Option<&'a Cancellation>) -> Self {
        Self { cancelled_by, ..self }
    }
}

#[derive(Debug, Serialize)]
struct AttemptJson<'a> {
    number: u32,
    fence: u64,
    worker: &'a str,
    started_at: String,
    ended_at: Option<String>,
    ending: Option<&'static str>,
    error: Option<&'a str>,
}

impl<'a> AttemptJson<'a> {
    fn of(attempt: &'a AttemptRecord) -> Self {
        Self {
            number: attempt.number,
            fence: attempt.fence,
            worker: &attempt.worker,
            started_at: instant(attempt.started_at),
            ended_at: attempt.ended_at.map(instant),
            ending: attempt.ending.map(Ending::as_str),
            error: attempt.error.as_deref(),
        }
    }
}

#[derive(Debug, Serialize)]
struct RetryJson {
    attempts_max: u32,
    ambiguous_max: u32,
    backoff: &'static str,
    base_seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    factor: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    power: Option<f64>,
    max_seconds: f64,
    jitter: windlass_core::retry::Jitter,
}

impl RetryJson {
    fn of(policy: &Policy) -> Self {
        let (backoff, base, factor, power) = match policy.backoff() {
            Backoff::Fixed { delay } => ("fixed", delay, None, None),
            Backoff::Linear { base } => ("linear", base, None, None),
            Backoff::Exponential { base, factor } => ("exponential", base, Some(factor), None),
            Backoff::Polynomial { base, power } => ("polynomial", base, None, Some(power)),
        };
        Self {
            attempts_max: policy.attempts_max(),
            ambiguous_max: policy.ambiguous_max(),
            backoff,
            base_seconds: base.as_secs_f64(),
            factor,
            power,
            max_seconds: policy.delay_max().as_secs_f64(),
            jitter: policy.spread(),
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct QueueJson<'a> {
    name: &'a Name,
    counts: std::collections::BTreeMap<&'static str, u64>,
    keep: KeepsJson,
    caps: Caps,
    /// What it hands out and takes: pauses, `concurrency`, `rate`, `capacity`, `aging_seconds` and `keys`, as far as there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<RulesJson<'a>>,
    /// What holds for its jobs that say nothing themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    defaults: Option<DefaultsJson>,
    /// Whether the HTTP API masks contents of its jobs.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    masked: bool,
    /// Why its definition does not read.
    unreadable: Option<&'a str>,
    /// Only with `queues`, as the next two: how many scheduled jobs were seen to be overdue.
    #[serde(skip_serializing_if = "Option::is_none")]
    overdue: Option<u64>,
    /// Whether there may be more than were looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    overdue_has_more: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workers: Option<usize>,
    /// What the look adds, in one place so that a definition does not show it.
    #[serde(flatten)]
    waiting: Option<WaitingJson<'a>>,
}

#[derive(Debug, Serialize)]
struct WaitingJson<'a> {
    /// Since when the job that waits longest could have started.
    oldest_due_at: Option<String>,
    oldest_has_more: bool,
    served_by: &'a [String],
}

#[derive(Debug, Serialize)]
struct DefaultsJson {
    retry: Option<RetryJson>,
    timeout_seconds: Option<f64>,
    priority: Option<i16>,
    forward_dead: Option<String>,
}

impl DefaultsJson {
    fn of(defaults: &JobDefaults) -> Option<Self> {
        (!defaults.is_empty()).then(|| Self {
            retry: defaults.retry.as_ref().map(RetryJson::of),
            timeout_seconds: defaults.timeout.map(|timeout| timeout.as_secs_f64()),
            priority: defaults.priority,
            forward_dead: defaults.forward_dead.as_ref().map(ToString::to_string),
        })
    }
}

#[derive(Debug, Serialize)]
struct RulesJson<'a> {
    pauses: &'a Pauses,
    concurrency: Option<u32>,
    rate: Option<Rate>,
    /// How many jobs the rate permits now, and when there are more.
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<PermitsJson>,
    capacity: Option<u64>,
    /// What a level of priority is worth.
    aging_seconds: Option<f64>,
    keys: Option<&'a KeyRules>,
}

#[derive(Debug, Serialize)]
struct PermitsJson {
    jobs: u64,
    more_at: Option<String>,
}

impl From<Permits> for PermitsJson {
    fn from(permits: Permits) -> Self {
        Self { jobs: permits.jobs, more_at: permits.more_at.map(instant) }
    }
}

#[derive(Debug, Serialize)]
struct KeepsJson {
    completed: KeepJson,
    dead: KeepJson,
    cancelled: KeepJson,
}

#[derive(Debug, Serialize)]
struct KeepJson {
    age_seconds: Option<f64>,
    count: Option<u64>,
}

impl From<Keep> for KeepJson {
    fn from(keep: Keep) -> Self {
        Self { age_seconds: keep.age.as_ref().map(Duration::as_secs_f64), count: keep.count }
    }
}

impl<'a> QueueJson<'a> {
    pub(crate) fn of(queue: &'a QueueRecord) -> Self {
        let retention = &queue.config.retention;
        Self {
            name: &queue.name,
            counts: super::text::by_state(&queue.counts).collect(),
            keep: KeepsJson {
                completed: retention.completed.into(),
                dead: retention.dead.into(),
                cancelled: retention.cancelled.into(),
            },
            caps: queue.config.caps,
            rules: (queue.config.rules() > 0).then_some(RulesJson {
                pauses: &queue.config.pauses,
                concurrency: queue.config.concurrency,
                rate: queue.config.rate,
                permits: queue.permits.map(PermitsJson::from),
                capacity: queue.config.capacity,
                aging_seconds: queue.config.aging.as_ref().map(Duration::as_secs_f64),
                keys: queue.config.keys.as_ref(),
            }),
            defaults: DefaultsJson::of(&queue.config.defaults),
            masked: queue.config.masked,
            unreadable: queue.unreadable.as_deref(),
            overdue: None,
            overdue_has_more: None,
            workers: None,
            waiting: None,
        }
    }

    /// The same with what its counts do not say.
    pub(crate) fn seen(queue: &'a QueueRecord, look: &'a Look) -> Self {
        let backlog = look.backlog;
        Self {
            overdue: Some(backlog.overdue),
            overdue_has_more: Some(backlog.has_more_scheduled),
            workers: Some(look.workers.len()),
            waiting: Some(WaitingJson {
                oldest_due_at: backlog.oldest.map(instant),
                oldest_has_more: backlog.has_more_ready || backlog.has_more_scheduled,
                served_by: &look.workers,
            }),
            ..Self::of(queue)
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct LeaseJson<'a> {
    id: String,
    worker: &'a str,
    queues: &'a [Name],
    kinds: &'a [Name],
    opened_at: String,
    expires_at: String,
    lost: bool,
    running: u64,
}

impl<'a> LeaseJson<'a> {
    pub(crate) fn of(lease: &'a LeaseRecord) -> Self {
        Self {
            id: lease.id.to_string(),
            worker: &lease.worker,
            queues: &lease.queues,
            kinds: &lease.kinds,
            opened_at: instant(lease.opened_at),
            expires_at: instant(lease.expires_at),
            lost: lease.is_lost,
            running: lease.running,
        }
    }
}
