//! A job as it is answered, with the names of the command line.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::job::{AttemptRecord, Trace};
use windlass_core::outcome::{Ending, Reason};
use windlass_core::{JobId, JobRecord, Name, State};

use crate::app::App;
use crate::problem::Problem;
use crate::wire::{Content, Encoding, Instant, RetryForm, Span};

/// How much of a job's contents is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    All,
    /// Payload, output, progress and errors are left out.
    Masked,
}

impl Shown {
    /// What the definition of the queue says.
    pub(crate) async fn of_queue(app: &App, queue: &Name) -> Result<Self, Problem> {
        Ok(if app.masks().are_on(app.client(), queue).await? { Self::Masked } else { Self::All })
    }
}

/// A job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Job)]
pub(crate) struct JobView {
    /// The id.
    #[schema(value_type = String, format = Uuid)]
    id: JobId,
    /// Its queue.
    #[schema(value_type = String)]
    queue: Name,
    /// Its kind.
    #[schema(value_type = String)]
    kind: Name,
    /// The key that it takes turns by.
    #[schema(value_type = Option<String>)]
    key: Option<Name>,
    /// `blocked`, `scheduled`, `ready`, `running`, `completed`, `dead` or `cancelled`.
    #[schema(value_type = String)]
    state: State,
    /// Why it is in this state.
    reason: Option<&'static str>,
    /// Higher is claimed first.
    priority: i16,
    /// The payload.
    #[schema(value_type = serde_json::Value)]
    payload: Option<Box<RawValue>>,
    /// How it is to be read.
    payload_encoding: Encoding,
    /// Its size.
    payload_bytes: usize,
    /// What it gave back.
    #[schema(value_type = serde_json::Value)]
    output: Option<Box<RawValue>>,
    /// How that is to be read.
    output_encoding: Option<Encoding>,
    /// What its handler last reported.
    #[schema(value_type = serde_json::Value)]
    progress: Option<Box<RawValue>>,
    /// How that is to be read.
    progress_encoding: Option<Encoding>,
    /// Attempts used, the running one included.
    attempt: u32,
    /// Lost leases so far.
    stalls: u32,
    /// Lost leases that it survives.
    max_stalls: u32,
    /// Attempts with an unknown effect so far.
    ambiguous: u32,
    /// When and how often it is tried again.
    retry: RetryForm,
    /// How long one attempt may take.
    timeout: Option<Span>,
    /// Words by which it is found.
    #[schema(value_type = Vec<String>)]
    tags: Vec<Name>,
    /// Values of its producer.
    meta: BTreeMap<String, String>,
    /// The `traceparent` of the trace that it belongs to.
    trace: Option<String>,
    /// The `tracestate` beside it.
    trace_state: Option<String>,
    /// How often it was claimed: what an attempt writes counts only under the newest.
    fence: u64,
    /// Whether a running job was asked to stop.
    cancel_requested: bool,
    /// Whether the handler of a running job is known to have begun.
    has_begun: bool,
    /// Why this server cannot read the job.
    unreadable: Option<String>,
    /// When it was accepted.
    enqueued_at: Instant,
    /// When it may start, or might have.
    due_at: Instant,
    /// When it is dead unless it has started.
    expires_at: Option<Instant>,
    /// When it came to its end.
    finished_at: Option<Instant>,
    /// The worker of the running attempt.
    worker: Option<String>,
    /// When the running attempt began.
    started_at: Option<Instant>,
    /// The newest error.
    last_error: Option<String>,
    /// Its attempts; not in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    attempts: Option<Vec<AttemptView>>,
}

/// An attempt of a job.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptView {
    /// From 1.
    number: u32,
    /// Its right to write.
    fence: u64,
    /// The worker that has it.
    worker: String,
    /// When it began.
    started_at: Instant,
    /// When it ended.
    ended_at: Option<Instant>,
    /// How it ended.
    ending: Option<&'static str>,
    /// Of what it failed.
    error: Option<String>,
}

impl AttemptView {
    pub(crate) fn of(attempt: &AttemptRecord, shown: Shown) -> Self {
        Self {
            number: attempt.number,
            fence: attempt.fence,
            worker: attempt.worker.clone(),
            started_at: Instant(attempt.started_at),
            ended_at: attempt.ended_at.map(Instant),
            ending: attempt.ending.map(Ending::as_str),
            error: attempt.error.as_deref().map(|error| error_text(error, shown)),
        }
    }
}

/// What stands in place of an error that is masked.
const MASKED: &str = "(masked)";

fn error_text(error: &str, shown: Shown) -> String {
    if shown == Shown::All { error.to_owned() } else { MASKED.to_owned() }
}

impl JobView {
    /// A job of a list: without attempts, and without what is large.
    pub(crate) fn listed(job: &JobRecord, shown: Shown) -> Self {
        Self::with(job, shown, Content::listed)
    }

    /// A job on its own, with its attempts.
    pub(crate) fn shown(job: &JobRecord, shown: Shown) -> Self {
        let attempts = job.attempts.iter().map(|attempt| AttemptView::of(attempt, shown)).collect();
        Self { attempts: Some(attempts), ..Self::with(job, shown, Content::of) }
    }

    fn with(job: &JobRecord, shown: Shown, content: fn(&[u8]) -> Content) -> Self {
        let content = |bytes: &[u8]| match shown {
            Shown::All => content(bytes),
            Shown::Masked => Content::without(Encoding::Masked),
        };
        let payload = content(&job.payload);
        let apart = |bytes: Option<Content>| bytes.map_or((None, None), |c| (c.value, Some(c.encoding)));
        let (output, output_encoding) = apart(job.output.as_deref().map(content));
        let (progress, progress_encoding) = apart(job.progress.as_deref().map(content));
        let running = job.running();
        Self {
            id: job.id,
            queue: job.queue.clone(),
            kind: job.kind.clone(),
            key: job.key.clone(),
            state: job.state,
            reason: job.reason.map(Reason::as_str),
            priority: job.priority,
            payload: payload.value,
            payload_encoding: payload.encoding,
            payload_bytes: job.payload.len(),
            output,
            output_encoding,
            progress,
            progress_encoding,
            attempt: job.counters.attempt,
            stalls: job.counters.stalls,
            max_stalls: job.spec.stalls_max,
            ambiguous: job.counters.ambiguous,
            retry: RetryForm::of(&job.spec.retry),
            timeout: job.spec.timeout.map(Span),
            tags: job.tags.clone(),
            meta: job.spec.meta.clone(),
            trace: job.spec.trace.as_ref().map(|trace| trace.parent().to_owned()),
            trace_state: job.spec.trace.as_ref().and_then(Trace::state).map(str::to_owned),
            fence: job.fence,
            cancel_requested: job.cancel_requested,
            has_begun: job.has_begun,
            unreadable: job.unreadable.as_ref().map(ToString::to_string),
            enqueued_at: Instant(job.enqueued_at),
            due_at: Instant(job.due_at),
            expires_at: job.expires_at.map(Instant),
            finished_at: job.finished_at.map(Instant),
            worker: running.map(|attempt| attempt.worker.clone()),
            started_at: running.map(|attempt| Instant(attempt.started_at)),
            last_error: job.last_error().map(|error| error_text(error, shown)),
            attempts: None,
        }
    }
}
