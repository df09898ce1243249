//! How long to wait after failures in a row, so that a server that comes back is not run over.

use std::time::Duration;

/// The shortest pause.
pub const PAUSE_MIN: Duration = Duration::from_millis(50);

/// The longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(2);

/// The pause after so many failures in a row.
pub fn pause(failures: u32) -> Duration {
    windlass_core::backoff::pause(failures, PAUSE_MIN, PAUSE_MAX)
}
