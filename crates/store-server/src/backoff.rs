//! How long to wait after failures in a row, so that a server that comes back is not run over.

use std::time::Duration;

/// The shortest pause.
pub const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Full jitter: anything from the shortest pause up to a bound that doubles with each failure.
pub fn pause(failures: u32) -> Duration {
    let most = PAUSE_MIN.saturating_mul(1 << failures.min(8)).min(PAUSE_MAX);
    PAUSE_MIN + (most - PAUSE_MIN).mul_f64(fastrand::f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_but_not_beyond_the_longest() {
        assert_eq!(pause(0), PAUSE_MIN);
        for failures in [1, 5, 9, u32::MAX] {
            let most = PAUSE_MIN * 2_u32.pow(failures.min(8));
            let pauses: Vec<_> = (0..200).map(|_| pause(failures)).collect();
            assert!(
                pauses.iter().all(|pause| (PAUSE_MIN..=PAUSE_MAX.min(most)).contains(pause)),
                "{pauses:?}"
            );
            assert!(pauses.iter().any(|&pause| pause > most.min(PAUSE_MAX) / 2), "{pauses:?}");
        }
    }
}
