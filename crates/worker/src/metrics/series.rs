//! The handles of one queue and kind: an attempt holds them, so that counting it costs a few nanoseconds and no lookup.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use windlass_core::outcome::{Ending, Reason};
use windlass_core::store::Enqueued;
use windlass_core::{Name, State};

use super::families::Families;
use super::labels::{Named, OfKind, OfOutcome, OfReason, OfResult};

/// Handles, each made when it is first used: what never happens has no series.
pub(crate) struct Series {
    families: Arc<Families>,
    queue: Name,
    kind: Name,
    started: OnceLock<Counter>,
    retried: OnceLock<Counter>,
    wait: OnceLock<Histogram>,
    run: OnceLock<Histogram>,
    settled: [OnceLock<Counter>; Ending::ALL.len()],
    dead: [OnceLock<Counter>; Reason::ALL.len()],
}

/// How long an attempt waited and ran, as far as it did.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Took {
    pub(crate) wait: Option<Duration>,
    pub(crate) run: Option<Duration>,
}

impl Series {
    pub(super) fn new(families: Arc<Families>, queue: Name, kind: Name) -> Self {
        Self {
            families,
            queue,
            kind,
            started: OnceLock::new(),
            retried: OnceLock::new(),
            wait: OnceLock::new(),
            run: OnceLock::new(),
            settled: [const { OnceLock::new() }; Ending::ALL.len()],
            dead: [const { OnceLock::new() }; Reason::ALL.len()],
        }
    }

    /// Whether these are the handles for it.
    pub(crate) fn is_of(&self, queue: &Name, kind: &Name) -> bool {
        self.kind == *kind && self.queue == *queue
    }

    /// An attempt was given a slot.
    pub(crate) fn started(&self) {
        self.started.get_or_init(|| self.families.started.get(&self.of_kind())).inc();
        if let Some(messaging) = &self.families.messaging {
            messaging.consumed(&self.queue);
        }
    }

    /// The end of an attempt was recorded, and its job is in this state now.
    pub(crate) fn settled(&self, ending: Ending, state: State, reason: Option<Reason>, took: Took) {
        let outcome = ending.as_str();
        let settled = self.settled[ending as usize].get_or_init(|| {
            let (queue, kind) = self.names();
            self.families.settled.get(&OfOutcome { queue, kind, outcome })
        });
        settled.inc();
        if !state.is_terminal() && !matches!(ending, Ending::Snoozed | Ending::Returned) {
            self.retried.get_or_init(|| self.families.retried.get(&self.of_kind())).inc();
        }
        if state == State::Dead {
            self.died(reason);
        }
        if let Some(wait) = took.wait {
            self.wait.get_or_init(|| self.families.wait.get(&self.of_kind())).observe(wait.as_secs_f64());
        }
        if let Some(run) = took.run {
            self.run.get_or_init(|| self.families.run.get(&self.of_kind())).observe(run.as_secs_f64());
            if let Some(messaging) = &self.families.messaging {
                messaging.processed(&self.queue, run, ending);
            }
        }
    }

    /// A job was given up.
    pub(crate) fn died(&self, reason: Option<Reason>) {
        let dead = |reason: &'static str| {
            let (queue, kind) = self.names();
            self.families.dead.get(&OfReason { queue, kind, reason })
        };
        match reason {
            Some(reason) => self.dead[place(reason)].get_or_init(|| dead(reason.as_str())).inc(),
            None => dead("unknown").inc(),
        };
    }

    /// A job was handed in.
    pub(crate) fn enqueued(&self, result: &'static str) {
        let (queue, kind) = self.names();
        self.families.enqueued.get(&OfResult { queue, kind, result }).inc();
    }

    fn of_kind(&self) -> OfKind {
        let (queue, kind) = self.names();
        OfKind { queue, kind }
    }

    fn names(&self) -> (Named, Named) {
        (Named(self.queue.clone()), Named(self.kind.clone()))
    }
}

fn place(reason: Reason) -> usize {
    Reason::ALL.iter().position(|other| *other == reason).unwrap_or_default()
}

/// The word for what became of a job that was handed in.
pub(crate) const fn result(answer: &Enqueued) -> &'static str {
    match answer {
        Enqueued::New => "new",
        Enqueued::Existing(_) => "existing",
        Enqueued::Repeated => "repeated",
        Enqueued::Duplicate { .. } => "duplicate",
        Enqueued::Replaced(_) => "replaced",
    }
}
