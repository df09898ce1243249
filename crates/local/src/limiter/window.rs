//! A sliding window that remembers what was taken in it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::{Gate, LimitError, Meter};
use crate::clock::after;
use crate::error::ConfigError;

/// Never more than so many in **any** stretch of time of this length.
///
/// ```
/// # use std::time::Duration;
/// # use windlass_local::SlidingWindow;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let limiter = SlidingWindow::new(100, Duration::from_secs(1))?;
/// limiter.acquire(3).await?;
/// limiter.try_acquire(97)?;
/// assert!(limiter.try_acquire(1).is_err());
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct SlidingWindow {
    gate: Arc<Gate<Window>>,
}

impl SlidingWindow {
    /// At most `count` in any `interval`.
    pub fn new(count: u32, interval: Duration) -> Result<Self, ConfigError> {
        if count == 0 {
            return Err(ConfigError::NoRate);
        }
        if interval.is_zero() {
            return Err(ConfigError::NoInterval);
        }
        Ok(Self {
            gate: Arc::new(Gate::new(Window { most: count, interval, taken: VecDeque::new(), sum: 0 })),
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

#[derive(Debug)]
struct Window {
    most: u32,
    interval: Duration,
    taken: VecDeque<(Instant, u32)>,
    /// Of what was taken. Who has waited takes before what made room for it is forgotten, so this may be more than
    /// `most`.
    sum: u64,
}

impl Meter for Window {
    fn most(&self) -> u32 {
        self.most
    }

    fn when(&mut self, count: u32, now: Instant) -> Instant {
        while let Some((time, gone)) = self.taken.front().copied()
            && now.saturating_duration_since(time) >= self.interval
        {
            self.taken.pop_front();
            self.sum -= u64::from(gone);
        }
        let (mut sum, mut due) = (self.sum, now);
        for (time, gone) in &self.taken {
            if sum + u64::from(count) <= u64::from(self.most) {
                break;
            }
            sum -= u64::from(*gone);
            due = after(*time, self.interval);
        }
        due
    }

    fn take(&mut self, count: u32, _due: Option<Instant>, now: Instant) {
        if count > 0 {
            self.taken.push_back((now, count));
            self.sum += u64::from(count);
        }
    }
}
