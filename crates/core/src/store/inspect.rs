//! The part that people look through.

use std::fmt;

use async_trait::async_trait;

use super::StoreResult;
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
}

/// The most jobs that one page holds.
pub const PAGE_MAX: u32 = 1_000;
/// The most jobs that one call looks at.
pub const SCAN_MAX: u32 = 10_000;

/// Which jobs to find; everything that is set must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// In this queue.
    pub queue: Option<Name>,
    /// Of this kind.
    pub kind: Option<Name>,
    /// In this state.
    pub state: Option<State>,
    /// With this tag.
    pub tag: Option<Name>,
}

/// Where the next page begins. Means something only to the store that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cursor(pub String);

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A page of jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct JobPage {
    /// The jobs.
    pub jobs: Vec<JobRecord>,
    /// Where the next page begins; nothing at the end.
    pub next: Option<Cursor>,
}
