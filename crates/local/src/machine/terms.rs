//! The nouns of the machine: settings, ids, options, verdicts, counts.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::rate::Rate;
use crate::error::{Error, Why};
use crate::token::Token;

/// How a queue behaves.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) concurrency: usize,
    pub(crate) capacity: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) per_key: Option<usize>,
    pub(crate) rate: Option<Rate>,
    pub(crate) watermarks: Option<(usize, usize)>,
    pub(crate) order: Order,
    pub(crate) is_paused: bool,
}

/// Which of equal priority comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// First in, first out.
    #[default]
    OldestFirst,
    /// Last in, first out: the freshest is served, and what waits too long goes stale.
    NewestFirst,
}

/// Tells one piece of work from all others of its queue.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
// One number, so that a handle, which is this and its queue, is handed over in registers.
pub struct Id(u64);

impl Id {
    /// The id of what was never taken in.
    pub(crate) const NONE: Self = Self(u64::MAX);

    /// The id of what has this place.
    #[inline]
    pub(crate) fn new(index: u32, sequence: u32) -> Self {
        Self(u64::from(index) << 32 | u64::from(sequence))
    }

    /// The place.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Tells this use of the place from others. Wraps around, after four billion pieces of work in the same queue.
    #[inline]
    pub(crate) fn sequence(self) -> u32 {
        self.0 as u32
    }

    /// The id of what was never taken in, which remembers why.
    pub(crate) fn refused(why: Why) -> Self {
        Self::new(u32::MAX, why as u32)
    }

    /// Why it was never taken in.
    pub(crate) fn why_refused(self) -> Option<Why> {
        [Why::Full, Why::Closed, Why::Cancelled].into_iter().find(|why| Self::refused(*why) == self)
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sequence, index) = (self.sequence(), self.index());
        formatter.debug_struct("Id").field("sequence", &sequence).field("index", &index).finish()
    }
}

/// What was asked for with a piece of work.
#[derive(Debug, Default, Clone)]
pub(crate) struct Options {
    pub(crate) priority: i16,
    pub(crate) is_first: bool,
    pub(crate) is_awaited: bool,
    pub(crate) extra: Option<Arc<Extra>>,
}

/// What is rarely asked for, kept apart so that the rest stays small.
#[derive(Debug, Default, Clone)]
pub(crate) struct Extra {
    pub(crate) key: Option<Arc<str>>,
    pub(crate) name: Option<Arc<str>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) token: Option<Token>,
}

/// What a handle gets. Errors are rare, so they are the ones to take the detour.
pub(crate) type Outcome<D> = Result<D, Box<Error>>;

/// How a piece of work has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Completed,
    Failed(Why),
}

/// What has failed, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failure {
    /// The work.
    pub id: Id,
    /// The kind of its failure.
    pub why: Why,
}

/// How many, since the queue was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Counts {
    /// Wait now.
    pub waiting: usize,
    /// Run now.
    pub running: usize,
    /// Were taken in.
    pub added: u64,
    /// Ended with their own result.
    pub completed: u64,
    /// Ended otherwise.
    pub failed: u64,
}
