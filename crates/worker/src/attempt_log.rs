//! The log of an attempt: what its handler says while it runs, kept beside the job for those who look later.
//!
//! Lines are numbered from 1. They are kept in records of the job's queue, a few KiB each (`chunks`), under keys that sort as
//! they were said (`stored`). An attempt keeps its first lines and its newest: what is dropped lies between, and is told by the
//! numbers.

pub(crate) mod chunks;
pub(crate) mod stored;

use std::fmt::{self, Write};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// The longest text of a line, in bytes. What is longer is cut, and says so.
pub const LOG_LINE_MAX: usize = 4 << 10;
/// How many bytes of lines an attempt keeps by default.
pub const LOG_BYTES: usize = 128 << 10;
/// How long lines are kept by default, from when they were written.
pub const LOG_TTL: Duration = Duration::from_secs(7 * 24 * 3600);

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Single steps.
    Trace,
    /// For those who look for a defect.
    Debug,
    /// What happens.
    Info,
    /// Something is odd, and it goes on.
    Warn,
    /// Something went wrong.
    Error,
}

impl LogLevel {
    /// Its name, in lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One line of an attempt's log, as it is read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogLine {
    /// Which attempt said it.
    pub attempt: u32,
    /// The claim of that attempt: attempts that were given back share a number, and have fences of their own.
    pub fence: u64,
    /// Which line of the attempt it is, from 1.
    pub number: u64,
    /// How many lines before it were dropped, because the attempt said more than is kept.
    pub dropped: u64,
    /// When it was said, by the clock of the worker.
    pub at: SystemTime,
    /// How much it matters.
    pub level: LogLevel,
    /// What was said. Anything that a handler may say: to be escaped before it goes to a terminal.
    pub text: String,
}

/// How much of a log is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LogLimits {
    /// Nothing is kept if this is zero.
    pub(crate) bytes_max: usize,
    pub(crate) ttl: Duration,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { bytes_max: LOG_BYTES, ttl: LOG_TTL }
    }
}

/// What is said, as the text of a line: cut on a character border with a note of its length, without NUL, which not every store
/// can hold. A text without end costs no memory.
pub(crate) fn line_text(said: impl fmt::Display) -> String {
    let mut cut = Cut::new();
    // An error of what is said leaves what came before it.
    let _ = write!(cut, "{said}");
    cut.into_text()
}

/// A text that keeps no more than fits into a line.
pub(crate) struct Cut {
    text: String,
    /// What was written, in bytes.
    size: usize,
    is_full: bool,
}

/// Room for the note about a cut.
const NOTE_MAX: usize = 48;

impl Cut {
    pub(crate) fn new() -> Self {
        Self { text: String::new(), size: 0, is_full: false }
    }

    #[cfg(feature = "capture")]
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    pub(crate) fn into_text(mut self) -> String {
        if self.is_full {
            let mut end = self.text.len().min(LOG_LINE_MAX - NOTE_MAX);
            while !self.text.is_char_boundary(end) {
                end -= 1;
            }
            self.text.truncate(end);
            let _ = write!(self.text, "… (cut, {} bytes in all)", self.size);
        }
        self.text
    }
}

impl Write for Cut {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        self.size = self.size.saturating_add(part.len());
        for each in part.chars() {
            let each = if each == '\0' { char::REPLACEMENT_CHARACTER } else { each };
            self.is_full |= self.text.len() + each.len_utf8() > LOG_LINE_MAX;
            if self.is_full {
                break;
            }
            self.text.push(each);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_on_a_character_border_and_says_so() {
        assert_eq!(line_text("short"), "short");
        assert_eq!(line_text("x".repeat(LOG_LINE_MAX)).len(), LOG_LINE_MAX);
        let cut = line_text("ä".repeat(LOG_LINE_MAX));
        assert!(cut.len() <= LOG_LINE_MAX, "{}", cut.len());
        assert!(cut.ends_with(&format!("… (cut, {} bytes in all)", 2 * LOG_LINE_MAX)), "{cut}");
        assert!(line_text("\0".repeat(LOG_LINE_MAX)).len() <= LOG_LINE_MAX);
        assert_eq!(line_text("a\0b"), "a\u{fffd}b");
    }

    #[test]
    fn levels_are_ordered_and_have_names() {
        assert!(LogLevel::Trace < LogLevel::Error);
        assert_eq!(serde_json::to_string(&LogLevel::Warn).unwrap(), format!("\"{}\"", LogLevel::Warn));
    }
}
