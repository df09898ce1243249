//! Spreading jobs over a window, so that they do not all start at once.

use std::time::Duration;

use crate::clock::whole_micros;
use crate::job::NewJob;
use crate::unique::Digest;

/// How many jobs are spread over a window, from now or from their slot on.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::schedule::Spread;
///
/// let day = Spread::by_key(Duration::from_secs(86_400));
/// assert_eq!(day.delay(0, 10, b"user-7"), day.delay(3, 99, b"user-7"), "a key keeps its time");
/// let even = Spread::evenly(Duration::from_secs(60));
/// assert_eq!(even.delay(1, 4, b""), Duration::from_secs(15));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spread {
    window: Duration,
    by: By,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    Order,
    Key,
}

impl Spread {
    /// In the order of the jobs, at the same distance from each other.
    pub fn evenly(window: Duration) -> Self {
        Self { window: whole_micros(window), by: By::Order }
    }

    /// By a stable hash: a job with the same key, or without a key the same payload, always has the same time in the window.
    pub fn by_key(window: Duration) -> Self {
        Self { window: whole_micros(window), by: By::Key }
    }

    /// How long after the beginning of the window this job starts, which is one of so many: by its key if it has one, and by
    /// its payload otherwise.
    pub fn delay_of(&self, job: &NewJob, index: usize, count: usize) -> Duration {
        let key = job.key.as_ref().map_or(&job.payload[..], |key| key.as_str().as_bytes());
        self.delay(index, count, key)
    }

    /// How long after the beginning of the window a job with this key starts, which is one of so many.
    pub fn delay(&self, index: usize, count: usize, key: &[u8]) -> Duration {
        match self.by {
            By::Order => share(self.window, index as u128, count.max(1) as u128),
            By::Key => by_hash(Digest::of(&[key]), self.window),
        }
    }
}

/// A stable place in a window.
pub(super) fn by_key(parts: &[&str], window: Duration) -> Duration {
    by_hash(Digest::of(parts), window)
}

fn by_hash(digest: Digest, window: Duration) -> Duration {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.0[..8]);
    share(window, u128::from(u64::from_be_bytes(first)), 1 << 64)
}

/// A part of a window, in whole microseconds.
fn share(window: Duration, part: u128, of: u128) -> Duration {
    let micros = window.as_micros().saturating_mul(part) / of;
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}
