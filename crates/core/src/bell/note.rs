//! What processes tell each other: the text that a store's server carries.

use std::fmt;

use super::{Fresh, Named};
use crate::id::JobId;
use crate::name::Name;

/// One word of one process to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// Who says it: what a process says of itself it has heard already. The word to oneself has a nonce here.
    pub owner: u64,
    /// What is said.
    pub word: Word,
}

/// What a note says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// There is work. It has been passed on so often by processes without room for it.
    Work {
        /// Where.
        work: Named<Fresh>,
        /// How often it was passed on.
        hops: u8,
    },
    /// There was work. A look later on finds what others were woken for and did not come to.
    Look(Vec<Fresh>),
    /// Running jobs are asked to stop.
    Cancel(Named<JobId>),
    /// Jobs have come to their end.
    Finish,
    /// The sender waits for ends, for a while.
    EndsWanted,
    /// A listener's word to itself.
    Test,
}

impl Word {
    const fn letter(&self) -> &'static str {
        match self {
            Self::Work { .. } => "w",
            Self::Look(_) => "l",
            Self::Cancel(_) => "c",
            Self::Finish => "f",
            Self::EndsWanted => "e",
            Self::Test => "?",
        }
    }
}

impl Note {
    /// Reads the text of a note. One that is not ours says nothing about what it is about.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let owner = u64::from_str_radix(parts.next()?, 16).ok()?;
        let letter = parts.next()?;
        let word = match letter {
            "w" => Word::Work {
                hops: parts.next().map_or(Some(0), |hops| hops.parse().ok())?,
                work: all(parts, fresh)?,
            },
            "l" => match all(parts, fresh)? {
                Named::These(list) => Word::Look(list),
                Named::None | Named::Any => return None,
            },
            "c" => Word::Cancel(all(parts, |id| id.parse().ok())?),
            "f" => Word::Finish,
            "e" => Word::EndsWanted,
            "?" => Word::Test,
            _ => return None,
        };
        Some(Self { owner, word })
    }
}

/// Reads what is named; no names mean any.
fn all<'a, T>(parts: impl Iterator<Item = &'a str>, read: impl Fn(&str) -> Option<T>) -> Option<Named<T>> {
    let list = parts.map(read).collect::<Option<Vec<_>>>()?;
    Some(if list.is_empty() { Named::Any } else { Named::These(list) })
}

/// Reads queue, kind and number, between which stands what no name has.
fn fresh(text: &str) -> Option<Fresh> {
    let mut parts = text.split('/');
    let queue = Name::new(parts.next()?).ok()?;
    let kind = match parts.next()? {
        "" => None,
        kind => Some(Name::new(kind).ok()?),
    };
    let jobs = parts.next()?.parse().ok()?;
    parts.next().is_none().then_some(Fresh { queue, kind, jobs })
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x} {}", self.owner, self.word.letter())?;
        let list = match &self.word {
            Word::Work { work, hops } => {
                write!(f, " {hops}")?;
                match work {
                    Named::These(list) => &list[..],
                    Named::None | Named::Any => &[],
                }
            }
            Word::Look(list) => &list[..],
            Word::Cancel(Named::These(ids)) => return ids.iter().try_for_each(|id| write!(f, " {id}")),
            Word::Cancel(_) | Word::Finish | Word::EndsWanted | Word::Test => &[],
        };
        list.iter().try_for_each(|Fresh { queue, kind, jobs }| {
            write!(f, " {queue}/{}/{jobs}", kind.as_ref().map_or("", Name::as_str))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(queue: &str, kind: Option<&str>, jobs: u32) -> Fresh {
        let name = |text| Name::new(text).expect("a good name");
        Fresh { queue: name(queue), kind: kind.map(name), jobs }
    }

    #[test]
    fn a_note_survives_its_text() {
        let list = vec![fresh("mail:a", Some("k.-_"), 3), fresh("b", None, u32::MAX)];
        let words = [
            Word::Work { work: Named::These(list.clone()), hops: 2 },
            Word::Work { work: Named::Any, hops: 0 },
            Word::Look(list),
            Word::Cancel(Named::These(vec![JobId::new(), JobId::new()])),
            Word::Cancel(Named::Any),
            Word::Finish,
            Word::EndsWanted,
            Word::Test,
        ];
        for (owner, word) in (u64::MAX / 2..).zip(words) {
            let note = Note { owner, word };
            assert_eq!(Note::read(&note.to_string()), Some(note.clone()), "{note}");
        }
        let note = Note {
            owner: 10,
            word: Word::Work { work: Named::These(vec![fresh("q", Some("k"), 1)]), hops: 0 },
        };
        assert_eq!(note.to_string(), "000000000000000a w 0 q/k/1");
    }

    #[test]
    fn what_sql_says_is_read_and_what_is_foreign_is_not() {
        let any = Note { owner: 0, word: Word::Work { work: Named::Any, hops: 0 } };
        assert_eq!(Note::read("0 w"), Some(any));
        for foreign in
            ["", "x", "0a", "0a x", "zz w", "0a w 0 q/k", "0a w 0 q/k/1/2", "0a w 0 ?/k/1", "0a l", "0a c x"]
        {
            assert_eq!(Note::read(foreign), None, "{foreign:?}");
        }
    }
}
