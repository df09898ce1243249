//! Gauges that the workers of the process are asked for at each scrape. Several workers count together.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use windlass_core::Name;

use super::labels::{Named, OfQueue};

/// A worker that can be asked how it is.
pub(crate) trait Watched: Send + Sync + 'static {
    /// How it is now; nothing when it has ended.
    fn gauges(&self) -> Option<WorkerGauges>;
}

/// How a worker is.
pub(crate) struct WorkerGauges {
    pub(crate) queues: Vec<QueueGauges>,
    /// Jobs that were claimed and have not started.
    pub(crate) buffered: usize,
    /// Outcomes that wait to be recorded.
    pub(crate) unsettled: usize,
    /// By how much its runtime is late.
    pub(crate) runtime_lag: Duration,
    /// For how long a renewal of its lease has been due; since its start where it has none.
    pub(crate) renew_lag: Duration,
    pub(crate) lease_ttl: Duration,
    pub(crate) leases_lost: u64,
    pub(crate) is_ok: bool,
}

/// How a worker is in one queue.
pub(crate) struct QueueGauges {
    pub(crate) queue: Name,
    pub(crate) running: usize,
    /// How many slots it may use.
    pub(crate) slots: usize,
}

/// The workers that are asked.
#[derive(Default)]
pub(super) struct Workers(Mutex<Vec<Weak<dyn Watched>>>);

impl Workers {
    pub(super) fn add<W: Watched>(&self, worker: &Arc<W>) {
        let weak: Weak<W> = Arc::downgrade(worker);
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|worker| worker.strong_count() > 0);
        all.push(weak);
    }

    fn read(&self) -> Vec<WorkerGauges> {
        // Not under the lock: a worker takes locks of its own.
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().filter_map(Weak::upgrade).filter_map(|worker| worker.gauges()).collect()
    }
}

impl Collector for Workers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let workers = self.read();
        if workers.is_empty() {
            return Ok(());
        }
        let mut queues = BTreeMap::<&Name, (u64, u64)>::new();
        for queue in workers.iter().flat_map(|worker| &worker.queues) {
            let (running, slots) = queues.entry(&queue.queue).or_default();
            *running += queue.running as u64;
            *slots += queue.slots as u64;
        }
        let of_queues = |pick: fn(&(u64, u64)) -> u64| -> Vec<_> {
            queues.iter().map(|(queue, both)| ((*queue).clone(), pick(both))).collect()
        };
        by_queue(&mut encoder, "running", "Attempts that run", of_queues(|(running, _)| *running))?;
        by_queue(&mut encoder, "slots", "Slots that a queue may use", of_queues(|(_, slots)| *slots))?;
        let sum = |pick: fn(&WorkerGauges) -> usize| workers.iter().map(pick).sum::<usize>() as f64;
        let most = |pick: fn(&WorkerGauges) -> Duration| {
            workers.iter().map(pick).max().unwrap_or_default().as_secs_f64()
        };
        let lost: u64 = workers.iter().map(|worker| worker.leases_lost).sum();
        let not_ok = workers.iter().filter(|worker| !worker.is_ok).count();
        for (name, help, value) in [
            ("workers", "Workers of this process that run", workers.len() as f64),
            ("workers_unhealthy", "Workers of which some part does not work", not_ok as f64),
            ("buffered", "Jobs that were claimed and have not started", sum(|worker| worker.buffered)),
            ("unsettled", "Outcomes that wait to be recorded", sum(|worker| worker.unsettled)),
            ("runtime_lag_seconds", "By how much the runtime is late", most(|worker| worker.runtime_lag)),
            (
                "lease_renew_lag_seconds",
                "For how long a renewal of a lease has been due",
                most(|worker| worker.renew_lag),
            ),
            (
                "lease_ttl_seconds",
                "How long a lease lives without a renewal",
                most(|worker| worker.lease_ttl),
            ),
            ("leases_lost", "Leases that the workers that run have lost", lost as f64),
        ] {
            let gauge = ConstGauge::new(value);
            gauge.encode(encoder.encode_descriptor(name, help, None, MetricType::Gauge)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").finish_non_exhaustive()
    }
}

/// A gauge with one sample for each queue.
pub(super) fn by_queue(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    help: &str,
    samples: Vec<(Name, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    for (queue, value) in samples {
        let labels = OfQueue { queue: Named(queue) };
        ConstGauge::new(value as f64).encode(metric.encode_family(&labels)?)?;
    }
    Ok(())
}
