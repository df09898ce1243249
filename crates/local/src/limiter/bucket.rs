//! A token bucket, kept as the time at which it would be full again: one number, exact for ever.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Gate, LimitError, Meter};
use crate::clock::after;
use crate::error::ConfigError;

/// How late a timer may be without those who wait losing by it.
const LATE_MAX: Duration = Duration::from_millis(50);

/// So many per interval on average, and a burst at once after a while without calls.
///
/// ```
/// # use std::time::Duration;
/// # use windlass_local::{LimitError, TokenBucket};
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // Clones share one limit.
/// let limiter = TokenBucket::new(100, Duration::from_secs(1), 10)?;      // 100 per second, 10 at once
/// limiter.acquire(10).await?;
/// assert!(matches!(limiter.try_acquire(1), Err(LimitError::Later(_))));
/// # Ok(()) }
/// ```
///
/// Over any stretch of time there are at most `burst` and what the rate allows in that time. Timers are coarse, so
/// what flows in while a caller that waits is woken late is not lost: it can be had on top for a moment, as much as
/// flows in within 50 ms at most. That keeps the average right also where the rate is higher than timers are fine.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    gate: Arc<Gate<Bucket>>,
}

impl TokenBucket {
    /// A full bucket that holds `burst`, into which `count` flow per `interval`, evenly.
    pub fn new(count: u32, interval: Duration, burst: u32) -> Result<Self, ConfigError> {
        match (count, burst) {
            (0, _) | (_, 0) => return Err(ConfigError::NoRate),
            _ if interval.is_zero() => return Err(ConfigError::NoInterval),
            _ => {}
        }
        let (count, each) = (u128::from(count), interval.as_nanos());
        Ok(Self {
            gate: Arc::new(Gate::new(Bucket {
                epoch: Instant::now(),
                count,
                each,
                burst,
                full_at: 0,
                late: None,
            })),
        })
    }

    /// Waits until so many can be taken, and takes them. Those who wait are served in the order of their coming.
    pub async fn acquire(&self, count: u32) -> Result<(), LimitError> {
        self.gate.acquire(count).await
    }

    /// Takes so many if they are there and no caller waits.
    pub fn try_acquire(&self, count: u32) -> Result<(), LimitError> {
        self.gate.try_acquire(count)
    }
}

/// Time is counted in nanoseconds times `count`, so that one token takes a whole number of units.
#[derive(Debug)]
struct Bucket {
    epoch: Instant,
    count: u128,
    /// The units of one token.
    each: u128,
    burst: u32,
    /// When the bucket is full, if none is taken.
    full_at: u128,
    /// When the last one that had to wait was there, and by how much that was too late.
    late: Option<(Instant, Duration)>,
}

impl Bucket {
    /// From when on the bucket can have been full: from now, or from as much before as a caller was woken late, a moment
    /// ago. No more than that: what flowed in while no caller waited is lost.
    fn since(&self, now: Instant) -> u128 {
        let late = self.late.filter(|(came, _)| now.saturating_duration_since(*came) <= LATE_MAX);
        let late = late.map_or(0, |(_, late)| late.as_nanos() * self.count);
        self.units(now).saturating_sub(late)
    }

    fn units(&self, time: Instant) -> u128 {
        time.saturating_duration_since(self.epoch).as_nanos() * self.count
    }
}

impl Meter for Bucket {
    fn most(&self) -> u32 {
        self.burst
    }

    fn when(&mut self, count: u32, now: Instant) -> Instant {
        let full_at = self.full_at.max(self.since(now));
        let due =
            (full_at + u128::from(count) * self.each).saturating_sub(u128::from(self.burst) * self.each);
        let nanos = u64::try_from(due.div_ceil(self.count)).unwrap_or(u64::MAX);
        after(self.epoch, Duration::from_nanos(nanos))
    }

    fn take(&mut self, count: u32, due: Option<Instant>, now: Instant) {
        if let Some(due) = due {
            self.late = Some((now, now.saturating_duration_since(due).min(LATE_MAX)));
        }
        self.full_at = self.full_at.max(self.since(now)) + u128::from(count) * self.each;
    }
}
