//! How values are written for people.

use std::time::{Duration, SystemTime};

use windlass_core::clock::Timestamp;
use windlass_core::queue::Keep;
use windlass_core::retry::{Backoff, Jitter, Policy};

use super::Format;

/// A duration with its two largest units.
pub(crate) fn duration(duration: Duration) -> String {
    let rounded = if duration >= Duration::from_secs(10) {
        Duration::from_secs(duration.as_secs())
    } else {
        Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    };
    let exact = humantime::format_duration(if rounded.is_zero() { duration } else { rounded }).to_string();
    exact.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// An instant: how far away it is for a terminal, RFC 3339 elsewhere.
pub(crate) fn instant(at: Timestamp, format: Format) -> String {
    if format != Format::Terminal {
        return at.to_string();
    }
    let now = Timestamp::from(SystemTime::now());
    let (ahead, behind) = (at.since(now), now.since(at));
    if ahead >= Duration::from_millis(1) {
        format!("in {}", duration(ahead))
    } else {
        format!(
            "{} ago",
            duration(Duration::from_millis(u64::try_from(behind.as_millis()).unwrap_or(u64::MAX)))
        )
    }
}

/// An instant for a page about one job: RFC 3339, on a terminal with how far away it is.
pub(crate) fn instant_long(at: Timestamp, format: Format) -> String {
    match format {
        Format::Terminal => format!("{at} ({})", instant(at, format)),
        _ => at.to_string(),
    }
}

/// A number of bytes.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        0..1_024 => format!("{bytes} B"),
        1_024..1_048_576 if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        _ if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} B"),
    }
}

/// What a queue keeps of one state.
pub(crate) fn keep(keep: Keep) -> String {
    match (keep.age, keep.count) {
        (None, None) => "forever".to_owned(),
        (Some(age), None) => duration(age),
        (None, Some(count)) => format!("newest {count}"),
        (Some(age), Some(count)) => format!("{}, newest {count}", duration(age)),
    }
}

/// When and how often a job is tried again.
pub(crate) fn policy(policy: &Policy) -> String {
    let growth = match policy.backoff() {
        Backoff::Fixed { delay } => format!("{} apart", duration(delay)),
        Backoff::Linear { base } => format!("{} more each time", duration(base)),
        Backoff::Exponential { base, factor } => format!("from {} times {factor}", duration(base)),
        Backoff::Polynomial { base, power } => format!("{} times n^{power}", duration(base)),
    };
    let spread = match policy.spread() {
        Jitter::None => "no jitter",
        Jitter::Equal => "equal jitter",
        Jitter::Full => "full jitter",
        Jitter::Decorrelated => "decorrelated jitter",
    };
    format!(
        "{} attempts, {growth}, at most {}, {spread}",
        policy.attempts_max(),
        duration(policy.delay_max())
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_two_units() {
        for (seconds, text) in
            [(0.0, "0s"), (0.3, "300ms"), (1.5, "1s 500ms"), (90.4, "1m 30s"), (93_784.0, "1day 2h")]
        {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
        assert_eq!(duration(Duration::from_micros(120)), "120us");
    }
}
