//! Removing dead letters for good: exactly those that were seen, and only if they are still as they were.

use windlass_core::store::{Amended, Seen};

use super::DeadLetters;
use crate::error::Result;

/// Jobs that one store call removes.
const CHUNK: usize = 100;

/// What became of dead letters that were to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Purged {
    /// Those that are gone.
    pub removed: u64,
    /// Those that were sent back, or have died again, since they were seen.
    pub left: u64,
}

impl DeadLetters {
    /// All that match now, as they are, up to so many; and whether these are all.
    ///
    /// # Errors
    /// The store's.
    pub async fn seen(&self, most: usize) -> Result<(Vec<Seen>, bool)> {
        let mut seen = Vec::new();
        let mut is_all = true;
        self.walk(u64::MAX, |letter| {
            is_all = seen.len() < most;
            if is_all {
                seen.push(Seen::of(&letter.job));
            }
            is_all
        })
        .await?;
        Ok((seen, is_all))
    }

    /// Removes those that are still as they were seen. `so_far` counts also what was removed before a call failed.
    ///
    /// # Errors
    /// The store's.
    pub async fn purge(&self, seen: &[Seen], so_far: &mut Purged) -> Result<()> {
        for some in seen.chunks(CHUNK) {
            let answers = self.client.store().delete_seen(some.into()).await?;
            let removed = answers.iter().filter(|answer| matches!(answer, Amended::Done(_))).count();
            so_far.removed += removed as u64;
            so_far.left += (some.len() - removed) as u64;
        }
        Ok(())
    }
}
