//! How stores write numbers, times and texts. Two stores that write the same value write it alike, and what does not read
//! back is said in the same words; each store makes its own fault of them.

pub mod bytes;

use std::str::FromStr;
use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::clock::Timestamp;

/// An instant, from whole microseconds.
pub const fn time(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// A span in whole microseconds, rounded up as by [`whole_micros`](crate::clock::whole_micros).
pub fn micros(span: Duration) -> i64 {
    time(0).plus(span).as_micros()
}

/// A span, from whole microseconds.
pub const fn span(micros: i64) -> Duration {
    Duration::from_micros(micros.unsigned_abs())
}

/// A number in a signed column. Fences and nonces never use the sign; see [`Fence::nonce`](crate::Fence::nonce).
pub fn to_stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from a signed column.
pub const fn number(stored: i64) -> u64 {
    stored.unsigned_abs()
}

/// A value from JSON.
///
/// # Errors
/// A text for people.
pub fn parsed<T: DeserializeOwned>(what: &str, text: &[u8]) -> Result<T, String> {
    serde_json::from_slice(text).map_err(|error| format!("a {what} does not read back: {error}"))
}

/// A value that is stored as a word.
///
/// # Errors
/// A text for people.
pub fn word<T: FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not a known {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::State;
    use crate::clock::whole_micros;

    #[test]
    fn spans_are_kept_as_the_contract_says() {
        for exact in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(86_400), Duration::MAX] {
            assert_eq!(span(micros(exact)), whole_micros(exact));
        }
    }

    #[test]
    fn numbers_read_back_and_never_use_the_sign() {
        for exact in [0, 7, i64::MAX.unsigned_abs()] {
            assert_eq!(number(to_stored(exact)), exact);
        }
        assert_eq!(to_stored(u64::MAX), i64::MAX);
    }

    #[test]
    fn what_does_not_read_says_what_it_should_be() {
        assert_eq!(word::<State>("state", "ready"), Ok(State::Ready));
        assert_eq!(word::<State>("state", "gone"), Err("\"gone\" is not a known state".to_owned()));
        let error = parsed::<Vec<u8>>("list", b"{}").unwrap_err();
        assert!(error.starts_with("a list does not read back: "), "{error}");
    }
}
