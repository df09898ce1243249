//! The same under the names that OpenTelemetry has for messaging systems, version 1.44, as its Prometheus exporters write them.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use windlass_core::Name;
use windlass_core::outcome::Ending;

use super::capped::{Capped, Labels, other};
use super::families::of_jobs;
use super::labels::Named;

/// Whether `messaging` stands in the list of conventions that a program has opted into.
pub(super) fn is_opted_in(list: &str) -> bool {
    list.split(',').map(str::trim).any(|word| matches!(word, "messaging" | "messaging/dup"))
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct OfOperation {
    messaging_system: &'static str,
    messaging_operation_name: &'static str,
    messaging_destination_name: Named,
    /// Empty where all went well, which is the same as no label.
    error_type: &'static str,
}

impl OfOperation {
    fn new(messaging_operation_name: &'static str, queue: &Name, error_type: &'static str) -> Self {
        let messaging_destination_name = Named(queue.clone());
        Self {
            messaging_system: "windlass",
            messaging_operation_name,
            messaging_destination_name,
            error_type,
        }
    }
}

impl Labels for OfOperation {
    fn merged(&self) -> Self {
        Self { messaging_destination_name: Named(other()), ..self.clone() }
    }
}

pub(super) struct Messaging {
    operations: Capped<OfOperation, Histogram>,
    processed: Capped<OfOperation, Histogram>,
    sent: Capped<OfOperation, Counter>,
    consumed: Capped<OfOperation, Counter>,
}

impl Messaging {
    pub(super) fn new(dropped: &Counter) -> Self {
        Self {
            operations: Capped::new(of_jobs, dropped.clone()),
            processed: Capped::new(of_jobs, dropped.clone()),
            sent: Capped::new(Counter::default, dropped.clone()),
            consumed: Capped::new(Counter::default, dropped.clone()),
        }
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let own = registry.sub_registry_with_prefix("messaging");
        let (operations, processed) = (self.operations.family.clone(), self.processed.family.clone());
        own.register(
            "client_operation_duration_seconds",
            "How long an operation of a client took",
            operations,
        );
        own.register("process_duration_seconds", "How long an attempt took", processed);
        own.register("client_sent_messages", "Jobs that were handed in", self.sent.family.clone());
        own.register(
            "client_consumed_messages",
            "Jobs that handlers were given",
            self.consumed.family.clone(),
        );
    }

    pub(super) fn sent(&self, queue: &Name, jobs: u64, took: Duration, error: &'static str) {
        let labels = OfOperation::new("enqueue", queue, error);
        self.operations.get(&labels).observe(took.as_secs_f64());
        self.sent.get(&labels).inc_by(jobs);
    }

    pub(super) fn consumed(&self, queue: &Name) {
        self.consumed.get(&OfOperation::new("process", queue, "")).inc();
    }

    pub(super) fn processed(&self, queue: &Name, took: Duration, ending: Ending) {
        let error = match ending {
            Ending::Completed | Ending::Snoozed | Ending::Returned | Ending::Discarded => "",
            failed => failed.as_str(),
        };
        self.processed.get(&OfOperation::new("process", queue, error)).observe(took.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_opts_in_by_a_word_of_its_list() {
        for (list, is_in) in [
            ("", false),
            ("http", false),
            ("messaging", true),
            ("http, messaging/dup", true),
            ("messagings", false),
        ] {
            assert_eq!(is_opted_in(list), is_in, "{list}");
        }
    }
}
