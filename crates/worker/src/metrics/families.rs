//! Every metric that is recorded as things happen: its name, what it says of itself, and its buckets.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::capped::Capped;
use super::labels::{
    OfCall, OfCause, OfError, OfKind, OfMetric, OfOutcome, OfQueueCause, OfReason, OfResult,
};
use super::messaging::Messaging;
use super::stored::Stored;
use super::workers::Workers;

/// Upper bounds of histograms of jobs in seconds, from a millisecond to six hours.
const JOB_BUCKETS: [f64; 20] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
    3_600.0, 7_200.0, 21_600.0,
];
/// Upper bounds of histograms of store calls in seconds.
const CALL_BUCKETS: [f64; 15] = [
    0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

pub(super) fn of_jobs() -> Histogram {
    Histogram::new(JOB_BUCKETS)
}

fn of_calls() -> Histogram {
    Histogram::new(CALL_BUCKETS)
}

/// The metrics.
pub(super) struct Families {
    pub(super) enqueued: Capped<OfResult, Counter>,
    pub(super) started: Capped<OfKind, Counter>,
    pub(super) settled: Capped<OfOutcome, Counter>,
    pub(super) retried: Capped<OfKind, Counter>,
    pub(super) dead: Capped<OfReason, Counter>,
    pub(super) wait: Capped<OfKind, Histogram>,
    pub(super) run: Capped<OfKind, Histogram>,
    pub(super) reaped: Capped<OfQueueCause, Counter>,
    pub(super) fenced: Family<OfCause, Counter>,
    pub(super) calls: Family<OfCall, Histogram, fn() -> Histogram>,
    pub(super) errors: Family<OfError, Counter>,
    dropped: Family<OfMetric, Counter>,
    pub(super) messaging: Option<Messaging>,
}

impl Families {
    pub(super) fn new() -> Self {
        let dropped = Family::<OfMetric, Counter>::default();
        let full = |metric| dropped.get_or_create(&OfMetric { metric }).clone();
        Self {
            enqueued: Capped::new(Counter::default, full("enqueued")),
            started: Capped::new(Counter::default, full("started")),
            settled: Capped::new(Counter::default, full("settled")),
            retried: Capped::new(Counter::default, full("retried")),
            dead: Capped::new(Counter::default, full("dead")),
            wait: Capped::new(of_jobs, full("wait")),
            run: Capped::new(of_jobs, full("run")),
            reaped: Capped::new(Counter::default, full("reaped")),
            fenced: Family::default(),
            calls: Family::new_with_constructor(of_calls),
            errors: Family::default(),
            dropped,
            messaging: None,
        }
        .begun()
    }

    /// What should never happen is there from the beginning, at 0: only so can an alert see the first time.
    fn begun(self) -> Self {
        drop(self.fenced.get_or_create(&OfCause { cause: "settle" }));
        for call in ["enqueue", "claim", "settle", "renew", "reap"] {
            for kind in ["unavailable", "unknown", "fatal"] {
                drop(self.errors.get_or_create(&OfError { call, kind }));
            }
        }
        self
    }

    pub(super) fn with_messaging() -> Self {
        let plain = Self::new();
        let dropped = plain.dropped.get_or_create(&OfMetric { metric: "messaging" }).clone();
        Self { messaging: Some(Messaging::new(&dropped)), ..plain }
    }

    /// Something had no room among the series of a metric.
    pub(super) fn dropped(&self, metric: &'static str) {
        self.dropped.get_or_create(&OfMetric { metric }).inc();
    }
}

/// All metrics, by name.
pub(super) fn registry(families: &Families, workers: &Arc<Workers>, stored: &Arc<Stored>) -> Registry {
    let mut registry = Registry::default();
    if let Some(messaging) = &families.messaging {
        messaging.register(&mut registry);
    }
    let own = registry.sub_registry_with_prefix("windlass");
    own.register(
        "enqueued",
        "Jobs that clients handed in, by what the store said",
        families.enqueued.family.clone(),
    );
    own.register("started", "Attempts that were given a slot", families.started.family.clone());
    own.register(
        "settled",
        "Attempts whose end was recorded, by how they ended",
        families.settled.family.clone(),
    );
    own.register(
        "retried",
        "Attempts that failed and are followed by another",
        families.retried.family.clone(),
    );
    own.register("dead", "Jobs that workers gave up, by reason", families.dead.family.clone());
    own.register(
        "wait_seconds",
        "From when a job could start until its handler began",
        families.wait.family.clone(),
    );
    own.register(
        "run_seconds",
        "From when a handler began until its outcome was known",
        families.run.family.clone(),
    );
    own.register(
        "reaped",
        "Jobs that were taken back from workers whose lease was lost",
        families.reaped.family.clone(),
    );
    own.register(
        "fenced",
        "Writes that came too late: the job had gone to another attempt",
        families.fenced.clone(),
    );
    own.register("store_call_seconds", "How long calls of the store took", families.calls.clone());
    own.register("store_errors", "Calls of the store that failed, by kind of error", families.errors.clone());
    own.register(
        "labels_dropped",
        "Times that a queue or kind had no series of its own, for there were too many",
        families.dropped.clone(),
    );
    own.register_collector(Box::new(Arc::clone(workers)));
    own.register_collector(Box::new(Arc::clone(stored)));
    registry
}
