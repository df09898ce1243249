//! Payloads, outputs and progress: bytes whose meaning only their handler knows. Shown as JSON where they are
//! JSON, as text where they are text, and otherwise in a form that says what it is.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::clean;

/// Stored bytes by what they turn out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// Valid JSON, without space around it.
    Json(&'a str),
    /// Any other text.
    Utf8(&'a str),
    /// Anything else.
    Bytes(&'a [u8]),
}

impl<'a> Content<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Err(_) => Self::Bytes(bytes),
            Ok(text) => match serde_json::from_str::<&RawValue>(text) {
                Ok(json) => Self::Json(json.get()),
                Err(_) => Self::Utf8(text),
            },
        }
    }

    /// How the value that stands beside it is to be read.
    pub(crate) fn encoding(self) -> &'static str {
        match self {
            Self::Json(_) => "json",
            Self::Utf8(_) => "utf8",
            Self::Bytes(_) => "base64",
        }
    }
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            // As it was written, so that no digit of a large number is lost.
            Self::Json(text) => match serde_json::from_str::<&RawValue>(text) {
                Ok(raw) => raw.serialize(serializer),
                Err(error) => Err(serde::ser::Error::custom(error)),
            },
            Self::Utf8(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_str(&BASE64_STANDARD.encode(bytes)),
        }
    }
}

/// Stored bytes for reading: JSON indented, text as it is, anything else as its size and beginning.
pub(crate) fn readable(bytes: &[u8]) -> String {
    match Content::of(bytes) {
        Content::Json(text) => clean::block(&indented(text)).into_owned(),
        Content::Utf8(text) => clean::block(text).into_owned(),
        Content::Bytes(bytes) => {
            let start = bytes.iter().take(32).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
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
    fn content_says_how_it_is_to_be_read() {
        let shown = |bytes: &[u8]| {
            let content = Content::of(bytes);
            (serde_json::to_string(&content).unwrap(), content.encoding())
        };
        assert_eq!(
            shown(b" {\"a\": 12345678901234567890123}\n"),
            ("{\"a\": 12345678901234567890123}".into(), "json")
        );
        assert_eq!(shown(b"a,b\n"), ("\"a,b\\n\"".into(), "utf8"));
        assert_eq!(shown(b""), ("\"\"".into(), "utf8"));
        assert_eq!(shown(&[0xff, 0]), ("\"/wA=\"".into(), "base64"));
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
        assert_eq!(readable(b"\x1b[2J"), "\\u{1b}[2J");
        assert_eq!(readable(b"{\"a\":1}"), "{\n  \"a\": 1\n}");
        assert_eq!(readable(&[0xff, 0xfe, 0]), "3 bytes that are no text: ff fe 00");
    }
}
