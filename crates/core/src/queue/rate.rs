//! Rates: how many jobs a queue hands out in a time, over the whole fleet and by the store's clock.
//!
//! A claim spends a permit for each job that it takes. What is spent is kept as [`Spent`]: permits, and the instant at which
//! they come back. A store keeps that in the write in which it takes the jobs.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::clock::Timestamp;
use crate::stored;

/// So many jobs in so much time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// How many jobs.
    pub jobs: u32,
    /// In how much time; whole microseconds.
    #[serde(with = "micros")]
    pub per: Duration,
    /// How they are spread.
    #[serde(flatten)]
    pub shape: Shape,
}

/// How the jobs of a rate are spread over its time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "shape", rename_all = "lowercase")]
pub enum Shape {
    /// Never more than the number in any span of the time.
    #[default]
    Sliding,
    /// The number in each slot of the clock: with a minute, from one full minute to the next.
    Fixed,
    /// Evenly, with so many at once after a rest.
    Bucket {
        /// How many at once; at least one.
        burst: u32,
    },
}

/// Permits that were spent. Of a bucket there is one entry with no permits, whose instant is when the bucket is full again;
/// a bucket looks at such entries only, and the other shapes at the others only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spent {
    /// When they come back.
    pub back_at: Timestamp,
    /// How many.
    pub jobs: u64,
}

/// What a rate permits now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permits {
    /// So many jobs.
    pub jobs: u64,
    /// When there are more; nothing where all there can be are there.
    pub more_at: Option<Timestamp>,
}

/// Into how many steps the time of a sliding rate is divided: permits come back at the end of the step, so that what is
/// kept stays small. That is up to a thousandth of the time later than exactly.
const STEPS: i64 = 1_000;

/// The shortest time between two jobs of a bucket: times are whole microseconds.
const BUCKET_STEP_MIN: i64 = 100;

impl Rate {
    /// A rate that holds in any span of the time.
    pub const fn new(jobs: u32, per: Duration) -> Self {
        Self { jobs, per, shape: Shape::Sliding }
    }

    /// The same rate in another shape.
    #[must_use]
    pub const fn shape(mut self, shape: Shape) -> Self {
        self.shape = shape;
        self
    }

    /// What it permits at an instant, after so much was spent.
    pub fn permits(&self, spent: impl IntoIterator<Item = Spent>, now: Timestamp) -> Permits {
        let is_bucket = matches!(self.shape, Shape::Bucket { .. });
        let open = spent.into_iter().filter(|spent| spent.back_at > now && (spent.jobs == 0) == is_bucket);
        if let Shape::Bucket { burst } = self.shape {
            let full_at = open.map(|spent| spent.back_at).max().unwrap_or(now).as_micros();
            let (now, step, burst) = (now.as_micros(), self.step(), i64::from(burst));
            let empty_for = full_at.saturating_sub(now);
            let jobs = burst - empty_for.div_euclid(step) - i64::from(empty_for % step > 0);
            let next = full_at.saturating_sub((burst - jobs.max(0) - 1).saturating_mul(step));
            return Permits {
                jobs: u64::try_from(jobs).unwrap_or(0),
                more_at: (jobs < burst).then(|| Timestamp::from_micros(next)),
            };
        }
        let (mut used, mut more_at) = (0, None::<Timestamp>);
        for Spent { back_at, jobs } in open {
            used += jobs;
            more_at = Some(more_at.map_or(back_at, |at| at.min(back_at)));
        }
        Permits { jobs: u64::from(self.jobs).saturating_sub(used), more_at }
    }

    /// What to keep when jobs are taken: an entry to add to the others of its instant, or, of a bucket, the only one.
    pub fn spend(&self, jobs: u64, spent: impl IntoIterator<Item = Spent>, now: Timestamp) -> Spent {
        let per = stored::micros(self.per);
        let aligned = |micros: i64, step: i64| micros.div_euclid(step).saturating_add(1).saturating_mul(step);
        let back_at = match self.shape {
            Shape::Bucket { .. } => {
                let full = spent.into_iter().filter(|spent| spent.jobs == 0).map(|spent| spent.back_at);
                let open = full.max().unwrap_or(now).max(now);
                let span = self.step().saturating_mul(i64::try_from(jobs).unwrap_or(i64::MAX));
                return Spent {
                    back_at: Timestamp::from_micros(open.as_micros().saturating_add(span)),
                    jobs: 0,
                };
            }
            Shape::Fixed => aligned(now.as_micros(), per),
            Shape::Sliding => aligned(now.as_micros().saturating_add(per - 1), (per / STEPS).max(1)),
        };
        Spent { back_at: Timestamp::from_micros(back_at), jobs }
    }

    /// The time between two jobs of a bucket, in microseconds.
    fn step(&self) -> i64 {
        let (per, jobs) = (stored::micros(self.per), i64::from(self.jobs.max(1)));
        (per / jobs + i64::from(per % jobs > 0)).max(1)
    }

    /// Fails when it makes no sense.
    ///
    /// # Errors
    /// A text for people.
    pub fn check(&self) -> Result<(), RateInvalid> {
        match *self {
            Self { jobs: 0, .. } => Err(RateInvalid::NoJobs),
            Self { per, .. } if per < Duration::from_millis(1) => Err(RateInvalid::NoTime),
            Self { per, .. } if per > Duration::from_secs(366 * 24 * 3600) => Err(RateInvalid::TooLong),
            Self { shape: Shape::Bucket { burst: 0 }, .. } => Err(RateInvalid::NoBurst),
            Self { jobs, per, shape: Shape::Bucket { .. } }
                if stored::micros(per) / i64::from(jobs) < BUCKET_STEP_MIN =>
            {
                Err(RateInvalid::TooFast)
            }
            _ => Ok(()),
        }
    }
}

/// A rate that no store takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RateInvalid {
    /// No jobs at all.
    #[error("a rate of 0 jobs: pause the queue instead")]
    NoJobs,
    /// Too short a time.
    #[error("a rate needs a time of a millisecond or more")]
    NoTime,
    /// Too long a time.
    #[error("a rate over more than a year: give a shorter time")]
    TooLong,
    /// A bucket that is always empty.
    #[error("a bucket with a burst of 0 is always empty: give at least 1")]
    NoBurst,
    /// More jobs than instants.
    #[error("a bucket of more than 10000 jobs a second: use a sliding or a fixed rate")]
    TooFast,
}

/// A span as whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    use crate::stored;

    pub(super) fn serialize<S: Serializer>(span: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_i64(stored::micros(*span))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        i64::deserialize(from).map(stored::span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    /// Takes as many jobs as are permitted at each of these instants. Answers how many, and when more come.
    fn taken(rate: Rate, instants: &[i64]) -> Vec<(u64, Option<i64>)> {
        let mut spent: Vec<Spent> = Vec::new();
        instants
            .iter()
            .map(|&now| {
                let permits = rate.permits(spent.iter().copied(), at(now));
                if permits.jobs > 0 {
                    let more = rate.spend(permits.jobs, spent.iter().copied(), at(now));
                    if more.jobs == 0 {
                        spent.clear();
                    }
                    spent.push(more);
                }
                let more_at = rate.permits(spent.iter().copied(), at(now)).more_at;
                (permits.jobs, more_at.map(Timestamp::as_micros))
            })
            .collect()
    }

    #[test]
    fn a_sliding_rate_holds_in_any_span() {
        let rate = Rate::new(3, Duration::from_secs(1));
        let found = taken(rate, &[100, SECOND - 1, SECOND, SECOND + 2_000]);
        assert_eq!(found[0].0, 3);
        assert_eq!((found[1].0, found[2].0), (0, 0), "not within a second");
        assert_eq!(found[3].0, 3, "and soon after it");
        let back = found[0].1.unwrap();
        assert!((SECOND + 100..=SECOND + 1_100).contains(&back), "{back}");
    }

    #[test]
    fn a_fixed_rate_begins_anew_with_the_slot() {
        let rate = Rate::new(2, Duration::from_secs(1)).shape(Shape::Fixed);
        let found = taken(rate, &[SECOND - 1, SECOND, 2 * SECOND - 1]);
        assert_eq!(found, [(2, Some(SECOND)), (2, Some(2 * SECOND)), (0, Some(2 * SECOND))]);
    }

    #[test]
    fn a_bucket_fills_evenly() {
        let rate = Rate::new(10, Duration::from_secs(1)).shape(Shape::Bucket { burst: 3 });
        let found = taken(rate, &[0, 50_000, 100_000, 310_000, 10 * SECOND]);
        assert_eq!(
            found,
            [
                (3, Some(100_000)),
                (0, Some(100_000)),
                (1, Some(200_000)),
                (2, Some(400_000)),
                (3, Some(10_100_000))
            ]
        );
    }

    #[test]
    fn a_rate_reads_back_and_is_plain_for_others() {
        let rate = Rate::new(500, Duration::from_secs(60));
        let text = serde_json::to_string(&rate).unwrap();
        assert_eq!(text, r#"{"jobs":500,"per":60000000,"shape":"sliding"}"#);
        assert_eq!(serde_json::from_str::<Rate>(&text).unwrap(), rate);
        let bucket = rate.shape(Shape::Bucket { burst: 7 });
        let text = serde_json::to_string(&bucket).unwrap();
        assert_eq!(text, r#"{"jobs":500,"per":60000000,"shape":"bucket","burst":7}"#);
        assert_eq!(serde_json::from_str::<Rate>(&text).unwrap(), bucket);
    }

    #[test]
    fn rates_that_make_no_sense_are_refused() {
        let second = Duration::from_secs(1);
        assert_eq!(Rate::new(0, second).check(), Err(RateInvalid::NoJobs));
        assert_eq!(Rate::new(1, Duration::ZERO).check(), Err(RateInvalid::NoTime));
        assert_eq!(Rate::new(1, Duration::MAX).check(), Err(RateInvalid::TooLong));
        let bucket = |jobs, burst| Rate::new(jobs, second).shape(Shape::Bucket { burst }).check();
        assert_eq!(bucket(1, 0), Err(RateInvalid::NoBurst));
        assert_eq!(bucket(10_001, 1), Err(RateInvalid::TooFast));
        assert_eq!((bucket(10_000, 1), Rate::new(1_000_000, second).check()), (Ok(()), Ok(())));
    }
}
