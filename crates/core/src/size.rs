//! How large payloads, outputs, error texts and labels may be.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

/// Caps in bytes. Each queue may set its own; these are the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Caps {
    /// The largest payload that is accepted.
    pub payload: usize,
    /// The largest output that is kept.
    pub output: usize,
    /// Error texts are cut to this.
    pub error: usize,
}

impl Default for Caps {
    fn default() -> Self {
        Self { payload: 1 << 20, output: 1 << 20, error: 64 << 10 }
    }
}

/// No cap may be set above this: a store holds a whole batch in memory.
pub const CAP_MAX: usize = 64 << 20;

/// A payload or output that is larger than its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error, Serialize)]
#[error("{what} has {size} bytes, the cap is {cap}: store large content elsewhere and pass a reference")]
pub struct TooLarge {
    /// `payload`, `output` or `progress`.
    pub what: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// What is allowed.
    pub cap: usize,
}

impl TooLarge {
    /// Fails when `size` is above `cap`.
    pub fn check(what: &'static str, size: usize, cap: usize) -> Result<(), Self> {
        if size > cap { Err(Self { what, size, cap }) } else { Ok(()) }
    }
}

// A derived one would ask for input that lives for ever.
impl<'de> Deserialize<'de> for TooLarge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Sent {
            what: String,
            size: usize,
            cap: usize,
        }
        let Sent { what, size, cap } = Sent::deserialize(from)?;
        let known = ["payload", "output", "progress"].into_iter().find(|part| *part == what);
        let what = known.ok_or_else(|| D::Error::custom("no such part of a job"))?;
        Ok(Self { what, size, cap })
    }
}

/// Cuts an error text to at most `cap` bytes on a character border, says how long it was, and drops NUL,
/// which not every store can hold.
pub fn bounded_text(text: &str, cap: usize) -> String {
    let clean = |part: &str| part.replace('\0', "\u{fffd}");
    if text.len() <= cap && !text.contains('\0') {
        return text.to_owned();
    }
    let note = format!("… (cut, {} bytes in all)", text.len());
    let mut end = cap.saturating_sub(note.len()).min(text.len());
    loop {
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let cut = clean(&text[..end]);
        if end == text.len() && cut.len() <= cap {
            return cut;
        }
        if cut.len() + note.len() <= cap {
            return cut + &note;
        }
        if end == 0 {
            return String::new();
        }
        // A replaced NUL is three bytes: give up as many as are over.
        end = end.saturating_sub((cut.len() + note.len() - cap).div_ceil(3));
    }
}

/// The most bytes that a label has.
pub const LABEL_MAX: usize = 128;

/// A label as stores keep it: cut to [`LABEL_MAX`] bytes on a character border, NUL replaced, which not every
/// store can hold.
pub fn label(text: &str) -> String {
    let mut label = String::new();
    for character in text.chars().map(|each| if each == '\0' { char::REPLACEMENT_CHARACTER } else { each }) {
        if label.len() + character.len_utf8() > LABEL_MAX {
            break;
        }
        label.push(character);
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_on_a_character_border_and_say_so() {
        let cut = bounded_text(&"ä".repeat(1000), 101);
        assert!(cut.len() <= 101, "{}", cut.len());
        assert!(cut.ends_with("… (cut, 2000 bytes in all)"), "{cut}");
        assert_eq!(bounded_text("short", 64), "short");
        assert_eq!(bounded_text("anything", 3), "");
    }

    #[test]
    fn nul_never_reaches_a_store() {
        assert_eq!(bounded_text("a\0b", 64), "a\u{fffd}b");
        for cap in [10, 40, 100, 5000] {
            let cut = bounded_text(&"\0".repeat(4000), cap);
            assert!(cut.len() <= cap && !cut.contains('\0'));
        }
    }

    #[test]
    fn labels_are_short_and_hold_no_nul() {
        assert_eq!(label("höst-7 «a»"), "höst-7 «a»");
        assert_eq!(label("a\0b"), "a\u{fffd}b");
        assert_eq!(label(""), "");
        assert_eq!(label(&"x".repeat(LABEL_MAX)).len(), LABEL_MAX);
        assert_eq!(label(&format!("x{}", "ü".repeat(100))), format!("x{}", "ü".repeat(63)));
        assert!(label(&"\0".repeat(10 << 20)).len() <= LABEL_MAX);
    }

    #[test]
    fn ten_megabytes_are_cut_quickly() {
        let cut = bounded_text(&"x".repeat(10 << 20), Caps::default().error);
        assert_eq!(cut.len(), 64 << 10);
    }
}
