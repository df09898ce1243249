//! How long to wait after a failure, and the one loop that repeats a call until it is answered. Workers and stores use
//! it.
//!
//! This module has no timer: the caller gives a function that waits, and that answers whether to go on.

use std::time::Duration;

use crate::error::StoreError;

/// The pause after so many failures in a row: full jitter, from `least` up to a bound that starts there and doubles with
/// each failure, at most `most`.
///
/// ```
/// use std::time::Duration;
/// use windlass_core::backoff::pause;
///
/// let (least, most) = (Duration::from_millis(50), Duration::from_secs(5));
/// assert_eq!(pause(0, least, most), least);
/// assert!(pause(3, least, most) <= 8 * least);
/// assert!(pause(u32::MAX, least, most) <= most);
/// ```
pub fn pause(failures: u32, least: Duration, most: Duration) -> Duration {
    let bound = least.saturating_mul(2u32.saturating_pow(failures.min(31))).min(most);
    least + bound.saturating_sub(least).mul_f64(fastrand::f64())
}

/// An error of a call that may be repeated.
pub trait Transient {
    /// Whether the same call may succeed later.
    fn is_transient(&self) -> bool;
}

impl Transient for StoreError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }
}

/// How often a call is repeated, and how long the pauses between are. It can be kept over several calls: an answer sets
/// it back.
#[derive(Debug, Clone)]
pub struct Retries {
    least: Duration,
    most: Duration,
    tries_max: u32,
    refusals_max: u32,
    tries: u32,
    refusals: u32,
}

impl Retries {
    /// Repeats without an end while errors are transient; the first other error is final. Pauses grow from `least` to
    /// `most`.
    pub fn endless(least: Duration, most: Duration) -> Self {
        Self { least, most, tries_max: u32::MAX, refusals_max: 1, tries: 0, refusals: 0 }
    }

    /// The call is made at most so many times.
    #[must_use]
    pub fn tries_max(self, tries: u32) -> Self {
        Self { tries_max: tries, ..self }
    }

    /// So many errors that are not transient end it.
    #[must_use]
    pub fn refusals_max(self, refusals: u32) -> Self {
        Self { refusals_max: refusals, ..self }
    }

    /// Until there is an answer, the call is made only once more.
    pub fn leave_one(&mut self) {
        self.tries = self.tries_max.saturating_sub(1);
    }

    /// Whether the call may be made again.
    pub fn are_left(&self) -> bool {
        self.tries < self.tries_max
    }

    /// A call failed: the pause before the next one, or nothing when its error is final.
    pub fn failed(&mut self, error: &impl Transient) -> Option<Duration> {
        self.tries = self.tries.saturating_add(1);
        if !error.is_transient() {
            self.refusals += 1;
            if self.refusals >= self.refusals_max {
                self.reset();
                return None;
            }
        }
        self.are_left().then(|| pause(self.tries, self.least, self.most))
    }

    fn reset(&mut self) {
        (self.tries, self.refusals) = (0, 0);
    }
}

/// Makes a call until it is answered or [`Retries`] says that its error is final. In between, `pause` waits as long as it
/// is told, or shorter, and answers whether to go on.
///
/// # Errors
/// The last error of the call.
pub async fn with_retries<T, E, Call, Pause>(
    retries: &mut Retries,
    mut call: impl FnMut() -> Call,
    mut pause: impl FnMut(&E, Duration) -> Pause,
) -> Result<T, E>
where
    E: Transient,
    Call: Future<Output = Result<T, E>>,
    Pause: Future<Output = bool>,
{
    loop {
        let error = match call().await {
            Ok(answer) => {
                retries.reset();
                return Ok(answer);
            }
            Err(error) => error,
        };
        let Some(wait) = retries.failed(&error) else { return Err(error) };
        if !pause(&error, wait).await {
            return Err(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;

    use super::*;

    const LEAST: Duration = Duration::from_millis(50);
    const MOST: Duration = Duration::from_secs(2);

    fn away() -> StoreError {
        StoreError::Unavailable { what: "down".into(), source: None }
    }

    fn broken() -> StoreError {
        StoreError::Internal { what: "broken".into(), source: None }
    }

    /// How often a call is made that fails with these errors, and how it ends.
    async fn tries(retries: &mut Retries, errors: &[fn() -> StoreError]) -> (usize, bool) {
        let mut made = 0;
        let call = || {
            made += 1;
            ready(errors.get(made - 1).map_or(Ok(()), |error| Err(error())))
        };
        let answered = with_retries(retries, call, |_error, _wait| ready(true)).await.is_ok();
        (made, answered)
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        assert_eq!(pause(0, LEAST, MOST), LEAST);
        for failures in [1, 5, 9, u32::MAX] {
            let bound = LEAST.saturating_mul(2u32.saturating_pow(failures.min(16))).min(MOST);
            let pauses: Vec<_> = (0..200).map(|_| pause(failures, LEAST, MOST)).collect();
            assert!(pauses.iter().all(|pause| (LEAST..=bound).contains(pause)), "{pauses:?}");
            assert!(pauses.iter().any(|&pause| pause > bound / 2), "{pauses:?}");
        }
    }

    #[tokio::test]
    async fn a_call_is_repeated_while_its_errors_are_transient() {
        let mut endless = Retries::endless(LEAST, MOST);
        assert_eq!(tries(&mut endless, &[away, away, away]).await, (4, true));
        assert_eq!(tries(&mut endless, &[away, broken]).await, (2, false), "the first other error is final");
        assert_eq!(tries(&mut endless.clone().tries_max(2), &[away, away]).await, (2, false));
        let mut patient = endless.refusals_max(3);
        assert_eq!(tries(&mut patient, &[broken, away, broken]).await, (4, true));
        assert_eq!(tries(&mut patient, &[broken, broken, broken]).await, (3, false));
    }

    #[tokio::test]
    async fn tries_count_over_several_calls_until_one_is_answered() {
        let mut retries = Retries::endless(LEAST, MOST).tries_max(3);
        let failed = with_retries(&mut retries, || ready(Err::<(), _>(away())), |_, _| ready(false)).await;
        assert!(failed.is_err() && retries.are_left(), "the pause said to stop");
        assert_eq!(tries(&mut retries, &[away, away]).await, (2, false), "one is used up");
        assert!(!retries.are_left());
        assert_eq!(tries(&mut retries, &[]).await, (1, true));
        assert!(retries.are_left(), "an answer sets it back");
    }
}
