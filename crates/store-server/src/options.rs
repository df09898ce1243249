//! Parameters of URLs: values that several stores have, and how others are refused. No text quotes a password.

use std::time::Duration;

use windlass_core::StoreError;

/// Whether the store listens for the wake-ups of other programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Listen {
    /// It does, on a connection of its own, as long as they come through; behind some poolers and proxies they do not.
    #[default]
    Auto,
    /// It does not; workers poll.
    Never,
}

/// The words for [`Listen`] in a URL.
pub const LISTEN: [(&str, Listen); 2] = [("auto", Listen::Auto), ("never", Listen::Never)];

/// A time that a server may take for something.
pub fn bounded(name: &str, timeout: Duration) -> Result<Duration, StoreError> {
    let bounds = Duration::from_millis(100)..=Duration::from_secs(3_600);
    let refused = || address(format!("{name}: use a time from 100ms to 1h, as 15s or 500ms"));
    bounds.contains(&timeout).then_some(timeout).ok_or_else(refused)
}

/// The meaning of a word.
pub fn one_of<T: Copy>(name: &str, value: &str, known: &[(&str, T)]) -> Result<T, StoreError> {
    known.iter().find(|(text, _)| *text == value).map(|&(_, meaning)| meaning).ok_or_else(|| {
        let words: Vec<_> = known.iter().map(|(text, _)| format!("{name}={text}")).collect();
        address(format!("{value:?} is not a value of {name}: use {}", words.join(" or ")))
    })
}

/// What to say about a parameter without a value.
pub fn valueless(name: &str, known: &str) -> StoreError {
    if is_word(name) { address(format!("{name} has no value")) } else { unknown(name, known) }
}

/// What to say about a parameter that is none. A part of a password that was not encoded looks like a parameter; what
/// is no word is not quoted.
pub fn unknown(name: &str, known: &str) -> StoreError {
    let quoted = if is_word(name) { format!(" {name:?}") } else { String::new() };
    address(format!("unknown parameter{quoted}: use one of {known}"))
}

/// The URL cannot be used as given.
pub fn address(text: impl Into<String>) -> StoreError {
    StoreError::Address(text.into())
}

fn is_word(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_part_of_a_password_is_not_quoted() {
        assert_eq!(unknown("pol", "pool").to_string(), "unknown parameter \"pol\": use one of pool");
        assert_eq!(unknown("S3cret", "pool").to_string(), "unknown parameter: use one of pool");
        assert_eq!(valueless("pool", "pool").to_string(), "pool has no value");
        assert_eq!(valueless("S3cret", "pool").to_string(), "unknown parameter: use one of pool");
    }

    #[test]
    fn words_and_times_out_of_bounds_are_refused_with_what_would_be_right() {
        assert_eq!(one_of("listen", "never", &LISTEN).unwrap(), Listen::Never);
        let error = one_of("listen", "no", &LISTEN).unwrap_err();
        assert_eq!(error.to_string(), "\"no\" is not a value of listen: use listen=auto or listen=never");
        assert!(bounded("timeout", Duration::from_millis(100)).is_ok());
        let error = bounded("timeout", Duration::from_millis(99)).unwrap_err();
        assert_eq!(error.to_string(), "timeout: use a time from 100ms to 1h, as 15s or 500ms");
    }
}
