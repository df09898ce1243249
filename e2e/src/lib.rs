//! What whole-system tests share: the jobs they run, the witness that records what really happened, and
//! worker processes that can be killed, stopped and resumed.
//!
//! The witness is outside the system under test: every handler writes a line before and after its work, and
//! the tests compare those lines with what the store says.

pub mod clocks;
pub mod fleet;
pub mod flows;
pub mod history;
pub mod jobs;
pub mod neighbours;
pub mod producer;
pub mod proxy;
pub mod repeats;
pub mod scene;
pub mod server;
pub mod spoil;
pub mod witness;

use std::time::{Duration, Instant};

/// Waits until `probe` answers, looking again every few milliseconds; fails with `what` after two minutes.
/// Used only for what happens in other processes and cannot be awaited.
pub async fn eventually<T>(what: &str, mut probe: impl AsyncFnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "did not happen within two minutes: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A number from the environment, for longer runs by hand.
pub fn setting(name: &str, default: u32) -> u32 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a whole number"))
}
