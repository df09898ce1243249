//! Checks over what a store recorded of attempts, by its own clock: how many ran side by side, and how many began in any
//! span of time.

use std::time::Duration;

use windlass::JobRecord;
use windlass::core::clock::Timestamp;

/// The attempts of jobs that have ended: from their claim to the write of their outcome.
pub fn attempts<'a>(jobs: impl IntoIterator<Item = &'a JobRecord>) -> Vec<(Timestamp, Timestamp)> {
    let all = jobs.into_iter().flat_map(|job| &job.attempts);
    all.map(|attempt| (attempt.started_at, attempt.ended_at.expect("the attempt has ended"))).collect()
}

/// The most spans that cover one instant. One that ends where another begins does not overlap it.
pub fn most_at_once(spans: &[(Timestamp, Timestamp)]) -> usize {
    let ends = spans.iter().map(|&(_, end)| (end, -1));
    // At the same instant ends (-1) come before starts (1).
    let mut events: Vec<(Timestamp, i64)> = spans.iter().map(|&(start, _)| (start, 1)).chain(ends).collect();
    events.sort_unstable();
    let mut now = 0_i64;
    let most = events.into_iter().map(|(_, change)| {
        now += change;
        now
    });
    usize::try_from(most.max().unwrap_or(0)).expect("a span ends after it begins")
}

/// The most spans that begin within any time of this length.
pub fn most_begun_within(spans: &[(Timestamp, Timestamp)], time: Duration) -> usize {
    let mut begins: Vec<Timestamp> = spans.iter().map(|&(start, _)| start).collect();
    begins.sort_unstable();
    let within =
        |first: usize| begins[first..].iter().take_while(|at| at.since(begins[first]) < time).count();
    (0..begins.len()).map(within).max().unwrap_or(0)
}

/// How many spans begin after one instant and before another.
pub fn begun_between(spans: &[(Timestamp, Timestamp)], after: Timestamp, before: Timestamp) -> usize {
    spans.iter().filter(|&&(start, _)| after < start && start < before).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(spans: &[(i64, i64)]) -> Vec<(Timestamp, Timestamp)> {
        spans.iter().map(|&(a, b)| (Timestamp::from_micros(a), Timestamp::from_micros(b))).collect()
    }

    #[test]
    fn overlaps_and_windows_are_counted() {
        let spans = spans(&[(0, 10), (10, 20), (5, 12), (11, 30)]);
        assert_eq!(most_at_once(&spans), 3);
        assert_eq!(most_at_once(&spans[..2]), 1, "one ends where the other begins");
        assert_eq!(most_begun_within(&spans, Duration::from_micros(6)), 2);
        assert_eq!(most_begun_within(&spans, Duration::from_micros(12)), 4);
        let at = Timestamp::from_micros;
        assert_eq!(begun_between(&spans, at(0), at(11)), 2, "neither the first instant nor the last");
        assert_eq!((most_at_once(&[]), most_begun_within(&[], Duration::MAX)), (0, 0));
    }
}
