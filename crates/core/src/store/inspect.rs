//! The part that people look through.

use std::fmt;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::StoreResult;
use crate::clock::Timestamp;
use crate::error::StoreError;
use crate::id::JobId;
use crate::job::JobRecord;
use crate::name::Name;
use crate::state::State;

/// Finding jobs.
#[async_trait]
pub trait Inspect {
    /// A page of jobs, the newest accepted first, without their attempts (see [`Jobs::get`] for those).
    ///
    /// Jobs of every state are found, finished ones included. One call looks at no more than [`SCAN_MAX`]
    /// jobs, so a page may hold fewer than `limit` jobs, or none, and still name a next page. Paging is by
    /// position, not by count: jobs that come or go between two pages make no other job appear twice or be
    /// left out. More than [`PAGE_MAX`] is never answered; a `limit` of 0 answers an empty last page. A cursor
    /// that no store of this kind made is refused.
    ///
    /// [`Jobs::get`]: super::Jobs::get
    async fn list(&self, filter: &Filter, after: Option<&Cursor>, limit: u32) -> StoreResult<JobPage>;

    /// Jobs of a queue that ended in this state and are there still, in the order in which they ended; those of one instant in
    /// the order in which they were accepted. Begins after the given place; at most `limit` and [`PAGE_MAX`]. No job is in a
    /// state that is not terminal.
    ///
    /// A job that is sent back leaves the order, and gets a new place when it ends again. A write that is on its way may put a
    /// job before a place that was read already: a reader that wants all goes back some seconds ([`EndPlace::since`]).
    async fn ended(&self, queue: &Name, state: State, after: EndPlace, limit: u32)
    -> StoreResult<Vec<Ended>>;
}

/// A place in the order in which jobs of a queue ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EndPlace {
    /// When the job ended.
    pub at: Timestamp,
    /// The number that the store has given it, in the order of acceptance.
    pub seq: i64,
}

impl EndPlace {
    /// Before all jobs.
    pub const START: Self = Self::since(Timestamp::from_micros(i64::MIN));

    /// Before the jobs that ended at this instant.
    pub const fn since(at: Timestamp) -> Self {
        Self { at, seq: -1 }
    }
}

/// A job that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Its id.
    pub id: JobId,
    /// Its place.
    pub place: EndPlace,
}

/// The most jobs that one page holds.
pub const PAGE_MAX: u32 = 1_000;
/// The most jobs that one call looks at.
pub const SCAN_MAX: u32 = 10_000;

/// Which jobs to find; everything that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// In this queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<Name>,
    /// Of this kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Name>,
    /// In this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<State>,
    /// With this tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<Name>,
}

impl Filter {
    /// Whether a job is among those to find. Where [`Filter::tag`] is not set its tags do not matter, and a
    /// store need not read them.
    pub fn matches(&self, queue: &str, kind: &str, state: State, tags: &[Name]) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
            && self.queue.as_ref().is_none_or(|wanted| wanted.as_str() == queue)
            && self.kind.as_ref().is_none_or(|wanted| wanted.as_str() == kind)
            && self.tag.as_ref().is_none_or(|wanted| tags.contains(wanted))
    }
}

/// Where the next page begins. Means something only to the store that made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cursor(pub String);

impl Cursor {
    /// The cursor of a store that numbers jobs in the order in which it accepted them: the next page begins
    /// before this number.
    pub fn before(number: i64) -> Self {
        Self(number.to_string())
    }

    /// The number that [`Cursor::before`] was given; refused when it was not.
    pub fn number(&self) -> StoreResult<i64> {
        let number = self.0.parse().ok().filter(|number| *number >= 0);
        number.ok_or_else(|| StoreError::Cursor { cursor: self.0.clone() })
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A page of jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// Where the next page begins; nothing at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<Cursor>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_set_must_hold() {
        let name = |text: &str| Name::new(text).unwrap();
        let tags = [name("s"), name("t")];
        let all = Filter {
            queue: Some(name("q")),
            kind: Some(name("k")),
            state: Some(State::Dead),
            tag: Some(name("t")),
        };
        assert!(all.matches("q", "k", State::Dead, &tags));
        assert!(Filter::default().matches("q", "k", State::Ready, &[]));
        assert!(!all.matches("Q", "k", State::Dead, &tags));
        assert!(!all.matches("q", "q", State::Dead, &tags));
        assert!(!all.matches("q", "k", State::Ready, &tags));
        assert!(!all.matches("q", "k", State::Dead, &tags[..1]));
    }

    #[test]
    fn only_numbers_that_were_given_read_back() {
        for number in [0, 7, i64::MAX] {
            assert_eq!(Cursor::before(number).number().unwrap(), number);
        }
        for text in ["", "-1", "1.5", "9223372036854775808", "x"] {
            assert!(Cursor(text.to_owned()).number().is_err(), "{text}");
        }
    }
}
