//! A family of metrics that cannot grow without bounds, whatever its labels are called.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use windlass_core::Name;

use super::SERIES_MAX;

/// The name that stands for all queues, or kinds, that have no series of their own.
pub(super) fn other() -> Name {
    Name::new("other").expect("a good name")
}

/// Labels that can be taken for others.
pub(super) trait Labels: EncodeLabelSet + Clone + Debug + Eq + Hash + Send + Sync + 'static {
    /// The same with names that are always the same.
    fn merged(&self) -> Self;
}

/// At most [`SERIES_MAX`] series with labels of their own; all others share a few.
pub(super) struct Capped<L: Clone + Hash + Eq, M, C = fn() -> M> {
    pub(super) family: Family<L, M, C>,
    /// How many have labels of their own.
    count: Mutex<usize>,
    dropped: Counter,
}

impl<L: Labels, M: Clone, C: MetricConstructor<M>> Capped<L, M, C> {
    /// `dropped` counts how often there was no room.
    pub(super) fn new(make: C, dropped: Counter) -> Self {
        Self { family: Family::new_with_constructor(make), count: Mutex::new(0), dropped }
    }

    /// The metric with these labels, or the one for all without labels of their own.
    pub(super) fn get(&self, labels: &L) -> M {
        if let Some(metric) = self.family.get(labels) {
            return metric.clone();
        }
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        if *count < SERIES_MAX && self.family.get(labels).is_none() {
            *count += 1;
        } else if self.family.get(labels).is_none() {
            self.dropped.inc();
            return self.family.get_or_create(&labels.merged()).clone();
        }
        self.family.get_or_create(labels).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::labels::{Named, OfKind};
    use super::*;

    #[test]
    fn ten_thousand_queues_make_a_thousand_series() {
        let dropped = Counter::default();
        let capped: Capped<OfKind, Counter> = Capped::new(Counter::default, dropped.clone());
        let labels = |number: usize| OfKind {
            queue: Named(Name::new(format!("q{number}")).unwrap()),
            kind: Named(Name::new("k").unwrap()),
        };
        for number in 0..10_000 {
            capped.get(&labels(number)).inc();
            capped.get(&labels(number)).inc();
        }
        let mut text = String::new();
        let mut registry = prometheus_client::registry::Registry::default();
        registry.register("c", "a counter", capped.family.clone());
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let series: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(series.len(), SERIES_MAX + 1);
        let shared = series.iter().find(|line| line.contains(r#"queue="other",kind="other""#)).unwrap();
        assert!(shared.ends_with(" 18000"), "nothing is lost: {shared}");
        assert_eq!(dropped.get(), 18_000);
    }
}
