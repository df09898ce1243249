//! How late the runtime is: a handler that holds its threads shows here first. Other threads see here whether it
//! runs at all.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The lag of the runtime.
#[derive(Debug)]
pub(crate) struct Lag {
    start: Instant,
    /// The last sign of life, counted from the start.
    beat_micros: AtomicU64,
    last_micros: AtomicU64,
    max_micros: AtomicU64,
}

const PERIOD: Duration = Duration::from_millis(250);
/// A lag worth a warning.
const WARN: Duration = Duration::from_millis(500);

impl Lag {
    pub(crate) fn new(start: Instant) -> Self {
        let zero = || AtomicU64::new(0);
        Self { start, beat_micros: zero(), last_micros: zero(), max_micros: zero() }
    }

    /// By how much the runtime was late last, or is by now.
    pub(crate) fn last(&self, now: Instant) -> Duration {
        Duration::from_micros(self.last_micros.load(Ordering::Relaxed)).max(self.silence(now))
    }

    pub(crate) fn max(&self) -> Duration {
        Duration::from_micros(self.max_micros.load(Ordering::Relaxed))
    }

    /// For how long a sign of life of the runtime has been due.
    pub(crate) fn silence(&self, now: Instant) -> Duration {
        let beat = self.start + Duration::from_micros(self.beat_micros.load(Ordering::Relaxed));
        now.saturating_duration_since(beat).saturating_sub(PERIOD)
    }

    /// Measures until it is dropped.
    pub(crate) async fn measure(&self) {
        loop {
            self.beat(Instant::now());
            let due = tokio::time::Instant::now() + PERIOD;
            tokio::time::sleep_until(due).await;
            self.note(due.elapsed());
        }
    }

    fn beat(&self, now: Instant) {
        self.beat_micros.store(micros(now.saturating_duration_since(self.start)), Ordering::Relaxed);
    }

    fn note(&self, late: Duration) {
        self.last_micros.store(micros(late), Ordering::Relaxed);
        self.max_micros.fetch_max(micros(late), Ordering::Relaxed);
        if late >= WARN {
            let late_ms = micros(late) / 1_000;
            tracing::warn!(late_ms, "the runtime is late: handlers hold its threads");
        }
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_what_is_overdue_of_a_beat() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let lag = Lag::new(start);
        assert_eq!(lag.silence(start + PERIOD), Duration::ZERO);
        assert_eq!(lag.silence(start + 9 * second + PERIOD), 9 * second);
        assert_eq!(lag.last(start + 9 * second + PERIOD), 9 * second, "seen while it lasts");
        lag.beat(start + 9 * second);
        assert_eq!(lag.silence(start + 9 * second), Duration::ZERO);
        lag.note(second / 4);
        assert_eq!((lag.last(start + 9 * second), lag.max()), (second / 4, second / 4));
    }
}
