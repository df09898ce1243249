//! Wire types that several routes share: pages, instants, durations, contents.

pub(crate) mod content;
mod retry;
mod time;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub(crate) use content::{Content, Encoding};
pub(crate) use retry::RetryForm;
pub(crate) use time::{Instant, Span};

use crate::bounds::{PAGE_DEFAULT, PAGE_MAX};

/// A page of a list.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Page<T: ToSchema> {
    /// The entries.
    pub(crate) items: Vec<T>,
    /// What to pass as `after` to get the next page; nothing at the end.
    pub(crate) next: Option<String>,
    /// How many entries were looked at to find these; nothing where the store does not tell.
    pub(crate) looked_at: Option<u64>,
    /// Whether these are the last ones. A page that is not complete may have no entries all the same: go on with `next`.
    pub(crate) complete: bool,
}

impl<T: ToSchema> Page<T> {
    /// Entries that were all looked at one by one.
    pub(crate) fn new(items: Vec<T>, next: Option<String>) -> Self {
        let looked_at = Some(items.len() as u64);
        Self { complete: next.is_none(), items, next, looked_at }
    }

    /// The same where so many were looked at.
    pub(crate) fn looked(self, looked_at: impl Into<Option<u64>>) -> Self {
        Self { looked_at: looked_at.into(), ..self }
    }
}

/// Where a page begins and how long it is.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct Paging {
    /// What the page before has named as `next`.
    pub(crate) after: Option<String>,
    /// How many entries at most; larger ones than 1,000 are lowered to it.
    #[param(default = 50)]
    pub(crate) limit: Option<u64>,
}

impl Paging {
    pub(crate) fn limit(&self) -> u32 {
        limit(self.limit)
    }
}

/// A limit within its bounds.
pub(crate) fn limit(asked: Option<u64>) -> u32 {
    let asked = asked.map_or(PAGE_DEFAULT, |asked| u32::try_from(asked).unwrap_or(PAGE_MAX));
    asked.clamp(1, PAGE_MAX)
}
