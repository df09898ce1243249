//! How late the runtime is: a handler that holds its threads shows here first.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// The lag of the runtime.
#[derive(Debug, Default)]
pub(crate) struct Lag {
    last_micros: AtomicU64,
    max_micros: AtomicU64,
}

const PERIOD: Duration = Duration::from_millis(250);
/// A lag worth a warning.
const WARN: Duration = Duration::from_millis(500);

impl Lag {
    pub(crate) fn last(&self) -> Duration {
        Duration::from_micros(self.last_micros.load(Ordering::Relaxed))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.max_micros.load(Ordering::Relaxed))
    }

    /// Measures until it is dropped.
    pub(crate) async fn measure(&self) {
        loop {
            let due = Instant::now() + PERIOD;
            tokio::time::sleep_until(due).await;
            self.note(due.elapsed());
        }
    }

    fn note(&self, late: Duration) {
        let micros = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.last_micros.store(micros, Ordering::Relaxed);
        self.max_micros.fetch_max(micros, Ordering::Relaxed);
        if late >= WARN {
            tracing::warn!(late_ms = micros / 1_000, "the runtime is late: handlers hold its threads");
        }
    }
}
