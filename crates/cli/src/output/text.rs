//! How values are written for people.

use std::time::{Duration, SystemTime};

use windlass_core::clock::Timestamp;
use windlass_core::queue::Keep;
use windlass_core::retry::{Backoff, Jitter, Policy};

use super::{Format, clean};

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
            duration(Duration::from_millis(
                u64::try_from(behind.as_millis()).unwrap_or(u64::MAX)
            ))
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

/// Stored bytes for reading: JSON indented, text as it is, anything else as its size and beginning.
pub(crate) fn content(bytes: &[u8]) -> String {
    match super::json::Content::of(bytes) {
        super::json::Content::Json(text) => clean::block(&indented(text)).into_owned(),
        super::json::Content::Utf8(text) => clean::block(text).into_owned(),
        super::json::Content::Bytes(bytes) => {
            let start = bytes
                .iter()
                .take(32)
                .map(|byte| format!("{byte:02x}"))
                .collect::<Vec<_>>()
                .join(" ");
            let more = if bytes.len() > 32 { " …" } else { "" };
            format!("{} bytes that are no text: {start}{more}", bytes.len())
        }
    }
}

/// Valid JSON with line ends and indentation. Works on the text, so that numbers keep every digit and keys
/// their order.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0usize;
    let (mut in_string, mut escaped) = (false, false);
    let mut rest = json.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        // Indenting deeper than this would cost more than it shows.
        out.extend(std::iter::repeat_n("  ", depth.min(32)));
    };
    while let Some(c) = rest.next() {
        if in_string {
            out.push(c);
            (in_string, escaped) = (c != '"' || escaped, c == '\\' && !escaped);
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while rest.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = rest.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_keep_two_units() {
        for (seconds, text) in [
            (0.0, "0s"),
            (0.3, "300ms"),
            (1.5, "1s 500ms"),
            (90.4, "1m 30s"),
            (93_784.0, "1day 2h"),
        ] {
            assert_eq!(duration(Duration::from_secs_f64(seconds)), text);
        }
        assert_eq!(duration(Duration::from_micros(120)), "120us");
    }

    #[test]
    fn indenting_changes_only_space() {
        let json = r#"{"b":[1,{"x":"a,\"{ \\"}],"a":123456789012345678901234567890.10, "e": [ ] ,"f":{}}"#;
        let pretty = indented(json);
        assert_eq!(
            pretty.replace("  ", ""),
            "{\n\"b\": [\n1,\n{\n\"x\": \"a,\\\"{ \\\\\"\n}\n],\n\"a\": 123456789012345678901234567890.10,\n\"e\": [],\n\"f\": {}\n}"
        );
    }

    #[test]
    fn content_is_never_raw_on_a_terminal() {
        assert_eq!(content(b"\x1b[2J"), "\\u{1b}[2J");
        assert_eq!(content(b"{\"a\":1}"), "{\n  \"a\": 1\n}");
        assert_eq!(content(&[0xff, 0xfe, 0]), "3 bytes that are no text: ff fe 00");
    }
}
