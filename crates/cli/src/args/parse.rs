//! Parsers for values. Each error says what would be right; clap adds which argument it was.

use std::time::{Duration, SystemTime};

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::forms::{self, positive};
pub(crate) use windlass_core::forms::{
    Backoff, backoff, catch_up, duration, instant, jitter, lifetime, shape, size, version,
};
use windlass_core::job::{Trace, TraceInvalid};
use windlass_core::queue::{LEVEL_WORTH_MAX, LEVEL_WORTH_MIN, Rate, WEIGHT_MAX};
use windlass_core::record::{RecordKey, RecordKeyError};
use windlass_core::tally::Interval;

/// The length of a step of tallies.
pub(crate) fn interval(text: &str) -> Result<Interval, String> {
    match text {
        "1m" => Ok(Interval::Minute),
        "10m" => Ok(Interval::TenMinutes),
        "1h" => Ok(Interval::Hour),
        _ => Err("use 1m, 10m or 1h".to_owned()),
    }
}

/// How many jobs may run at once; nothing for no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Concurrency(pub(crate) Option<u32>);

/// `20`, or `none`.
pub(crate) fn concurrency(text: &str) -> Result<Concurrency, String> {
    match text {
        "none" => Ok(Concurrency(None)),
        _ => match text.parse() {
            Ok(0) => Err("no job could run; use windlass queues pause".to_owned()),
            Ok(most) => Ok(Concurrency(Some(most))),
            Err(error) => Err(format!("{error}; use a number, or none")),
        },
    }
}

/// How many jobs may wait; nothing for no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Capacity(pub(crate) Option<u64>);

/// `10000`, or `none`.
pub(crate) fn capacity(text: &str) -> Result<Capacity, String> {
    match text {
        "none" => Ok(Capacity(None)),
        _ => match text.parse() {
            Ok(0) => Err("no job could be enqueued; use windlass queues pause, or remove".to_owned()),
            Ok(most) => Ok(Capacity(Some(most))),
            Err(error) => Err(format!("{error}; use a number, or none")),
        },
    }
}

/// The queue that dead jobs are sent to; nothing for none.
#[derive(Debug, Clone)]
pub(crate) struct Forward(pub(crate) Option<Name>);

/// A queue, or `none`.
pub(crate) fn forward(text: &str) -> Result<Forward, String> {
    match text {
        "none" => Ok(Forward(None)),
        _ => Name::new(text).map(|queue| Forward(Some(queue))).map_err(|error| error.to_string()),
    }
}

/// What a level of priority is worth; nothing for the higher level always first.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aging(pub(crate) Option<Duration>);

/// `10s`, or `none`.
pub(crate) fn aging(text: &str) -> Result<Aging, String> {
    if text == "none" {
        return Ok(Aging(None));
    }
    let worth = duration(text).map_err(|error| format!("{error}; or none"))?;
    if (LEVEL_WORTH_MIN..=LEVEL_WORTH_MAX).contains(&worth) {
        Ok(Aging(Some(worth)))
    } else {
        Err("a level is worth 1ms to 24h; or none for the higher level always first".to_owned())
    }
}

/// `acme=5`.
pub(crate) fn weight(text: &str) -> Result<(Name, u32), String> {
    let (key, weight) = pair(text).map_err(|_| "not a key and a weight; use KEY=N, as acme=5".to_owned())?;
    let key = Name::new(key).map_err(|error| error.to_string())?;
    match weight.parse() {
        Ok(weight @ 1..=WEIGHT_MAX) => Ok((key, weight)),
        _ => Err(format!("a weight is a number from 1 to {WEIGHT_MAX}")),
    }
}

/// How many jobs may start in a time; nothing for no limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RateLimit(pub(crate) Option<Rate>);

/// `500/1m`, or `none`.
pub(crate) fn rate(text: &str) -> Result<RateLimit, String> {
    match text {
        "none" => Ok(RateLimit(None)),
        _ => forms::rate(text).map(|rate| RateLimit(Some(rate))).map_err(|error| format!("{error}, or none")),
    }
}

/// An instant, or one that lies so long ago.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Ago(Duration),
    At(SystemTime),
}

impl When {
    /// The instant, where it is now.
    pub(crate) fn at(self, now: Timestamp) -> SystemTime {
        match self {
            Self::Ago(time) => now.minus(time).into(),
            Self::At(instant) => instant,
        }
    }
}

/// `2h`, or `2026-11-15T08:30:00Z`.
pub(crate) fn when(text: &str) -> Result<When, String> {
    const FORMS: &str = "use a duration such as 2h, or an instant in UTC, as 2026-11-15T08:30:00Z";
    match humantime::parse_rfc3339_weak(text) {
        Ok(instant) => Ok(When::At(instant)),
        Err(_) => positive(text, FORMS).map(When::Ago),
    }
}

/// `order.id=42`: a path of fields and the value there.
pub(crate) fn field(text: &str) -> Result<(String, String), String> {
    const FORM: &str = "use PATH=VALUE, as order.id=42";
    let (path, value) = pair(text).map_err(|_| format!("not a path and a value; {FORM}"))?;
    match path.split('.').any(str::is_empty) {
        true => Err(format!("a field of the path is empty; {FORM}")),
        false => Ok((path, value)),
    }
}

/// The key of a record.
pub(crate) fn record_key(text: &str) -> Result<RecordKey, RecordKeyError> {
    RecordKey::new(text)
}

/// An age, or nothing for `forever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Option<Duration>);

pub(crate) fn age(text: &str) -> Result<Age, String> {
    if text == "forever" {
        return Ok(Age(None));
    }
    positive(text, "use forms such as 12h or 30d, or forever").map(|age| Age(Some(age)))
}

/// A number, or nothing for `all`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(pub(crate) Option<u64>);

pub(crate) fn count(text: &str) -> Result<Count, String> {
    if text == "all" {
        return Ok(Count(None));
    }
    text.parse().map(|count| Count(Some(count))).map_err(|error| format!("{error}; use a number, or all"))
}

/// KEY=VALUE; the value may have further equals signs.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("not a key and a value; use KEY=VALUE, as tenant=acme".to_owned()),
    }
}

pub(crate) fn trace(text: &str) -> Result<Trace, TraceInvalid> {
    Trace::new(text, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_duration_says_what_would_be_right() {
        assert!(duration("5 parsecs").unwrap_err().contains("use forms such as 300ms"));
        for (bad, why) in [("-5m", "cannot be negative"), ("--at", "an option stands where")] {
            assert!(duration(bad).unwrap_err().contains(why) && age(bad).unwrap_err().contains(why), "{bad}");
        }
        assert!(instant("tomorrow").unwrap_err().contains("use UTC"));
        assert_eq!(age("forever"), Ok(Age(None)));
        assert_eq!(count("all"), Ok(Count(None)));
    }
}
