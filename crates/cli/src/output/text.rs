//! How values are written for people.

use std::time::SystemTime;

use windlass_core::State;
use windlass_core::clock::Timestamp;
use windlass_core::queue::{Counts, JobDefaults, Keep, KeyRules, Pause, QueueConfig, Rate, Retention, Shape};
use windlass_core::retry::{Backoff, Jitter, Policy};

use super::{Format, clean};

pub(crate) use windlass_core::forms::{coarse, short as duration};

/// An instant: how far away it is for a terminal, RFC 3339 elsewhere.
pub(crate) fn instant(at: Timestamp, format: Format) -> String {
    if format != Format::Terminal {
        return at.to_string();
    }
    let now = Timestamp::from(SystemTime::now());
    let (ahead, behind) = (at.since(now), now.since(at));
    if ahead.is_zero() {
        format!("{} ago", duration(coarse(behind)))
    } else {
        format!("in {}", duration(coarse(ahead)))
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

/// The beginning of an error, for a table; `jobs show` has the newest one in full.
pub(crate) fn first_line(error: &str) -> String {
    const LONGEST: usize = 120;
    let line = error.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(LONGEST).collect();
    if cut.len() < error.trim_end().len() { format!("{cut}…") } else { cut }
}

/// How many jobs are in each state, by its name.
pub(crate) fn by_state(counts: &Counts) -> impl Iterator<Item = (&'static str, u64)> {
    State::ALL.into_iter().map(|state| (state.as_str(), counts.of(state)))
}

/// What a queue hands out at an instant, in a few words.
pub(crate) fn rules(config: &QueueConfig, now: Timestamp) -> String {
    let mut rules = Vec::new();
    if let Some(pause) = config.pauses.queue.as_ref().filter(|pause| pause.holds(now)) {
        rules.push(format!("nothing: paused{}", about(pause)));
    }
    let paused = config.pauses.kinds.iter().filter(|(_, pause)| pause.holds(now));
    rules.extend(paused.map(|(kind, pause)| format!("no {kind}: paused{}", about(pause))));
    let paused = config.pauses.keys.iter().filter(|(_, pause)| pause.holds(now));
    rules.extend(paused.map(|(key, pause)| format!("none of key {key}: paused{}", about(pause))));
    rules.extend(config.concurrency.map(|most| format!("{most} at once")));
    rules.extend(config.rate.map(|rate| self::rate(&rate)));
    if let Some(keys) = &config.keys {
        rules.push(self::keys(keys));
    }
    rules.extend(config.aging.map(|worth| format!("priorities aged, {} for each level", duration(worth))));
    rules.extend(config.capacity.map(|most| format!("at most {most} wait")));
    if rules.is_empty() { "everything: its pause is over".to_owned() } else { rules.join(", ") }
}

fn rate(&Rate { jobs, per, shape }: &Rate) -> String {
    let shape = match shape {
        Shape::Sliding => String::new(),
        Shape::Fixed => " in each slot".to_owned(),
        Shape::Bucket { burst } => format!(" evenly, {burst} after a rest"),
    };
    format!("{jobs} in {}{shape}", duration(per))
}

/// What holds for each key.
fn keys(keys: &KeyRules) -> String {
    let limits =
        [keys.concurrency.map(|most| format!("{most} at once")), keys.rate.map(|rate| self::rate(&rate))];
    let limits: Vec<String> = limits.into_iter().flatten().collect();
    let weights: Vec<String> = keys.weights.iter().map(|(key, weight)| format!("{key}={weight}")).collect();
    let mut text = "keys in turn".to_owned();
    if !limits.is_empty() {
        text = format!("{text}, each {}", limits.join(" and "));
    }
    if !weights.is_empty() {
        text = format!("{text}, weights {}", weights.join(" "));
    }
    text
}

/// What holds for jobs that say nothing themselves.
pub(crate) fn defaults(
    JobDefaults { retry, timeout, priority, on_dead, forward_dead }: &JobDefaults,
) -> String {
    let parts = [
        retry.as_ref().map(policy),
        timeout.map(|timeout| format!("a timeout of {}", duration(timeout))),
        priority.map(|priority| format!("priority {priority}")),
        on_dead.as_ref().map(|hook| format!("a job of kind {} when one dies", hook.kind)),
        forward_dead.as_ref().map(|queue| format!("dead ones go on to {queue}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Who paused a queue, why and until when.
fn about(pause: &Pause) -> String {
    let by = Some(&pause.by).filter(|by| !by.is_empty()).map(|by| format!(" by {}", clean::line(by)));
    let until = pause.until.map(|until| format!(" until {until}"));
    let why = Some(&pause.why).filter(|why| !why.is_empty()).map(|why| format!(" ({})", clean::line(why)));
    [by, until, why].into_iter().flatten().collect()
}

/// What a queue keeps.
pub(crate) fn retention(retention: &Retention) -> String {
    let Retention { completed, dead, cancelled } = *retention;
    format!("completed {}, dead {}, cancelled {}", keep(completed), keep(dead), keep(cancelled))
}

fn keep(keep: Keep) -> String {
    match (keep.age, keep.count) {
        _ if keep.is_none() => "none".to_owned(),
        (None, None) => "forever".to_owned(),
        (Some(age), None) => duration(age),
        (None, Some(count)) => format!("newest {count}"),
        (Some(age), Some(count)) => format!("{} and newest {count}", duration(age)),
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
        Jitter::None => "no jitter".to_owned(),
        Jitter::Equal => "equal jitter".to_owned(),
        Jitter::Full => "full jitter".to_owned(),
        Jitter::Decorrelated => "decorrelated jitter".to_owned(),
        Jitter::Share(thousandths) => format!("plus or minus {}%", f64::from(thousandths) / 10.0),
    };
    format!(
        "{} attempts, {growth}, at most {}, {spread}",
        policy.attempts_max(),
        duration(policy.delay_max())
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_queue_that_keeps_none_says_so() {
        let kept = Retention { completed: Keep::NONE, dead: Keep::FOREVER, cancelled: Keep::count(3) };
        assert_eq!(retention(&kept), "completed none, dead forever, cancelled newest 3");
    }

    #[test]
    fn durations_keep_two_units() {
        for (micros, text) in [
            (0, "0s"),
            (120, "120us"),
            (300_000, "300ms"),
            (1_500_000, "1s 500ms"),
            (90_400_000, "1m 30s"),
            (3_600_000_000, "1h"),
            (3_605_000_000, "1h"),
            (93_784_000_000, "1d 2h"),
            (7_776_000_000_000, "90d"),
        ] {
            assert_eq!(duration(Duration::from_micros(micros)), text);
        }
    }
}
