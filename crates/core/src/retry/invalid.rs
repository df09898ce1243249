//! What no retry policy may say. Checked before a job is stored, so that a slip is an error of the call and not
//! a surprise at the first retry.

use thiserror::Error;

use super::{Backoff, Policy};

/// What is wrong with a retry policy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyInvalid {
    /// No attempts.
    #[error("0 attempts: the first attempt counts, so 1 is the least and means that nothing is tried again")]
    NoAttempts,
    /// A factor or a power that no delay can grow by.
    #[error("a {what} of {given}: a finite number of at least {least} is needed")]
    Growth {
        /// `factor` or `power`.
        what: &'static str,
        /// What was given.
        given: String,
        /// What would do.
        least: u8,
    },
}

impl Policy {
    /// Whether the policy makes sense.
    ///
    /// # Errors
    /// With 0 attempts, a factor that is below 1 or not finite, or a power that is below 0 or not finite.
    pub fn check(&self) -> Result<(), PolicyInvalid> {
        if self.attempts_max == 0 {
            return Err(PolicyInvalid::NoAttempts);
        }
        let (what, given, least) = match self.backoff {
            Backoff::Fixed { .. } | Backoff::Linear { .. } => return Ok(()),
            Backoff::Exponential { factor, .. } => ("factor", factor, 1),
            Backoff::Polynomial { power, .. } => ("power", power, 0),
        };
        if given.is_finite() && given >= f64::from(least) {
            return Ok(());
        }
        Err(PolicyInvalid::Growth { what, given: given.to_string(), least })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_policy_without_attempts_is_refused() {
        for policy in [
            Policy::fixed(0, SECOND),
            Policy::linear(0, SECOND),
            Policy::exponential(0, SECOND),
            Policy::polynomial(0, SECOND, 2.0),
            Policy::default().attempts(0),
        ] {
            assert_eq!(policy.check(), Err(PolicyInvalid::NoAttempts), "{policy:?}");
        }
        assert_eq!(Policy::fixed(0, SECOND).attempts(3).check(), Ok(()), "the last word counts");
        assert_eq!(Policy::never().check(), Ok(()));
    }

    #[test]
    fn growth_that_makes_no_sense_is_refused_and_said() {
        let bad = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.0];
        for number in bad.into_iter().chain([0.5]) {
            let error = Policy::exponential(3, SECOND).factor(number).check().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("a factor of {number}: a finite number of at least 1 is needed")
            );
        }
        for number in bad {
            let error = Policy::polynomial(3, SECOND, number).check().unwrap_err();
            assert_eq!(
                error.to_string(),
                format!("a power of {number}: a finite number of at least 0 is needed")
            );
        }
        assert_eq!(Policy::exponential(3, SECOND).factor(1.0).check(), Ok(()));
        assert_eq!(Policy::polynomial(3, SECOND, 0.0).check(), Ok(()));
        assert_eq!(Policy::fixed(3, SECOND).factor(f64::NAN).check(), Ok(()), "a fixed delay has no factor");
    }
}
