//! Points in time that are computed: by rates, limiters and timers.

use std::time::Duration;

use tokio::time::Instant;

/// As good as never. A future that waits for so long asks again then.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365);

/// So long after a point in time, or far from it if the clock cannot count that far.
pub(crate) fn after(time: Instant, duration: Duration) -> Instant {
    time.checked_add(duration).unwrap_or_else(|| time + FAR)
}
