//! Names of queues, kinds and tags. One alphabet everywhere, so that a name can stand in a key, a column, a
//! metric label or a URL without being escaped and can never forge any of them.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A checked name: 1 to 128 characters out of `A-Z a-z 0-9 _ . : -`. Cheap to clone.
///
/// ```
/// use windlass_core::Name;
/// assert!(Name::new("mail.high").is_ok());
/// let error = Name::new("two\nlines").unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     r#"name "two\nlines" has '\n' at position 3: use 1 to 128 of A-Z a-z 0-9 _ . : -"#
/// );
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Name(Arc<str>);

/// How the kinds begin that the engine runs itself: every worker has them, and lists show them only by name.
pub const INTERNAL: &str = "windlass.";
/// The longest name that is accepted, in characters.
pub const LENGTH_MAX: usize = 128;

impl Name {
    /// Checks a name.
    pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(NameError::Empty);
        }
        if text.len() > LENGTH_MAX {
            return Err(NameError::TooLong { length: text.len(), start: text.chars().take(32).collect() });
        }
        match text.char_indices().find(|(_, c)| !Self::allows(*c)) {
            Some((position, found)) => Err(NameError::Character { name: text.to_owned(), found, position }),
            None => Ok(Self(text.into())),
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last of all names that come before this one in byte order; nothing for the first name there is. A page that
    /// begins after it begins with this name, so one entry of an ordered list can be read by its name.
    pub fn before(&self) -> Option<Self> {
        // Every character that is allowed, in byte order.
        let allowed = || (b'-'..=b'z').map(char::from).filter(|c| Self::allows(*c));
        let (head, last) = self.0.split_at(self.0.len() - 1);
        match allowed().take_while(|c| !last.starts_with(*c)).last() {
            // What follows a shorter name directly is that name with the first character behind it.
            None if head.is_empty() => None,
            None => Some(Self(head.into())),
            Some(lower) => {
                let tail = "z".repeat(LENGTH_MAX - self.0.len());
                Some(Self(format!("{head}{lower}{tail}").into()))
            }
        }
    }

    /// Whether it is the name of a kind that the engine runs itself.
    pub fn is_internal(&self) -> bool {
        self.0.starts_with(INTERNAL)
    }

    /// What stands for a stored name that does not read.
    pub fn unreadable() -> Self {
        Self("unreadable".into())
    }

    fn allows(c: char) -> bool {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ':' | '-')
    }
}

/// Why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NameError {
    /// Nothing was given.
    #[error("name is empty: use 1 to 128 of A-Z a-z 0-9 _ . : -")]
    Empty,
    /// More than [`LENGTH_MAX`] characters.
    #[error("name {start:?}… has {length} bytes: use 1 to 128 of A-Z a-z 0-9 _ . : -")]
    TooLong {
        /// Its length in bytes.
        length: usize,
        /// How it begins.
        start: String,
    },
    /// A character outside the alphabet.
    #[error("name {name:?} has {found:?} at position {position}: use 1 to 128 of A-Z a-z 0-9 _ . : -")]
    Character {
        /// The whole text.
        name: String,
        /// The first character that is not allowed.
        found: char,
        /// Where it stands, in bytes.
        position: usize,
    },
}

impl FromStr for Name {
    type Err = NameError;
    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = NameError;
    fn try_from(text: String) -> Result<Self, NameError> {
        Self::new(text)
    }
}

impl From<Name> for String {
    fn from(name: Name) -> Self {
        name.as_str().to_owned()
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_alphabet_is_closed() {
        for good in ["a", "A.b:c-d_9", &"x".repeat(128)] {
            assert_eq!(Name::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "a b", "a\n", "ä", "{tag}", "a/b", "a\0", "💥", &"x".repeat(129)] {
            assert!(Name::new(bad).is_err(), "{bad:?} was accepted");
        }
    }

    #[test]
    fn no_name_stands_between_a_name_and_the_one_before_it() {
        let before = |text: &str| Name::new(text).unwrap().before();
        assert_eq!(before("-"), None);
        assert_eq!(before("mail-").unwrap().as_str(), "mail");
        let full = "z".repeat(LENGTH_MAX - 1);
        for (text, lower) in [("a", "_"), ("_", "Z"), ("A", ":"), (":", "9"), ("0", "."), (".", "-")] {
            assert_eq!(before(text).unwrap().as_str(), format!("{lower}{full}"), "before {text}");
        }
        let long = "b".repeat(LENGTH_MAX);
        assert_eq!(before(&long).unwrap().as_str(), format!("{}a", &long[1..]));
        assert!(before("mail").unwrap() < Name::new("mail").unwrap());
    }

    #[test]
    fn a_very_long_name_is_not_repeated_in_its_error() {
        let error = Name::new("y".repeat(1 << 20)).unwrap_err();
        assert!(error.to_string().len() < 200);
    }
}
