//! How many pieces of work may start per interval: in fixed windows, or in any window at all.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::after;
use crate::error::ConfigError;

/// So many starts per interval.
///
/// ```
/// # use std::time::Duration;
/// use windlass_local::Rate;
///
/// Rate::fixed(100, Duration::from_secs(1));     // a hundred per second of the clock, all at once if they wait
/// Rate::sliding(100, Duration::from_secs(1));   // never more than a hundred in any second whatsoever
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    limit: usize,
    interval: Duration,
    mode: Mode,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Fixed,
    FixedWithCarryOver,
    Sliding,
}

impl Rate {
    /// At most `limit` starts in each window of this length. Windows follow one another without a gap while there
    /// is work; the first start after a quiet window opens a new one. Around a boundary up to twice the limit
    /// may start in one interval; see [`Rate::sliding`].
    pub const fn fixed(limit: usize, interval: Duration) -> Self {
        Self { limit, interval, mode: Mode::Fixed }
    }

    /// At most `limit` starts in **any** interval of this length. Costs one timestamp kept per allowed start.
    pub const fn sliding(limit: usize, interval: Duration) -> Self {
        Self { limit, interval, mode: Mode::Sliding }
    }

    /// Counts what still runs at the end of a fixed window against the next one. A sliding window stays as it is.
    #[must_use]
    pub const fn carry_over(mut self) -> Self {
        if matches!(self.mode, Mode::Fixed) {
            self.mode = Mode::FixedWithCarryOver;
        }
        self
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match self {
            Self { limit: 0, .. } => Err(ConfigError::NoRate),
            Self { interval: Duration::ZERO, .. } => Err(ConfigError::NoInterval),
            _ => Ok(()),
        }
    }
}

/// Keeps count for a [`Rate`].
#[derive(Debug)]
pub(crate) struct Gauge {
    rate: Rate,
    window: Option<Instant>,
    count: usize,
    starts: VecDeque<Instant>,
}

impl Gauge {
    pub(crate) fn new(rate: Rate) -> Self {
        Self { rate, window: None, count: 0, starts: VecDeque::new() }
    }

    /// Goes on with another rate. What has started counts on, as far as the kind of window is the same.
    pub(crate) fn change(&mut self, rate: Rate) {
        self.rate = rate;
    }

    /// Whether one more may start, and if not, when.
    pub(crate) fn may_start(&mut self, now: Instant, running: usize) -> Result<(), Instant> {
        let Rate { limit, interval, mode } = self.rate;
        if mode == Mode::Sliding {
            while self.starts.front().is_some_and(|start| now.duration_since(*start) >= interval) {
                self.starts.pop_front();
            }
            let Some(ahead) = self.starts.len().checked_sub(limit) else { return Ok(()) };
            return Err(after(self.starts[ahead], interval));
        }
        let Some(opened) = self.window else { return Ok(()) };
        let age = now.duration_since(opened);
        if age >= interval {
            // The very next window begins where this one ended, however late that is noticed. After a quiet
            // one there is nothing to be in step with.
            self.window = (age - interval < interval).then(|| opened + interval);
            self.count = if mode == Mode::FixedWithCarryOver { running } else { 0 };
            if self.window.is_none() && self.count > 0 {
                self.window = Some(now);
            }
        }
        match self.window {
            Some(opened) if self.count >= limit => Err(after(opened, interval)),
            _ => Ok(()),
        }
    }

    /// One has started.
    pub(crate) fn note(&mut self, now: Instant) {
        if self.rate.mode == Mode::Sliding {
            self.starts.push_back(now);
            return;
        }
        self.window.get_or_insert(now);
        self.count += 1;
    }
}
