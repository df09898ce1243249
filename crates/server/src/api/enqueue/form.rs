//! A job as it is handed in, with the names of the command line.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windlass_core::job::{OnDead, Trace};
use windlass_core::unique::{Lifetime, Unique};
use windlass_core::{Bytes, JobId, Options, forms};
use windlass_worker::EnqueueAs;

use crate::problem::Problem;
use crate::wire::content::bytes;
use crate::wire::{Encoding, Instant, RetryForm, Span};

/// A job to be enqueued. What is not said has the default of its queue, then that of the library.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewJob)]
pub(crate) struct JobForm {
    /// The kind of job, as its handler calls it.
    pub(super) kind: String,
    /// The payload: any JSON, or a text with another `payload_encoding`. `null` if nothing is said.
    #[schema(value_type = serde_json::Value)]
    payload: Option<Box<RawValue>>,
    /// How the payload is written: `json`, `utf8` or `base64`.
    #[serde(default)]
    payload_encoding: Encoding,
    /// The queue; `default` if nothing is said.
    queue: Option<String>,
    /// An id of the caller's own, so that the call may be repeated.
    #[schema(value_type = Option<String>, format = Uuid)]
    pub(super) id: Option<JobId>,
    /// Higher is claimed first.
    priority: Option<i16>,
    /// Not before this long after it is accepted.
    delay: Option<Span>,
    /// Not before this instant, by the store's clock.
    at: Option<Instant>,
    /// Dead with reason `expired` unless it starts within this time.
    expires_in: Option<Span>,
    /// The key that it takes turns by with jobs of other keys.
    key: Option<String>,
    /// At most one job of its queue has this; another one is answered with the job that has it.
    unique: Option<UniqueForm>,
    /// When and how often it is tried again.
    retry: Option<RetryForm>,
    /// How long one attempt may take.
    timeout: Option<Span>,
    /// How many lost leases it survives.
    max_stalls: Option<u32>,
    /// Words by which it is found; at most 16.
    #[serde(default)]
    tags: Vec<String>,
    /// Values that the handler and readers of the job can see.
    #[serde(default)]
    meta: BTreeMap<String, String>,
    /// The trace that it belongs to: a W3C `traceparent`.
    trace: Option<String>,
    /// The `tracestate` beside it.
    trace_state: Option<String>,
    /// What is enqueued when it dies.
    on_dead: Option<OnDeadForm>,
    /// The queue that it is sent to when it dies, as a new job.
    forward_dead: Option<String>,
    /// Where its queue is full, waits for room for as long as this, at most a minute.
    wait_for_room: Option<Span>,
    /// Cancels the waiting job that holds its unique key, and takes its place.
    #[serde(default)]
    supersede: bool,
}

/// By what a job is the only one, for how long, and what happens to another one.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Unique)]
pub(crate) struct UniqueForm {
    /// A word of the caller's own, as an order number.
    key: Option<String>,
    /// Some fields of the payload. Without a key or fields it is the whole payload.
    #[serde(default)]
    fields: Vec<String>,
    /// How long the key is held: `end` (of the job), `start`, or a duration.
    until: Option<String>,
    /// The job that waits says what the new one says.
    #[serde(default)]
    replace: bool,
    /// As `replace`, and it waits as long again as the new one would, but for so long in all.
    debounce: Option<Span>,
    /// Jobs of other kinds in the queue count as well.
    #[serde(default)]
    across_kinds: bool,
}

/// What is enqueued when a job dies.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = OnDead)]
pub(crate) struct OnDeadForm {
    /// The kind.
    kind: String,
    /// The queue; that of the job if nothing is said.
    queue: Option<String>,
}

impl JobForm {
    /// How the call waits, where it does.
    pub(super) fn how(&self) -> EnqueueAs {
        let mut how = EnqueueAs::default();
        if let Some(wait) = self.wait_for_room {
            how = how.wait_for_room(wait.0.min(crate::bounds::WAIT_MAX));
        }
        if self.supersede { how.supersede() } else { how }
    }

    /// Whether the call would wait or cancel.
    pub(super) fn has_own_call(&self) -> bool {
        self.wait_for_room.is_some() || self.supersede
    }

    /// The kind, the payload and the options of a job that a schedule makes.
    pub(crate) fn read_template(self, at: &str) -> Result<(String, Bytes, Options), Problem> {
        let kind = self.kind.clone();
        for (field, is_said) in [
            ("id", self.id.is_some()),
            ("delay", self.delay.is_some()),
            ("at", self.at.is_some()),
            ("wait_for_room", self.wait_for_room.is_some()),
            ("supersede", self.supersede),
        ] {
            if is_said {
                return Err(Problem::invalid(format!("{at}{field}"), "this is not for jobs of a schedule"));
            }
        }
        check_kind(&kind, at)?;
        let (payload, options) = self.read(at)?;
        Ok((kind, payload, options))
    }

    /// The payload, and the options as they were said. `at` is where the form stands.
    pub(super) fn read(self, at: &str) -> Result<(Bytes, Options), Problem> {
        let path = |field: &str| format!("{at}{field}");
        let payload = bytes(&path("payload"), self.payload.as_deref(), self.payload_encoding)?;
        let mut options = Options::new();
        if let Some(queue) = self.queue {
            options = options.queue(queue);
        }
        if let Some(priority) = self.priority {
            options = options.priority(priority);
        }
        if let Some(delay) = self.delay {
            options = options.delay(delay.0);
        }
        if let Some(instant) = self.at {
            options = options.at(instant);
        }
        if let Some(expiry) = self.expires_in {
            options = options.expires_in(expiry.0);
        }
        if let Some(key) = self.key {
            options = options.key(key);
        }
        if let Some(unique) = self.unique {
            options = options.unique(unique.read(&path("unique"))?);
        }
        if let Some(retry) = self.retry {
            options = options.retry(retry.policy(&path("retry"))?);
        }
        if let Some(timeout) = self.timeout {
            options = options.timeout(timeout.0);
        }
        if let Some(stalls) = self.max_stalls {
            options = options.max_stalls(stalls);
        }
        if let Some(trace) = self.trace {
            let trace = Trace::new(trace, self.trace_state);
            options = options.trace(trace.map_err(|error| Problem::invalid(path("trace"), error))?);
        }
        if let Some(hook) = self.on_dead {
            options = options.on_dead(hook.read(&path("on_dead"))?);
        }
        if let Some(queue) = self.forward_dead {
            options = options.forward_dead(queue);
        }
        options = self.tags.into_iter().fold(options, Options::tag);
        options = self.meta.into_iter().fold(options, |options, (key, value)| options.meta(key, value));
        Ok((payload, options))
    }
}

/// Refuses kinds of the engine's own: what runs them trusts their payload.
pub(super) fn check_kind(kind: &str, at: &str) -> Result<(), Problem> {
    if kind.starts_with(windlass_core::name::INTERNAL) {
        let why = "kinds that begin with windlass. are the engine's own";
        return Err(Problem::invalid(format!("{at}kind"), why));
    }
    Ok(())
}

impl UniqueForm {
    fn read(self, at: &str) -> Result<Unique, Problem> {
        let unique = match (self.key, self.fields.is_empty()) {
            (Some(key), true) => Unique::key(key),
            (None, false) => Unique::fields(self.fields),
            (None, true) => Unique::payload(),
            (Some(_), false) => return Err(Problem::invalid(at, "say a key or fields, not both")),
        };
        let until = self.until.as_deref().map(forms::lifetime).transpose();
        let unique = match until.map_err(|why| Problem::invalid(format!("{at}.until"), why))? {
            None | Some(Lifetime::End) => unique,
            Some(Lifetime::Window(window)) => unique.for_window(window),
            Some(_) => unique.until_start(),
        };
        let unique = match self.debounce {
            Some(wait_max) => unique.debounce(Some(wait_max.0)),
            None if self.replace => unique.replace(),
            None => unique,
        };
        Ok(if self.across_kinds { unique.across_kinds() } else { unique })
    }
}

impl OnDeadForm {
    pub(crate) fn of(hook: &OnDead) -> Self {
        Self { kind: hook.kind.to_string(), queue: hook.queue.as_ref().map(ToString::to_string) }
    }

    pub(crate) fn read(&self, at: &str) -> Result<OnDead, Problem> {
        check_kind(&self.kind, &format!("{at}."))?;
        let hook = OnDead::kind(&self.kind).map_err(|error| Problem::invalid(format!("{at}.kind"), error))?;
        match &self.queue {
            Some(queue) => hook.queue(queue).map_err(|error| Problem::invalid(format!("{at}.queue"), error)),
            None => Ok(hook),
        }
    }
}
