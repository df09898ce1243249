//! Parsers for values. Each error says what would be right; clap adds which argument it was.

use std::time::{Duration, SystemTime};

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::job::{Trace, TraceInvalid};
use windlass_core::queue::{LEVEL_WORTH_MAX, LEVEL_WORTH_MIN, Rate, Shape, WEIGHT_MAX};
use windlass_core::record::{RecordKey, RecordKeyError, Version};
use windlass_core::retry::{Jitter, Policy};
use windlass_core::schedule::CatchUp;
use windlass_core::tally::Interval;
use windlass_core::unique::Lifetime;

/// `300ms`, `2h`, `1h 30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    positive(text, "use forms such as 300ms, 2h or 1h 30m")
}

/// The length of a step of tallies.
pub(crate) fn interval(text: &str) -> Result<Interval, String> {
    match text {
        "1m" => Ok(Interval::Minute),
        "10m" => Ok(Interval::TenMinutes),
        "1h" => Ok(Interval::Hour),
        _ => Err("use 1m, 10m or 1h".to_owned()),
    }
}

/// `start`, `end`, or a duration.
pub(crate) fn lifetime(text: &str) -> Result<Lifetime, String> {
    match text {
        "start" => Ok(Lifetime::Start),
        "end" => Ok(Lifetime::End),
        _ => {
            positive(text, "use start, end, or a duration such as 300ms, 2h or 1h 30m").map(Lifetime::Window)
        }
    }
}

/// `skip`, `once`, `all:100`.
pub(crate) fn catch_up(text: &str) -> Result<CatchUp, String> {
    match (text, text.strip_prefix("all:").map(str::parse)) {
        ("skip", _) => Ok(CatchUp::Skip),
        ("once", _) => Ok(CatchUp::Once),
        (_, Some(Ok(most))) => Ok(CatchUp::All(most)),
        _ => Err("use skip, once or all:N".to_owned()),
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
    const FORMS: &str = "use forms such as 100/1s or 500/1m, or none";
    if text == "none" {
        return Ok(RateLimit(None));
    }
    let (jobs, per) = text.split_once('/').ok_or_else(|| format!("a rate is jobs by time; {FORMS}"))?;
    let jobs = jobs.parse().map_err(|error| format!("{error}; {FORMS}"))?;
    let rate = Rate::new(jobs, positive(per, FORMS)?);
    rate.check().map_err(|error| error.to_string())?;
    Ok(RateLimit(Some(rate)))
}

/// `sliding`, `fixed`, `bucket:10`.
pub(crate) fn shape(text: &str) -> Result<Shape, String> {
    match (text, text.strip_prefix("bucket:").map(str::parse)) {
        ("sliding", _) => Ok(Shape::Sliding),
        ("fixed", _) => Ok(Shape::Fixed),
        (_, Some(Ok(burst))) => Ok(Shape::Bucket { burst }),
        _ => Err("use sliding, fixed, or bucket:N with the number that may start at once".to_owned()),
    }
}

/// A duration, or why it is none with the forms that would be right. Arguments that take one also take what begins with
/// a hyphen, so that a negative one is answered here.
fn positive(text: &str, forms: &str) -> Result<Duration, String> {
    match text.strip_prefix('-') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(format!("a duration cannot be negative; {forms}"))
        }
        Some(_) => Err(format!("an option stands where a duration belongs; {forms}")),
        None => humantime::parse_duration(text).map_err(|error| format!("{error}; {forms}")),
    }
}

/// An instant in UTC.
pub(crate) fn instant(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text).map_err(|error| format!("{error}; use UTC, as 2026-11-15T08:30:00Z"))
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

/// The version of a record, as it is shown.
pub(crate) fn version(text: &str) -> Result<Version, String> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let read = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    read.map(Version)
        .ok_or_else(|| "not a version: use the 16 hexadecimal digits that a record is shown with".to_owned())
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

/// Bytes, as `5000`, `64KiB` or `2MiB`.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: usize = match &text[digits.len()..] {
        "" | "B" => 1,
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        other => {
            return Err(format!("{other:?} is not a unit; use forms such as 5000, 64KiB or 2MiB"));
        }
    };
    digits
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "not a size; use forms such as 5000, 64KiB or 2MiB".to_owned())
}

/// How waits between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Backoff {
    growth: Growth,
    base: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Growth {
    Fixed,
    Linear,
    Exponential(f64),
    Polynomial(f64),
}

impl Backoff {
    /// The policy with this many attempts.
    pub(crate) fn policy(self, attempts: u32) -> Policy {
        match self.growth {
            Growth::Fixed => Policy::fixed(attempts, self.base),
            Growth::Linear => Policy::linear(attempts, self.base),
            Growth::Exponential(factor) => Policy::exponential(attempts, self.base).factor(factor),
            Growth::Polynomial(power) => Policy::polynomial(attempts, self.base, power),
        }
    }
}

const BACKOFF_FORMS: &str =
    "use fixed:10s, linear:10s, exponential:2s, exponential:2s:3 (its factor) or polynomial:1s:4 (its power)";

pub(crate) fn backoff(text: &str) -> Result<Backoff, String> {
    let mut parts = text.split(':');
    let growth = parts.next().unwrap_or_default();
    let base = parts.next().ok_or_else(|| format!("no first wait; {BACKOFF_FORMS}"))?;
    let base = positive(base, BACKOFF_FORMS)?;
    let number = parts
        .next()
        .map(|number| match number.parse::<f64>() {
            Ok(number) if number.is_finite() && number >= 0.0 => Ok(number),
            _ => Err(format!("{number:?} is not a factor or power; {BACKOFF_FORMS}")),
        })
        .transpose()?;
    if parts.next().is_some() {
        return Err(format!("too many parts; {BACKOFF_FORMS}"));
    }
    let growth = match (growth, number) {
        ("fixed", None) => Growth::Fixed,
        ("linear", None) => Growth::Linear,
        ("exponential", factor) if factor.is_none_or(|factor| factor >= 1.0) => {
            Growth::Exponential(factor.unwrap_or(2.0))
        }
        ("polynomial", Some(power)) => Growth::Polynomial(power),
        _ => return Err(format!("no such backoff; {BACKOFF_FORMS}")),
    };
    Ok(Backoff { growth, base })
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

pub(crate) fn jitter(text: &str) -> Result<Jitter, String> {
    match text {
        "none" => Ok(Jitter::None),
        "equal" => Ok(Jitter::Equal),
        "full" => Ok(Jitter::Full),
        "decorrelated" => Ok(Jitter::Decorrelated),
        _ => match text.strip_prefix("share:").map(str::parse) {
            Some(Ok(share)) if (0.0..=1.0).contains(&share) => Ok(Jitter::share(share)),
            _ => Err("no such jitter; use none, equal, full, decorrelated or share:0.1".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(size("5000"), Ok(5000));
        assert_eq!(size("64KiB"), Ok(65_536));
        assert_eq!(size("2M"), Ok(2 << 20));
        for bad in ["", "KiB", "1GB", "-1", "1.5MiB", "99999999999999999999MiB"] {
            assert!(size(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn backoffs_become_policies() {
        let second = Duration::from_secs(1);
        for (text, policy) in [
            ("fixed:1s", Policy::fixed(7, second)),
            ("linear:1s", Policy::linear(7, second)),
            ("exponential:1s", Policy::exponential(7, second)),
            ("exponential:1s:3", Policy::exponential(7, second).factor(3.0)),
            ("polynomial:1s:4", Policy::polynomial(7, second, 4.0)),
        ] {
            assert_eq!(backoff(text).unwrap().policy(7), policy, "{text}");
        }
        for bad in [
            "",
            "fixed",
            "fixed:x",
            "fixed:1s:2",
            "cubic:1s",
            "polynomial:1s",
            "exponential:1s:0.5",
            "exponential:1s:NaN",
        ] {
            assert!(
                backoff(bad).unwrap_err().contains("exponential:2s"),
                "{bad:?} was accepted or unhelpful"
            );
        }
    }

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
