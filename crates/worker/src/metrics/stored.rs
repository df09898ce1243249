//! What the store knows, read when someone asks for it: at most once a second, and by a bounded number of calls.

mod read;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use tokio::time::Instant;
use windlass_core::{Name, State};

use self::read::{Queue, read};
use super::labels::{Named, OfQueue, OfState};
use super::workers::by_queue;
use crate::client::Client;

/// For how long an answer of the store is good enough.
const FRESH: Duration = Duration::from_secs(1);
/// How long a scrape waits for the store.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// What the store said last.
#[derive(Default)]
pub(super) struct Stored {
    asked: tokio::sync::Mutex<Option<Instant>>,
    seen: Mutex<Seen>,
}

#[derive(Clone, Default)]
enum Seen {
    /// It was not asked yet.
    #[default]
    Never,
    /// It did not answer.
    Down,
    Up(Arc<Snapshot>),
}

/// One look at the store.
pub(super) struct Snapshot {
    pub(super) scheme: &'static str,
    pub(super) queues: Vec<Queue>,
    /// Leases of living workers.
    pub(super) workers: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfBuild {
    version: &'static str,
    store: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfRules {
    queue: Named,
    paused: bool,
    concurrency: Option<u32>,
    capacity: Option<u64>,
    rate: Option<String>,
}

/// Whether jobs can move.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Work {
    /// Whether the store answers.
    pub store_answers: bool,
    /// Queues that are not paused, have ready jobs, and are served by no worker whose lease lives.
    pub unserved: Vec<Name>,
}

impl Work {
    /// Whether nothing is in the way.
    pub fn is_ok(&self) -> bool {
        self.store_answers && self.unserved.is_empty()
    }
}

impl Stored {
    /// What the store said last.
    pub(super) fn work(&self) -> Work {
        match &*self.seen.lock().unwrap_or_else(PoisonError::into_inner) {
            Seen::Up(snapshot) => {
                let queues = snapshot.queues.iter().filter(|queue| queue.is_unserved());
                Work { store_answers: true, unserved: queues.map(|queue| queue.name.clone()).collect() }
            }
            Seen::Never | Seen::Down => Work { store_answers: false, unserved: Vec::new() },
        }
    }

    /// Asks the store, unless it was asked a moment ago. Who comes meanwhile waits for that answer.
    pub(super) async fn refresh(&self, client: &Client) {
        let mut asked = self.asked.lock().await;
        if asked.is_some_and(|at| at.elapsed() < FRESH) {
            return;
        }
        // In a future of its own: a caller that goes away interrupts no call.
        let client = client.clone();
        let answer = tokio::time::timeout(WAIT_MAX, tokio::spawn(async move { read(&client).await })).await;
        let seen = match answer {
            Ok(Ok(Ok(snapshot))) => Seen::Up(Arc::new(snapshot)),
            Ok(Ok(Err(error))) => {
                tracing::debug!(%error, "the store cannot be asked for its metrics");
                Seen::Down
            }
            Ok(Err(_)) | Err(_) => Seen::Down,
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
        *asked = Some(Instant::now());
    }
}

impl Collector for Stored {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let up = |encoder: &mut DescriptorEncoder<'_>, value: i64| {
            let help = "Whether the store answered when it was last asked";
            ConstGauge::new(value).encode(encoder.encode_descriptor(
                "store_up",
                help,
                None,
                MetricType::Gauge,
            )?)
        };
        match seen {
            Seen::Never => Ok(()),
            Seen::Down => up(&mut encoder, 0),
            Seen::Up(snapshot) => {
                up(&mut encoder, 1)?;
                snapshot.encode(&mut encoder)
            }
        }
    }
}

impl Snapshot {
    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let build = OfBuild { version: env!("CARGO_PKG_VERSION"), store: self.scheme };
        let help = "The version of Windlass, and the kind of store";
        let mut info = encoder.encode_descriptor("build_info", help, None, MetricType::Gauge)?;
        ConstGauge::new(1_i64).encode(info.encode_family(&build)?)?;
        let help = "Workers whose lease lives";
        let workers = encoder.encode_descriptor("store_workers", help, None, MetricType::Gauge)?;
        ConstGauge::new(self.workers as f64).encode(workers)?;
        if self.queues.is_empty() {
            return Ok(());
        }
        self.encode_counts(encoder)?;
        let of = |pick: fn(&Queue) -> u64| -> Vec<(Name, u64)> {
            self.queues.iter().map(|queue| (queue.name.clone(), pick(queue))).collect()
        };
        let help = "Workers whose lease lives and that serve the queue";
        by_queue(encoder, "queue_workers", help, of(|queue| queue.workers))?;
        let help = "Whether the age of the oldest ready job is at least so much, for there are more than were looked at";
        by_queue(encoder, "oldest_ready_is_partial", help, of(|queue| u64::from(queue.is_partial)))?;
        let help = "For how long the ready job that waits longest could have started";
        let mut metric = encoder.encode_descriptor("oldest_ready_seconds", help, None, MetricType::Gauge)?;
        for queue in &self.queues {
            let labels = OfQueue { queue: Named(queue.name.clone()) };
            ConstGauge::new(queue.oldest.as_secs_f64()).encode(metric.encode_family(&labels)?)?;
        }
        self.encode_rules(encoder)
    }

    fn encode_counts(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metric =
            encoder.encode_descriptor("jobs", "Jobs of a queue in a state", None, MetricType::Gauge)?;
        for queue in &self.queues {
            for state in State::ALL {
                let labels = OfState { queue: Named(queue.name.clone()), state: state.as_str() };
                ConstGauge::new(queue.counts.of(state) as f64).encode(metric.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn encode_rules(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut metric =
            encoder.encode_descriptor("queue_info", "The rules of a queue", None, MetricType::Gauge)?;
        for queue in self.queues.iter().filter(|queue| !queue.is_merged) {
            let labels = OfRules {
                queue: Named(queue.name.clone()),
                paused: queue.is_paused,
                concurrency: queue.concurrency,
                capacity: queue.capacity,
                rate: queue.rate.clone(),
            };
            ConstGauge::new(1_i64).encode(metric.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stored").finish_non_exhaustive()
    }
}
