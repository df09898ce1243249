//! How long a job waits before its next attempt, and how many attempts it has.
//!
//! A policy is stored with the job, so that a reaper can apply it to a lost job without the handler's
//! code. All arithmetic saturates: any attempt number up to `u32::MAX` gives a delay of at most the cap.

mod invalid;

use std::time::Duration;

use serde::{Deserialize, Serialize, Serializer};

pub use self::invalid::PolicyInvalid;

/// When and how often a job is tried again.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::retry::{Jitter, Policy};
///
/// let policy = Policy::exponential(8, Duration::from_secs(2)).cap(Duration::from_secs(60)).jitter(Jitter::None);
/// assert_eq!(policy.delay(1, Duration::ZERO, 0.5), Duration::from_secs(2));
/// assert_eq!(policy.delay(3, Duration::ZERO, 0.5), Duration::from_secs(8));
/// assert_eq!(policy.delay(u32::MAX, Duration::ZERO, 0.5), Duration::from_secs(60));
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Attempts in all, the first included.
    #[serde(rename = "attempts")]
    attempts_max: u32,
    /// How the delay grows.
    backoff: Backoff,
    /// The longest delay.
    cap: Duration,
    /// How the delay is spread.
    jitter: Jitter,
    /// Attempts that may end with an unknown effect.
    #[serde(rename = "ambiguous")]
    ambiguous_max: u32,
}

/// How the delay grows with the number of the attempt that has just failed (1 for the first).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    /// The same delay each time.
    Fixed {
        /// That delay.
        delay: Duration,
    },
    /// `base * n`.
    Linear {
        /// The first delay, and what each attempt adds.
        base: Duration,
    },
    /// `base * factor^(n-1)`.
    Exponential {
        /// The first delay.
        base: Duration,
        /// What each attempt multiplies by.
        #[serde(serialize_with = "finite")]
        factor: f64,
    },
    /// `base * n^power`.
    Polynomial {
        /// The first delay.
        base: Duration,
        /// The power of the attempt number.
        #[serde(serialize_with = "finite")]
        power: f64,
    },
}

/// How a delay is spread, so that jobs that failed together do not come back together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Jitter {
    /// Exactly the computed delay.
    None,
    /// Between half of the delay and all of it.
    Equal,
    /// Between nothing and all of it.
    Full,
    /// Between the first delay and three times the delay before, the first delay counting as the one before
    /// the first retry: grows by itself, so the backoff only gives the start.
    Decorrelated,
    /// Up to so many thousandths of the delay less or more; at most the cap. See [`Jitter::share`].
    Share(u16),
}

impl Jitter {
    /// Up to this share of the delay less or more: 0.1 is plus or minus ten percent, 0.5 is between half of the delay and
    /// one and a half of it. Kept to thousandths, from 0 to 1.
    pub fn share(share: f64) -> Self {
        // What is not a number is none, by the cast.
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is between 0 and 1,000"
        )]
        Self::Share((share.clamp(0.0, 1.0) * 1_000.0).round() as u16)
    }
}

/// The library's default number of attempts.
pub const ATTEMPTS_DEFAULT: u32 = 25;
/// The library's default for attempts with an unknown effect.
pub const AMBIGUOUS_DEFAULT: u32 = 3;
const CAP_DEFAULT: Duration = Duration::from_secs(6 * 60 * 60);

impl Default for Policy {
    /// 25 attempts, from 2 seconds doubling up to 6 hours, full jitter: about a day and a half on average.
    ///
    /// Stores keep a job with this policy as one without, so changing it changes jobs that are stored: that
    /// takes a migration which writes the old one out.
    fn default() -> Self {
        Self::exponential(ATTEMPTS_DEFAULT, Duration::from_secs(2))
    }
}

/// A policy says what it is told, also what makes no sense; [`Policy::check`] finds that out before anything is
/// stored.
impl Policy {
    fn new(attempts: u32, backoff: Backoff) -> Self {
        Self {
            attempts_max: attempts,
            backoff,
            cap: CAP_DEFAULT,
            jitter: Jitter::Full,
            ambiguous_max: AMBIGUOUS_DEFAULT,
        }
    }

    /// One attempt and no more.
    pub fn never() -> Self {
        Self::fixed(1, Duration::ZERO)
    }

    /// The same delay each time.
    pub fn fixed(attempts: u32, delay: Duration) -> Self {
        Self::new(attempts, Backoff::Fixed { delay })
    }

    /// `base`, twice that, three times that…
    pub fn linear(attempts: u32, base: Duration) -> Self {
        Self::new(attempts, Backoff::Linear { base })
    }

    /// `base`, doubled each time; see [`Policy::factor`].
    pub fn exponential(attempts: u32, base: Duration) -> Self {
        Self::new(attempts, Backoff::Exponential { base, factor: 2.0 })
    }

    /// `base` times the attempt number to a power.
    pub fn polynomial(attempts: u32, base: Duration, power: f64) -> Self {
        Self::new(attempts, Backoff::Polynomial { base, power })
    }

    /// Sets what an exponential policy multiplies by; other policies ignore it.
    #[must_use]
    pub fn factor(mut self, by: f64) -> Self {
        if let Backoff::Exponential { factor, .. } = &mut self.backoff {
            *factor = by;
        }
        self
    }

    /// Sets the longest delay.
    #[must_use]
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// Sets how the delay is spread.
    #[must_use]
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the number of attempts, the first included.
    #[must_use]
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts_max = attempts;
        self
    }

    /// Sets how many attempts may end with an unknown effect: after the last of these the job is dead. With 1, or 0, the first such end is the last.
    #[must_use]
    pub fn ambiguous(mut self, attempts: u32) -> Self {
        self.ambiguous_max = attempts;
        self
    }

    /// Attempts in all, the first included.
    pub fn attempts_max(&self) -> u32 {
        self.attempts_max
    }

    /// Attempts that may end ambiguously.
    pub fn ambiguous_max(&self) -> u32 {
        self.ambiguous_max
    }

    /// How the delay grows.
    pub fn backoff(&self) -> Backoff {
        self.backoff
    }

    /// The longest delay.
    pub fn delay_max(&self) -> Duration {
        self.cap
    }

    /// How the delay is spread.
    pub fn spread(&self) -> Jitter {
        self.jitter
    }

    /// The delay after `attempt` (1 for the first) has failed. `previous` is the delay before it, zero if
    /// there was none; `dice` is a number in `0.0..1.0`.
    pub fn delay(&self, attempt: u32, previous: Duration, dice: f64) -> Duration {
        let grown = self.backoff.delay(attempt.max(1)).min(self.cap);
        let dice = dice.clamp(0.0, 1.0);
        match self.jitter {
            Jitter::None => grown,
            Jitter::Equal => between(grown / 2, grown, dice),
            Jitter::Full => between(Duration::ZERO, grown, dice),
            Jitter::Decorrelated => {
                let start = self.backoff.delay(1).min(self.cap);
                let high = previous.max(start).saturating_mul(3).min(self.cap);
                between(start, high, dice)
            }
            Jitter::Share(thousandths) => {
                let part = grown / 1_000 * u32::from(thousandths.min(1_000));
                between(grown - part, grown.saturating_add(part), dice).min(self.cap)
            }
        }
    }

    /// Whether programs of before the first [share](Jitter::Share) cannot read it.
    pub(crate) fn has_share(&self) -> bool {
        matches!(self.jitter, Jitter::Share(_))
    }
}

impl Backoff {
    fn delay(self, attempt: u32) -> Duration {
        match self {
            Self::Fixed { delay } => delay,
            Self::Linear { base } => base.saturating_mul(attempt),
            Self::Exponential { base, factor } => {
                scaled(base, sane(factor, 1.0).powi(i32::try_from(attempt - 1).unwrap_or(i32::MAX)))
            }
            Self::Polynomial { base, power } => scaled(base, f64::from(attempt).powf(sane(power, 0.0))),
        }
    }
}

/// A factor or power that came from outside: not a number and anything below `least` count as `least`, and
/// what is infinite becomes finite.
fn sane(factor: f64, least: f64) -> f64 {
    if factor >= least { factor.min(f64::MAX) } else { least }
}

/// JSON has no word for what is not finite, and what is stored must read back. [`Policy::check`] refuses such a
/// number; this is for a policy that was not checked.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn finite<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(sane(*number, 0.0))
}

fn scaled(base: Duration, by: f64) -> Duration {
    Duration::try_from_secs_f64(base.as_secs_f64() * by).unwrap_or(if base.is_zero() {
        Duration::ZERO
    } else {
        Duration::MAX
    })
}

fn between(low: Duration, high: Duration, dice: f64) -> Duration {
    let width = high.saturating_sub(low);
    low.saturating_add(scaled(width, dice)).min(high)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn each_backoff_grows_as_named() {
        let delays = |policy: Policy| {
            let policy = policy.jitter(Jitter::None);
            [1, 2, 3, 4].map(|attempt| policy.delay(attempt, Duration::ZERO, 0.9).as_secs())
        };
        assert_eq!(delays(Policy::fixed(9, SECOND)), [1, 1, 1, 1]);
        assert_eq!(delays(Policy::linear(9, SECOND)), [1, 2, 3, 4]);
        assert_eq!(delays(Policy::exponential(9, SECOND)), [1, 2, 4, 8]);
        assert_eq!(delays(Policy::exponential(9, SECOND).factor(3.0)), [1, 3, 9, 27]);
        assert_eq!(delays(Policy::polynomial(9, SECOND, 2.0)), [1, 4, 9, 16]);
    }

    #[test]
    fn each_jitter_keeps_its_range() {
        let base = Policy::fixed(9, Duration::from_secs(8));
        let at = |jitter, dice| base.clone().jitter(jitter).delay(1, Duration::from_secs(8), dice).as_secs();
        assert_eq!((at(Jitter::None, 0.0), at(Jitter::None, 1.0)), (8, 8));
        assert_eq!((at(Jitter::Equal, 0.0), at(Jitter::Equal, 1.0)), (4, 8));
        assert_eq!((at(Jitter::Full, 0.0), at(Jitter::Full, 1.0)), (0, 8));
        assert_eq!((at(Jitter::Decorrelated, 0.0), at(Jitter::Decorrelated, 1.0)), (8, 24));
        assert_eq!((at(Jitter::share(0.5), 0.0), at(Jitter::share(0.5), 1.0)), (4, 12));
        assert_eq!((at(Jitter::share(9.0), 0.0), at(Jitter::share(f64::NAN), 1.0)), (0, 8));
    }

    #[test]
    fn decorrelated_jitter_spreads_from_the_first_retry_and_ends_at_the_cap() {
        let policy = Policy::exponential(9, SECOND).cap(10 * SECOND).jitter(Jitter::Decorrelated);
        let first = |dice| policy.delay(1, Duration::ZERO, dice);
        assert_eq!((first(0.0), first(0.5), first(1.0)), (SECOND, 2 * SECOND, 3 * SECOND));
        assert_eq!(policy.delay(5, 9 * SECOND, 1.0), 10 * SECOND);
    }

    #[test]
    fn a_policy_reads_back_as_it_was_written() {
        let policy = Policy::polynomial(3, SECOND, 4.0).jitter(Jitter::Equal).ambiguous(0);
        let text = serde_json::to_string(&policy).unwrap();
        assert_eq!(serde_json::from_str::<Policy>(&text).unwrap(), policy);
    }

    #[test]
    fn the_wildest_policies_read_back() {
        for number in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN_POSITIVE] {
            for policy in
                [Policy::exponential(9, SECOND).factor(number), Policy::polynomial(9, Duration::MAX, number)]
            {
                let text = serde_json::to_string(&policy).unwrap();
                let read = serde_json::from_str::<Policy>(&text).unwrap();
                let delay = |policy: &Policy| policy.delay(3, SECOND, 1.0);
                assert_eq!(delay(&read), delay(&policy), "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_input_overflows_or_passes_the_cap(
            attempt in prop_oneof![Just(0), Just(1), Just(1 << 31), Just(u32::MAX), any::<u32>()],
            kind in 0..4,
            base in any::<u64>(),
            number in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(-1.0), any::<f64>()],
            previous in any::<u64>(),
            dice in prop_oneof![Just(f64::NAN), Just(0.0), Just(1.0), 0.0..1.0],
            cap in 0..1_000_000u64,
        ) {
            let base = Duration::from_millis(base);
            let policy = match kind {
                0 => Policy::fixed(9, base),
                1 => Policy::linear(9, base),
                2 => Policy::exponential(9, base).factor(number),
                _ => Policy::polynomial(9, base, number),
            };
            let cap = Duration::from_millis(cap);
            let shares = [Jitter::share(0.1), Jitter::Share(u16::MAX)];
            for jitter in [Jitter::None, Jitter::Equal, Jitter::Full, Jitter::Decorrelated].into_iter().chain(shares) {
                let policy = policy.clone().cap(cap).jitter(jitter);
                prop_assert!(policy.delay(attempt, Duration::from_millis(previous), dice) <= cap);
            }
        }
    }
}
