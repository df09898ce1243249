//! Dead jobs by the error that they died of.

use std::cmp::Reverse;
use std::collections::HashMap;

use windlass_core::clock::Timestamp;
use windlass_core::fingerprint::{Fingerprint, pattern};
use windlass_core::{JobId, Name};

use super::DeadLetters;
use crate::error::Result;

/// How many groups are kept apart.
const GROUPS_MAX: usize = 1_000;
/// Ids of a group that are shown.
const IDS_MAX: usize = 5;

/// Dead jobs of one kind that died of the same error.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct DeadGroup {
    /// Which error.
    pub fingerprint: Fingerprint,
    /// The kind of the jobs.
    pub kind: Name,
    /// What their errors have in common.
    pub pattern: String,
    /// The newest of the errors.
    pub error: String,
    /// How many there are.
    pub count: u64,
    /// When the first of them died.
    pub first: Timestamp,
    /// When the last of them died.
    pub last: Timestamp,
    /// Some of them, the newest accepted first.
    pub ids: Vec<JobId>,
}

/// All groups, the largest first.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct DeadGroups {
    /// The groups.
    pub groups: Vec<DeadGroup>,
    /// How many dead jobs were looked at.
    pub looked: u64,
    /// Whether those were all there are.
    pub is_all: bool,
    /// Dead jobs of so many other errors that these were not kept apart.
    pub others: u64,
}

impl DeadLetters {
    /// Groups those that match by the error that they died of.
    ///
    /// # Errors
    /// The store's.
    pub async fn groups(&self, looked_max: u64) -> Result<DeadGroups> {
        let (mut groups, mut others) = (HashMap::<Fingerprint, DeadGroup>::new(), 0);
        let (looked, is_all) = self
            .walk(looked_max, |letter| {
                let is_known = groups.contains_key(&letter.fingerprint);
                if !is_known && groups.len() >= GROUPS_MAX {
                    others += 1;
                    return true;
                }
                let died = letter.job.finished_at.unwrap_or(letter.job.enqueued_at);
                let cause = letter.cause();
                let group = groups.entry(letter.fingerprint).or_insert_with(|| DeadGroup {
                    fingerprint: letter.fingerprint,
                    kind: letter.job.kind.clone(),
                    pattern: pattern(&cause),
                    error: String::new(),
                    count: 0,
                    first: died,
                    last: died,
                    ids: Vec::new(),
                });
                group.count += 1;
                if died >= group.last || group.error.is_empty() {
                    group.error = cause;
                }
                (group.first, group.last) = (group.first.min(died), group.last.max(died));
                if group.ids.len() < IDS_MAX {
                    group.ids.push(letter.job.id);
                }
                true
            })
            .await?;
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by_key(|group| Reverse((group.count, group.last)));
        Ok(DeadGroups { groups, looked, is_all, others })
    }
}
