//! How people write durations, instants, rates and policies: on a command line, in the JSON of the HTTP API. One form for
//! each, so that what one of them shows the other takes. Each error says what would be right.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::queue::{Rate, Shape};
use crate::record::Version;
use crate::retry::{self, Jitter, Policy};
use crate::schedule::CatchUp;
use crate::unique::Lifetime;

/// `300ms`, `2h`, `1h 30m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    positive(text, "use forms such as 300ms, 2h or 1h 30m")
}

/// A duration as [`duration`] reads it.
pub fn span(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// A duration with its two largest units, as `90d`, `1m 30s` or `1s 500ms`.
pub fn short(duration: Duration) -> String {
    const UNITS: [(u128, &str); 6] = [
        (86_400_000_000, "d"),
        (3_600_000_000, "h"),
        (60_000_000, "m"),
        (1_000_000, "s"),
        (1_000, "ms"),
        (1, "us"),
    ];
    let mut micros = duration.as_micros();
    let first = UNITS.iter().position(|(size, _)| micros >= *size).unwrap_or(3);
    let mut parts = Vec::new();
    for (size, unit) in &UNITS[first..UNITS.len().min(first + 2)] {
        if micros >= *size || parts.is_empty() {
            parts.push(format!("{}{unit}", micros / size));
        }
        micros %= size;
    }
    parts.join(" ")
}

/// Whole seconds, where there are any; whole milliseconds below.
pub fn coarse(duration: Duration) -> Duration {
    match duration.as_secs() {
        0 => Duration::from_millis(u64::from(duration.subsec_millis())),
        seconds => Duration::from_secs(seconds),
    }
}

/// `start`, `end`, or a duration.
pub fn lifetime(text: &str) -> Result<Lifetime, String> {
    match text {
        "start" => Ok(Lifetime::Start),
        "end" => Ok(Lifetime::End),
        _ => {
            positive(text, "use start, end, or a duration such as 300ms, 2h or 1h 30m").map(Lifetime::Window)
        }
    }
}

/// `skip`, `once`, `all:100`.
pub fn catch_up(text: &str) -> Result<CatchUp, String> {
    match (text, text.strip_prefix("all:").map(str::parse)) {
        ("skip", _) => Ok(CatchUp::Skip),
        ("once", _) => Ok(CatchUp::Once),
        (_, Some(Ok(most))) => Ok(CatchUp::All(most)),
        _ => Err("use skip, once or all:N".to_owned()),
    }
}

/// `skip`, `once`, `all:100`, as [`catch_up`] reads it.
pub fn catch_up_text(catch_up: CatchUp) -> String {
    match catch_up {
        CatchUp::Skip => "skip".to_owned(),
        CatchUp::Once => "once".to_owned(),
        CatchUp::All(most) => format!("all:{most}"),
    }
}

/// `500/1m`. How it is spread is said apart, as a [`shape`].
pub fn rate(text: &str) -> Result<Rate, String> {
    const FORMS: &str = "use forms such as 100/1s or 500/1m";
    let (jobs, per) = text.split_once('/').ok_or_else(|| format!("a rate is jobs by time; {FORMS}"))?;
    let jobs = jobs.parse().map_err(|error| format!("{error}; {FORMS}"))?;
    let rate = Rate::new(jobs, positive(per, FORMS)?);
    rate.check().map_err(|error| error.to_string())?;
    Ok(rate)
}

/// A rate as [`rate`] reads it.
pub fn rate_text(rate: &Rate) -> String {
    format!("{}/{}", rate.jobs, span(rate.per))
}

/// `sliding`, `fixed`, `bucket:10`.
pub fn shape(text: &str) -> Result<Shape, String> {
    match (text, text.strip_prefix("bucket:").map(str::parse)) {
        ("sliding", _) => Ok(Shape::Sliding),
        ("fixed", _) => Ok(Shape::Fixed),
        (_, Some(Ok(burst))) => Ok(Shape::Bucket { burst }),
        _ => Err("use sliding, fixed, or bucket:N with the number that may start at once".to_owned()),
    }
}

/// A shape as [`shape`] reads it.
pub fn shape_text(shape: Shape) -> String {
    match shape {
        Shape::Sliding => "sliding".to_owned(),
        Shape::Fixed => "fixed".to_owned(),
        Shape::Bucket { burst } => format!("bucket:{burst}"),
    }
}

/// A duration, or why it is not one, with the forms that would be right. Arguments that take one also take what begins with
/// a hyphen, so that a negative one is answered here.
pub fn positive(text: &str, forms: &str) -> Result<Duration, String> {
    match text.strip_prefix('-') {
        Some(rest) if rest.starts_with(|c: char| c.is_ascii_digit()) => {
            Err(format!("a duration cannot be negative; {forms}"))
        }
        Some(_) => Err(format!("an option stands where a duration belongs; {forms}")),
        None => humantime::parse_duration(text).map_err(|error| format!("{error}; {forms}")),
    }
}

/// An instant in UTC, as `2026-11-15T08:30:00Z`.
pub fn instant(text: &str) -> Result<SystemTime, String> {
    humantime::parse_rfc3339_weak(text).map_err(|error| format!("{error}; use UTC, as 2026-11-15T08:30:00Z"))
}

/// How waits between attempts grow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
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
    pub fn policy(self, attempts: u32) -> Policy {
        match self.growth {
            Growth::Fixed => Policy::fixed(attempts, self.base),
            Growth::Linear => Policy::linear(attempts, self.base),
            Growth::Exponential(factor) => Policy::exponential(attempts, self.base).factor(factor),
            Growth::Polynomial(power) => Policy::polynomial(attempts, self.base, power),
        }
    }
}

impl From<retry::Backoff> for Backoff {
    fn from(backoff: retry::Backoff) -> Self {
        let (growth, base) = match backoff {
            retry::Backoff::Fixed { delay } => (Growth::Fixed, delay),
            retry::Backoff::Linear { base } => (Growth::Linear, base),
            retry::Backoff::Exponential { base, factor } => (Growth::Exponential(factor), base),
            retry::Backoff::Polynomial { base, power } => (Growth::Polynomial(power), base),
        };
        Self { growth, base }
    }
}

/// As [`backoff`] reads it.
impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = span(self.base);
        match self.growth {
            Growth::Fixed => write!(f, "fixed:{base}"),
            Growth::Linear => write!(f, "linear:{base}"),
            Growth::Exponential(factor) => write!(f, "exponential:{base}:{factor}"),
            Growth::Polynomial(power) => write!(f, "polynomial:{base}:{power}"),
        }
    }
}

const BACKOFF_FORMS: &str =
    "use fixed:10s, linear:10s, exponential:2s, exponential:2s:3 (its factor) or polynomial:1s:4 (its power)";

/// `fixed:10s`, `linear:10s`, `exponential:2s`, `exponential:2s:3` with its factor, `polynomial:1s:4` with its power.
pub fn backoff(text: &str) -> Result<Backoff, String> {
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

/// `none`, `equal`, `full`, `decorrelated`, `share:0.1`.
pub fn jitter(text: &str) -> Result<Jitter, String> {
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

/// A jitter as [`jitter`] reads it.
pub fn jitter_text(jitter: Jitter) -> String {
    match jitter {
        Jitter::None => "none".to_owned(),
        Jitter::Equal => "equal".to_owned(),
        Jitter::Full => "full".to_owned(),
        Jitter::Decorrelated => "decorrelated".to_owned(),
        Jitter::Share(thousandths) => format!("share:{}", f64::from(thousandths) / 1_000.0),
    }
}

/// The version of a record, as it is shown.
pub fn version(text: &str) -> Result<Version, String> {
    let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let read = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
    read.map(Version)
        .ok_or_else(|| "not a version: use the 16 hexadecimal digits that a record is shown with".to_owned())
}

/// Bytes, as `5000`, `64KiB` or `2MiB`.
pub fn size(text: &str) -> Result<usize, String> {
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
}
