//! How long things took, by powers of two: from 1 ms to six days in 30 buckets, so a quantile is known up to a factor of two.
//! What is said of one is its upper bound.

use std::fmt;
use std::time::Duration;

use crate::clock::Timestamp;

/// How many buckets there are, with the one for what has no time.
pub const BUCKETS: usize = 32;
/// How many buckets have a time. Bucket `n` has what took at most 2ⁿ ms; the last of them what took longer than those before.
pub const TIMED: usize = 31;

/// How long something took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u8);

impl Bucket {
    /// For what has no time, as an acceptance, or what an older program has counted.
    pub const UNTIMED: Self = Self(31);

    /// That of a time.
    pub fn of(time: Duration) -> Self {
        let millis = time.as_micros().div_ceil(1_000).max(1);
        // The logarithm, rounded up.
        let number = u128::BITS - (millis - 1).leading_zeros();
        Self(number.min(TIMED as u32 - 1) as u8)
    }

    /// That of the time between two instants.
    pub fn between(earlier: Timestamp, later: Timestamp) -> Self {
        Self::of(later.since(earlier))
    }

    /// Its number, from 0.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// That of a number; what is none has no time.
    pub const fn from_number(number: u8) -> Self {
        if (number as usize) < TIMED { Self(number) } else { Self::UNTIMED }
    }

    /// The longest time in it; nothing for the last one with a time, and for the one without.
    pub const fn bound(self) -> Option<Duration> {
        if (self.0 as usize) < TIMED - 1 { Some(Duration::from_millis(1 << self.0)) } else { None }
    }
}

/// How many things took how long.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spread {
    counts: [u64; TIMED],
}

impl Spread {
    /// Adds so many of a bucket. What has no time is left out.
    pub fn add(&mut self, bucket: Bucket, times: u64) {
        if let Some(count) = self.counts.get_mut(usize::from(bucket.number())) {
            *count = count.saturating_add(times);
        }
    }

    /// How many there are.
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// How many there are in each bucket.
    pub const fn counts(&self) -> &[u64; TIMED] {
        &self.counts
    }

    /// The bound that this part of all did not pass: `0.95` for all but the slowest twentieth. The true value lies between the
    /// bound and half of it. Nothing where there is nothing.
    pub fn quantile(&self, part: f64) -> Option<Quantile> {
        let total = self.total();
        // The rank of the last one that counts, from 1.
        let rank = ((part.clamp(0.0, 1.0) * total as f64).ceil() as u64).clamp(1, total.max(1));
        let mut sum = 0u64;
        for (number, &count) in (0u8..).zip(&self.counts) {
            sum = sum.saturating_add(count);
            if count > 0 && sum >= rank {
                return Some(Quantile(Bucket::from_number(number)));
            }
        }
        None
    }
}

/// A bound for the time that things took. Prints as `<= 2.05 s`, or `> 6 d` where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantile(Bucket);

impl Quantile {
    /// The longest time that it can be; nothing where it took longer than any bucket says.
    pub const fn at_most(self) -> Option<Duration> {
        self.0.bound()
    }

    /// Its bucket.
    pub const fn bucket(self) -> Bucket {
        self.0
    }
}

impl fmt::Display for Quantile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(bound) = self.at_most() else { return f.pad("> 6 d") };
        let seconds = bound.as_secs_f64();
        let text = match seconds {
            ..1.0 => format!("<= {} ms", bound.as_millis()),
            1.0..60.0 => format!("<= {} s", short(seconds)),
            60.0..3_600.0 => format!("<= {} min", short(seconds / 60.0)),
            3_600.0..86_400.0 => format!("<= {} h", short(seconds / 3_600.0)),
            _ => format!("<= {} d", short(seconds / 86_400.0)),
        };
        f.pad(&text)
    }
}

/// Three digits at most before they are of no use.
fn short(number: f64) -> String {
    match number {
        ..10.0 => format!("{number:.2}"),
        10.0..100.0 => format!("{number:.1}"),
        _ => format!("{number:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_with_its_bound() {
        assert_eq!(Bucket::of(Duration::ZERO).number(), 0);
        assert_eq!(Bucket::of(Duration::MAX).number() as usize, TIMED - 1);
        for number in 0..TIMED as u8 - 1 {
            let bound = Bucket::from_number(number).bound().unwrap();
            assert_eq!(Bucket::of(bound).number(), number);
            assert_eq!(Bucket::of(bound + Duration::from_micros(1)).number(), number + 1);
        }
        assert_eq!((Bucket::UNTIMED.bound(), Bucket::from_number(200)), (None, Bucket::UNTIMED));
        let at = Timestamp::from_micros;
        assert_eq!(Bucket::between(at(9), at(4)).number(), 0, "a clock that was set back takes no time");
    }

    #[test]
    fn a_quantile_is_off_by_a_factor_of_two_at_most() {
        let mut spread = Spread::default();
        assert_eq!(spread.quantile(0.5), None);
        let times: Vec<_> = (1..=1_000u64).map(|n| Duration::from_micros(n * n * 50)).collect();
        times.iter().for_each(|time| spread.add(Bucket::of(*time), 1));
        spread.add(Bucket::UNTIMED, 5);
        assert_eq!(spread.total(), 1_000);
        for (part, exact) in [(0.0, 0), (0.5, 499), (0.95, 949), (0.99, 989), (1.0, 999), (7.0, 999)] {
            let bound = spread.quantile(part).unwrap().at_most().unwrap();
            assert!(times[exact] <= bound, "{part}");
            assert!(bound <= 2 * times[exact].max(Duration::from_micros(500)), "{part}");
        }
    }

    #[test]
    fn quantiles_read_as_people_say_them() {
        let text = |number| Quantile(Bucket::from_number(number)).to_string();
        assert_eq!(
            [0, 9, 10, 14, 15].map(text),
            ["<= 1 ms", "<= 512 ms", "<= 1.02 s", "<= 16.4 s", "<= 32.8 s"]
        );
        assert_eq!([16, 22, 29, 30].map(text), ["<= 1.09 min", "<= 1.17 h", "<= 6.21 d", "> 6 d"]);
    }
}
