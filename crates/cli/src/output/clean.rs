//! Makes stored text harmless on a terminal. Error texts, payloads and worker names come from elsewhere: an
//! escape sequence in one could move the cursor, rename the window or hide a line, and a bidirectional
//! override could show text in another order than it has. They are shown as visible escapes instead.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal or a reader could be misled by it.
fn is_hazard(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Text for one line: line ends and tabs become spaces.
pub(crate) fn line(text: &str) -> Cow<'_, str> {
    replaced(text, |c, into| match c {
        '\n' | '\r' | '\t' => into.push(' '),
        _ => into.extend(c.escape_unicode()),
    })
}

/// Text for several lines: line ends and tabs stay.
pub(crate) fn block(text: &str) -> Cow<'_, str> {
    replaced(text, |c, into| match c {
        '\n' | '\t' => into.push(c),
        _ => into.extend(c.escape_unicode()),
    })
}

/// JSON on one line, with the same meaning: in valid JSON a hazard is either space between tokens or stands
/// in a string, where it can be escaped.
pub(crate) fn json(text: &str) -> Cow<'_, str> {
    replaced(text, |c, into| match c {
        '\n' | '\r' | '\t' => into.push(' '),
        _ => {
            // Every hazard is in the basic plane, so four digits are enough.
            let _ = write!(into, "\\u{:04x}", u32::from(c));
        }
    })
}

/// Text without what follows the scheme of a URL on its line, where a password may be.
pub(crate) fn without_urls(text: &str) -> String {
    let cut = |line: &str| match line.split_once("://") {
        Some((before, _)) => format!("{before}://…\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(cut).collect()
}

fn replaced(text: &str, replace: impl Fn(char, &mut String)) -> Cow<'_, str> {
    if !text.contains(is_hazard) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_hazard(c) {
            replace(c, &mut clean);
        } else {
            clean.push(c);
        }
    }
    Cow::Owned(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_and_overrides_become_visible() {
        assert_eq!(line("a\u{1b}[31mb\nc\u{202e}d\u{9b}"), "a\\u{1b}[31mb c\\u{202e}d\\u{9b}");
        assert_eq!(block("a\n\tb\u{7}\r"), "a\n\tb\\u{7}\\u{d}");
        assert!(matches!(line("plain ä 💥"), Cow::Borrowed(_)));
    }

    #[test]
    fn urls_are_cut_at_their_scheme() {
        assert_eq!(without_urls("no 'a://u:p@h' here\nnor\n"), "no 'a://…\nnor\n");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let hostile = "{\n \"a\": \"x\u{202e}y\u{9b}z\u{7f}\"}";
        let clean = json(hostile);
        assert!(!clean.contains(is_hazard), "{clean:?}");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(value(&clean), value(hostile));
    }
}
