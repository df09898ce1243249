//! Which errors are the same one. Two errors of a kind are if their first lines differ only in what is particular to one
//! job: numbers, ids, addresses, and what stands in quotes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::unique::Digest;

/// The same number for errors that are the same. The form of its text is stored in records and may be kept by people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Fingerprint(u64);

/// Characters of the first line that count.
const LENGTH_MAX: usize = 300;

impl Fingerprint {
    /// The fingerprint of an error of jobs of this kind.
    ///
    /// ```
    /// use windlass_core::fingerprint::Fingerprint;
    /// let of = |error| Fingerprint::of("charge", error);
    /// assert_eq!(of("order 17: card 'visa-1' refused"), of("order 4711: card 'amex-22' refused"));
    /// assert_ne!(of("order 17: card refused"), of("order 17: timed out"));
    /// ```
    pub fn of(kind: &str, error: &str) -> Self {
        let digest = Digest::of(&[kind, &pattern(error)]).0;
        let (head, _) = digest.split_first_chunk().expect("a digest is longer");
        Self(u64::from_be_bytes(*head))
    }
}

/// What errors that are the same have in common: the first line, with `#` for numbers and ids and `…` for quoted text.
pub fn pattern(error: &str) -> String {
    let line = error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let (mut pattern, mut word, mut closing) = (String::new(), String::new(), None);
    for character in line.chars().take(LENGTH_MAX) {
        if closing.is_some() {
            if closing == Some(character) {
                pattern.push('…');
                pattern.push(character);
                closing = None;
            }
            continue;
        }
        if character.is_alphanumeric() || matches!(character, '-' | '_') {
            word.push(character);
            continue;
        }
        push_word(&mut pattern, &mut word);
        pattern.push(character);
        // An apostrophe within a word opens nothing: `can't` has passed above only if it follows no letter.
        closing = match character {
            '"' | '`' => Some(character),
            '\'' if !pattern.trim_end_matches('\'').ends_with(char::is_alphanumeric) => Some(character),
            '«' => Some('»'),
            '“' => Some('”'),
            _ => None,
        };
    }
    push_word(&mut pattern, &mut word);
    pattern
}

/// A word with a digit is a number or an id.
fn push_word(pattern: &mut String, word: &mut String) {
    match word.chars().any(|character| character.is_ascii_digit()) {
        true => pattern.push('#'),
        false => pattern.push_str(word),
    }
    word.clear();
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{:016x}", self.0))
    }
}

/// A text that is not a fingerprint.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not a fingerprint: use the 16 hexadecimal digits that a group is shown with")]
pub struct FingerprintError {
    text: String,
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;
    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let is_hex = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let read = is_hex.then(|| u64::from_str_radix(text, 16).ok()).flatten();
        read.map(Self).ok_or_else(|| FingerprintError { text: text.chars().take(64).collect() })
    }
}

impl TryFrom<String> for Fingerprint {
    type Error = FingerprintError;
    fn try_from(text: String) -> Result<Self, FingerprintError> {
        text.parse()
    }
}

impl From<Fingerprint> for String {
    fn from(fingerprint: Fingerprint) -> Self {
        fingerprint.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_particular_to_one_job_does_not_count() {
        let pairs = [
            ("order 17 refused\nbacktrace 1", "order 4711 refused\nanother"),
            ("user 5f0c-11aa gone", "user 77bd-02ff gone"),
            ("key \"a b\" is taken", "key \"zz\" is taken"),
            ("\n\n  timed out after 30s", "timed out after 5s"),
            ("connect 10.0.0.1:5432: refused", "connect 192.168.7.9:5433: refused"),
        ];
        for (one, other) in pairs {
            assert_eq!(Fingerprint::of("k", one), Fingerprint::of("k", other), "{one} and {other}");
        }
        assert_ne!(Fingerprint::of("k", "timed out"), Fingerprint::of("l", "timed out"), "another kind");
        assert_ne!(pattern("can't connect"), pattern("can't read"), "an apostrophe opens nothing");
    }

    #[test]
    fn any_text_has_one_and_reads_back() {
        for text in ["", "\"never closed", "'", "💥\u{202e}", &"x1 ".repeat(10_000)] {
            let fingerprint = Fingerprint::of("k", text);
            assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
            assert!(pattern(text).len() < 2_000);
        }
        for bad in ["", "xyz", "0123", &"f".repeat(17), "+123456789abcdef"] {
            assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
        }
    }
}
