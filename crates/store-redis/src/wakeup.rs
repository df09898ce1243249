//! Wake-ups: the bell of this process, and the channel through which processes wake each other.

use windlass_core::bell::{Bell, Rings};

use crate::connect::Server;

/// Everything about wake-ups that a store has.
pub(crate) struct Wakeups {
    bell: Bell,
}

impl Wakeups {
    /// Nothing is heard until somebody asks for the [`bell`](Self::bell).
    pub(crate) fn new(_server: &Server) -> Self {
        Self { bell: Bell::new() }
    }

    /// The bell of this process.
    pub(crate) fn bell(&self) -> &Bell {
        &self.bell
    }

    /// To be called after a write has taken effect: rings here at once, and soon at the others.
    pub(crate) fn ring(&self, rings: Rings) {
        rings.ring(&self.bell);
    }

    /// How this process hears of others.
    pub(crate) fn mode(&self) -> WakeMode {
        WakeMode::Polling
    }
}

/// How a store hears of the writes of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeMode {
    /// Not known yet, or nobody listens.
    Starting,
    /// By notifications of the server.
    Listening,
    /// By looking again and again: notifications do not come through at present, or are not wanted.
    Polling,
}
