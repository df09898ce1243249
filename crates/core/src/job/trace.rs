//! The trace that a job belongs to, as the W3C recommendation "Trace Context" writes it.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The longest `tracestate` that is kept.
const STATE_MAX: usize = 512;

/// The trace that a job belongs to: the texts of the headers `traceparent` and `tracestate`.
///
/// ```
/// use windlass_core::job::Trace;
///
/// let trace = Trace::new("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None).unwrap();
/// assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
/// assert_eq!(trace.span_id(), "00f067aa0ba902b7");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Headers")]
pub struct Trace {
    parent: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state: Option<String>,
}

/// As stored; a text that a person or another program wrote is checked like any other.
#[derive(Deserialize)]
struct Headers {
    parent: String,
    #[serde(default)]
    state: Option<String>,
}

impl TryFrom<Headers> for Trace {
    type Error = TraceInvalid;

    fn try_from(headers: Headers) -> Result<Self, TraceInvalid> {
        Self::new(headers.parent, headers.state)
    }
}

/// Why a text is not a trace context.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceInvalid {
    /// The `traceparent` is not one.
    #[error(
        "not a traceparent: expected 00-<32 hex digits>-<16 hex digits>-<2 hex digits>, none of the ids all zero"
    )]
    Parent,
    /// The `tracestate` is too long, or has characters that a header cannot have.
    #[error("not a tracestate: expected at most {STATE_MAX} printable ASCII characters")]
    State,
}

impl Trace {
    /// Checks the two texts. Programs that speak a later version of the recommendation send more at the end, which
    /// is kept.
    pub fn new(parent: impl Into<String>, state: Option<String>) -> Result<Self, TraceInvalid> {
        let parent = parent.into();
        if !is_parent(&parent) {
            return Err(TraceInvalid::Parent);
        }
        let is_printable = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
        if state.as_ref().is_some_and(|state| state.len() > STATE_MAX || !state.bytes().all(is_printable)) {
            return Err(TraceInvalid::State);
        }
        Ok(Self { parent, state: state.filter(|state| !state.is_empty()) })
    }

    /// What two headers say that came from elsewhere, as the recommendation has it: nothing where the first is not a
    /// `traceparent`, and without the second where that is not a `tracestate`. Of a long one the first entries are kept.
    pub fn of_headers(parent: &str, state: Option<&str>) -> Option<Self> {
        let mut state = state.unwrap_or_default();
        while state.len() > STATE_MAX {
            state = state.rsplit_once(',').map_or("", |(first, _last)| first);
        }
        let whole = Self::new(parent, Some(state.to_owned()));
        whole.or_else(|_| Self::new(parent, None)).ok()
    }

    /// Whether its spans are recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags() & 1 == 1
    }

    /// The flags, of which the lowest says whether it is sampled.
    pub fn flags(&self) -> u8 {
        self.parent.get(53..55).and_then(|flags| u8::from_str_radix(flags, 16).ok()).unwrap_or_default()
    }

    /// The text of the header `traceparent`.
    pub fn parent(&self) -> &str {
        &self.parent
    }

    /// The text of the header `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// The id of the trace, 32 hexadecimal digits.
    pub fn trace_id(&self) -> &str {
        self.parent.get(3..35).unwrap_or_default()
    }

    /// The id of the span that enqueued the job, 16 hexadecimal digits.
    pub fn span_id(&self) -> &str {
        self.parent.get(36..52).unwrap_or_default()
    }
}

fn is_parent(text: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let is_set = |text: &str| text.bytes().any(|byte| byte != b'0');
    let mut parts = text.split('-');
    let mut part = |length: usize| parts.next().filter(|part| part.len() == length && is_hex(part));
    let (Some(version), Some(trace), Some(span), Some(_flags)) = (part(2), part(32), part(16), part(2))
    else {
        return false;
    };
    let has_more = text.len() > 55;
    let is_known_shape = if version == "00" { !has_more } else { version != "ff" && text.len() <= STATE_MAX };
    is_set(trace) && is_set(span) && is_known_shape && text.is_ascii()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn what_is_stored_is_checked_too() {
        let read = |parent: &str| serde_json::from_value::<Trace>(serde_json::json!({ "parent": parent }));
        assert_eq!(read(PARENT).unwrap().parent(), PARENT);
        assert!(read("00-x\r\nevil: 1").is_err());
    }

    #[test]
    fn headers_from_elsewhere_are_taken_as_far_as_they_go() {
        let of = |parent: &str, state: &str| Trace::of_headers(parent, Some(state));
        assert_eq!(of("not one", "a=1"), None);
        assert_eq!(of(PARENT, "a\nb").unwrap().state(), None);
        assert_eq!(of(PARENT, "").unwrap().state(), None);
        let entry = format!("k={}", "v".repeat(200));
        let long = [&entry[..]; 4].join(",");
        assert_eq!(of(PARENT, &long).unwrap().state(), Some(&long[..2 * entry.len() + 1]));
        assert_eq!(of(PARENT, &"v".repeat(STATE_MAX + 1)).unwrap().state(), None);
    }

    #[test]
    fn the_lowest_flag_says_whether_it_is_sampled() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let trace = Trace::new(format!("{}{flags}", &PARENT[..53]), None).unwrap();
            assert_eq!(trace.is_sampled(), is_sampled, "{flags}");
        }
    }

    #[test]
    fn what_is_not_a_trace_is_refused() {
        assert!(Trace::new(PARENT, Some("vendor=1,other=2".into())).is_ok());
        assert!(Trace::new(PARENT.replacen("00", "cc", 1) + "-more", None).is_ok(), "a later version");
        let zero = |part: &str| PARENT.replace(part, &"0".repeat(part.len()));
        for wrong in [
            String::new(),
            PARENT.to_uppercase(),
            format!("{PARENT}-more"),
            PARENT.replacen("00", "ff", 1),
            PARENT[..54].to_owned(),
            zero("4bf92f3577b34da6a3ce929d0e0e4736"),
            zero("00f067aa0ba902b7"),
        ] {
            assert_eq!(Trace::new(wrong.clone(), None), Err(TraceInvalid::Parent), "{wrong}");
        }
        for wrong in ["x".repeat(STATE_MAX + 1), "a\nb".into()] {
            assert_eq!(Trace::new(PARENT, Some(wrong)), Err(TraceInvalid::State));
        }
    }
}
