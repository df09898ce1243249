//! Instants of the store's clock, and the clock itself as something a test can move.
//!
//! Only stores read a clock. Clients send durations, so no worker's wall clock decides what is due, expired
//! or lost.

mod step;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use step::{Step, Steps};

/// Microseconds since 1970 by the store's clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 1970.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This instant moved forward; stays at the end of time instead of overflowing.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(micros(duration)))
    }

    /// This instant moved back; stays at the beginning of time instead of overflowing.
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(micros(duration)))
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

/// A duration as whole microseconds, rounded up so that nothing starts before its time.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000)).unwrap_or(i64::MAX)
}

impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        match time.duration_since(UNIX_EPOCH) {
            Ok(after) => Self(0).plus(after),
            Err(before) => Self(0).minus(before.duration()),
        }
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        let distance = Duration::from_micros(time.0.unsigned_abs());
        if time.0 >= 0 { UNIX_EPOCH + distance } else { UNIX_EPOCH - distance }
    }
}

/// RFC 3339 in UTC with microseconds, as `2026-11-15T08:30:00.000000Z`; the bare number of microseconds for
/// instants that have no such form (before 1970, after 9999).
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const YEAR_10_000: i64 = 253_402_300_800_000_000;
        if (0..YEAR_10_000).contains(&self.0) {
            f.pad(&humantime::format_rfc3339_micros(SystemTime::from(*self)).to_string())
        } else {
            write!(f, "{}µs", self.0)
        }
    }
}

/// A duration in whole microseconds, rounded up, at most as long as an instant can be moved. No store keeps
/// less of it.
pub fn whole_micros(duration: Duration) -> Duration {
    Duration::from_micros(micros(duration).unsigned_abs())
}

/// Where an embedded store reads the time. A server store asks its server instead.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The present instant.
    fn now(&self) -> Timestamp;

    /// How much time has passed since some beginning, whatever the clock was set to meanwhile. A store that hears
    /// of it keeps leases alive when the clock is set; see [`Steps`]. Nothing where that is not known.
    fn passed(&self) -> Option<Duration> {
        None
    }
}

/// The clock of the operating system. It stands still while that is set back a little, so that instants do
/// not go back over a small correction, and follows when it is set back further.
///
/// Several processes may share a store, each with a clock of this kind. One that stood still for long would be
/// ahead of those that were started later, and would call their leases lost.
#[derive(Debug)]
pub struct SystemClock {
    latest: AtomicI64,
    began: Instant,
}

/// How far ahead of the operating system a clock may stand: much less than a lease lives.
const STAND_MAX_MICROS: i64 = 1_000_000;

impl SystemClock {
    fn at(&self, read: i64) -> Timestamp {
        let next = |latest: i64| {
            if latest.saturating_sub(read) > STAND_MAX_MICROS { read } else { latest.max(read) }
        };
        let before =
            self.latest.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |latest| Some(next(latest)));
        Timestamp(before.map_or(read, next))
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { latest: AtomicI64::default(), began: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        self.at(Timestamp::from(SystemTime::now()).as_micros())
    }

    fn passed(&self) -> Option<Duration> {
        Some(self.began.elapsed())
    }
}

/// A clock that stands still until a test moves it. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    micros: Arc<AtomicI64>,
    passed: Arc<AtomicU64>,
}

impl ManualClock {
    /// A clock that stands at the given instant.
    pub fn at(start: Timestamp) -> Self {
        Self { micros: Arc::new(AtomicI64::new(start.as_micros())), passed: Arc::default() }
    }

    /// Lets time pass for everyone who holds a clone.
    pub fn advance(&self, duration: Duration) {
        self.passed.fetch_add(micros(duration).unsigned_abs(), Ordering::Relaxed);
        self.micros.fetch_add(micros(duration), Ordering::Relaxed);
    }

    /// Sets the clock, as an administrator or a time server would, without that any time passes.
    pub fn set(&self, now: Timestamp) {
        self.micros.store(now.as_micros(), Ordering::Relaxed);
    }
}

impl Default for ManualClock {
    /// Begins on 2030-01-01, so that a test that mixes in the real clock is noticed.
    fn default() -> Self {
        Self::at(Timestamp::from_micros(1_893_456_000_000_000))
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.micros.load(Ordering::Relaxed))
    }

    fn passed(&self) -> Option<Duration> {
        Some(Duration::from_micros(self.passed.load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_as_rfc_3339() {
        for (micros, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (1_893_456_000_000_001, "2030-01-01T00:00:00.000001Z"),
            (-1, "-1µs"),
            (i64::MAX, "9223372036854775807µs"),
        ] {
            assert_eq!(Timestamp::from_micros(micros).to_string(), text);
        }
    }

    #[test]
    fn arithmetic_saturates_and_rounds_up() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.plus(Duration::MAX), end);
        assert_eq!(Timestamp::from_micros(0).plus(Duration::from_nanos(1)).as_micros(), 1);
        assert_eq!(Timestamp::from_micros(0).since(end), Duration::ZERO);
    }

    #[test]
    fn stored_durations_round_up_and_saturate() {
        assert_eq!(whole_micros(Duration::from_nanos(1_001)), Duration::from_micros(2));
        assert_eq!(whole_micros(Duration::MAX), Duration::from_micros(i64::MAX.unsigned_abs()));
    }

    #[test]
    fn a_clock_that_is_set_back_stands_for_a_moment_only() {
        let clock = SystemClock::default();
        let noon = 1_893_456_000_000_000;
        let reads =
            [noon, noon - 1, noon - STAND_MAX_MICROS, noon + 1, noon - 3_600_000_000, noon - 3_599_999_999];
        let seen = reads.map(|read| clock.at(read).as_micros() - noon);
        assert_eq!(seen, [0, 0, 0, 1, -3_600_000_000, -3_599_999_999]);
    }

    #[test]
    fn system_time_round_trips() {
        for micros in [-5, 0, 1_893_456_000_000_001] {
            let time = Timestamp::from_micros(micros);
            assert_eq!(Timestamp::from(SystemTime::from(time)), time);
        }
    }
}
