//! Metrics of the workers and clients of one process, as text for Prometheus. A program makes one [`Metrics`], hands it to its
//! workers, and serves [`Metrics::encode`] under a route of its own.
//!
//! Parts of the engine record through `crate::observe`, which is empty without the feature. What must hold: handles are kept
//! per queue and kind, and no metric has more than [`SERIES_MAX`] series whatever queues and kinds are called.

mod capped;
mod families;
mod labels;
mod messaging;
mod series;
mod stored;
mod text;
mod workers;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use prometheus_client::registry::Registry;
use windlass_core::Name;
use windlass_core::outcome::Ending;

use self::families::Families;
use self::labels::{Named, OfCall, OfCause, OfError, OfQueueCause};
pub(crate) use self::series::{Series, Took, result};
use self::stored::Stored;
pub use self::stored::Work;
use self::workers::Workers;
pub(crate) use self::workers::{QueueGauges, Watched, WorkerGauges};
use crate::client::Client;

/// The most series that one metric has; further queues and kinds are counted together, as `other`.
pub const SERIES_MAX: usize = 1_000;

/// What the workers and clients of a process count and measure. Cheap to clone; the clones are one.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> windlass_worker::Result<()> {
/// # use std::sync::Arc;
/// # use windlass_worker::{Client, Ctx, Job, JobError, Metrics, Worker};
/// # #[derive(serde::Serialize, serde::Deserialize)] struct Greet { name: String }
/// # impl Job for Greet { const KIND: &'static str = "greet"; type Output = (); }
/// # async fn greet(_job: Greet, _ctx: Ctx) -> Result<(), JobError> { Ok(()) }
/// # let client = Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
/// let metrics = Metrics::new();
/// let client = client.with_metrics(&metrics); // counts what it enqueues,
/// client.enqueue(Greet { name: "Ferris".into() }).await?;
/// Worker::new(&client).handle(greet).drain().await?; // and so do its workers
///
/// let text = metrics.encode();
/// assert!(text.contains(r#"windlass_settled_total{queue="default",kind="greet",outcome="completed"} 1"#));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Metrics {
    inner: Arc<Inner>,
}

struct Inner {
    registry: Registry,
    families: Arc<Families>,
    series: RwLock<HashMap<(Name, Name), Arc<Series>>>,
    workers: Arc<Workers>,
    stored: Arc<Stored>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// What the header `Content-Type` says of the text.
    pub const CONTENT_TYPE: &'static str = "text/plain; version=0.0.4; charset=utf-8";

    /// Nothing is counted yet.
    pub fn new() -> Self {
        Self::with(Families::new())
    }

    /// The same, and beside the names of Windlass those of the messaging conventions of OpenTelemetry: `messaging_process_duration_seconds`,
    /// `messaging_client_operation_duration_seconds`, `messaging_client_sent_messages_total` and
    /// `messaging_client_consumed_messages_total`.
    pub fn with_messaging_names() -> Self {
        Self::with(Families::with_messaging())
    }

    /// The one or the other, as the variable `OTEL_SEMCONV_STABILITY_OPT_IN` says: with the names of OpenTelemetry where `messaging` or
    /// `messaging/dup` stands in its list.
    pub fn from_env() -> Self {
        let opted = std::env::var("OTEL_SEMCONV_STABILITY_OPT_IN").unwrap_or_default();
        if messaging::is_opted_in(&opted) { Self::with_messaging_names() } else { Self::new() }
    }

    fn with(families: Families) -> Self {
        let (families, workers, stored) = (Arc::new(families), Arc::default(), Arc::default());
        let registry = families::registry(&families, &workers, &stored);
        Self { inner: Arc::new(Inner { registry, families, series: RwLock::default(), workers, stored }) }
    }

    /// The text as of now: what the workers and clients of this process know. It asks no store.
    pub fn encode(&self) -> String {
        text::encode(&self.inner.registry)
    }

    /// The same, and what the store knows: how many jobs each queue holds, by state, since when the oldest waits, and its rules.
    /// The store is asked at most once a second, by a bounded number of calls, however many ask here. If it does not answer, what it
    /// said last is left out, and `windlass_store_up` is 0.
    pub async fn scrape(&self, client: &Client) -> String {
        self.inner.stored.refresh(client).await;
        self.encode()
    }

    /// Whether jobs can move, by the same look at the store as a [scrape](Self::scrape): one a second at most.
    pub async fn work(&self, client: &Client) -> Work {
        self.inner.stored.refresh(client).await;
        self.inner.stored.work()
    }

    /// The handles for a queue and a kind.
    pub(crate) fn series(&self, queue: &Name, kind: &Name) -> Arc<Series> {
        let names = (queue.clone(), kind.clone());
        if let Some(series) = self.inner.series.read().unwrap_or_else(PoisonError::into_inner).get(&names) {
            return Arc::clone(series);
        }
        let mut all = self.inner.series.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(series) = all.get(&names) {
            return Arc::clone(series);
        }
        let families = Arc::clone(&self.inner.families);
        if all.len() < SERIES_MAX {
            let series = Arc::new(Series::new(families, queue.clone(), kind.clone()));
            all.insert(names, Arc::clone(&series));
            return series;
        }
        families.dropped("handles");
        let other = capped::other();
        let shared = all.entry((other.clone(), other.clone()));
        Arc::clone(shared.or_insert_with(|| Arc::new(Series::new(families, other.clone(), other))))
    }

    /// A call of the store was answered.
    pub(crate) fn called(&self, call: &'static str, took: Duration) {
        self.inner.families.calls.get_or_create(&OfCall { call }).observe(took.as_secs_f64());
    }

    /// A call of the store failed.
    pub(crate) fn failed(&self, call: &'static str, kind: &'static str) {
        self.inner.families.errors.get_or_create(&OfError { call, kind }).inc();
    }

    /// Jobs were handed in together.
    pub(crate) fn handed_in(&self, queue: &Name, jobs: u64, took: Duration, error: Option<&'static str>) {
        self.called("enqueue", took);
        if let Some(kind) = error {
            self.failed("enqueue", kind);
        }
        if let Some(messaging) = &self.inner.families.messaging {
            messaging.sent(queue, jobs, took, error.unwrap_or_default());
        }
    }

    /// A job was taken back.
    pub(crate) fn reaped(&self, queue: &Name, ending: Ending) {
        let labels = OfQueueCause { queue: Named(queue.clone()), cause: ending.as_str() };
        self.inner.families.reaped.get(&labels).inc();
    }

    /// A write came too late.
    pub(crate) fn fenced(&self, cause: &'static str) {
        self.inner.families.fenced.get_or_create(&OfCause { cause }).inc();
    }

    /// Reads the gauges of a worker at each scrape, for as long as it lives.
    pub(crate) fn watch(&self, worker: &Arc<impl Watched>) {
        self.inner.workers.add(worker);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}
