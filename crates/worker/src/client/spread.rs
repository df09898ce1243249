//! Many jobs that start over a window instead of at once.

use std::time::Duration;

use windlass_core::options::Due;
use windlass_core::schedule::Spread;

use super::EnqueueAll;
use crate::job::Job;

impl<J: Job> EnqueueAll<J> {
    /// Lets the jobs start over a window instead of at once, from now or from what their delay says: evenly, or by their keys, so
    /// that each keeps its time when this is done every day. Jobs that say an instant keep it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> windlass_worker::Result<()> {
    /// # use std::{sync::Arc, time::Duration};
    /// # use serde::{Deserialize, Serialize};
    /// # use windlass_core::schedule::Spread;
    /// # #[derive(Serialize, Deserialize)] struct Digest { user: u64 }
    /// # impl windlass_worker::Job for Digest { const KIND: &'static str = "digest"; type Output = (); }
    /// # let client = windlass_worker::Client::new(Arc::new(windlass_store_memory::MemoryStore::new()));
    /// let hour = Spread::by_key(Duration::from_secs(3_600));
    /// client.enqueue_all((0..1_000).map(|user| Digest { user })).spread(hour).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = Some(spread);
        self
    }
}

/// A job that starts later by this; one with an instant stays as it is.
pub(super) fn later(due: Due, delay: Duration) -> Due {
    match due {
        Due::Now if delay.is_zero() => Due::Now,
        Due::Now => Due::After(delay),
        Due::After(before) => Due::After(before.saturating_add(delay)),
        other => other,
    }
}
