//! How a store hears of the writes of other processes.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

/// How a store hears of the writes of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeMode {
    /// Not known yet, or there is no listener.
    Starting,
    /// By notifications of the server.
    Listening,
    /// By looking again and again: notifications do not come through at present, or are not wanted.
    Polling,
}

impl fmt::Display for WakeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Listening => "listening",
            Self::Polling => "polling",
        })
    }
}

/// A [`WakeMode`] that one sets and many read.
#[derive(Debug)]
pub struct WakeModeCell(AtomicU8);

impl WakeModeCell {
    /// Begins with a mode.
    pub fn new(mode: WakeMode) -> Self {
        Self(AtomicU8::new(mode as u8))
    }

    /// The mode now.
    pub fn get(&self) -> WakeMode {
        let all = [WakeMode::Starting, WakeMode::Listening, WakeMode::Polling];
        all[usize::from(self.0.load(Ordering::Relaxed))]
    }

    /// Changes it.
    pub fn set(&self, mode: WakeMode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_kept() {
        let cell = WakeModeCell::new(WakeMode::Starting);
        for mode in [WakeMode::Polling, WakeMode::Listening, WakeMode::Starting] {
            cell.set(mode);
            assert_eq!(cell.get(), mode);
        }
    }
}
