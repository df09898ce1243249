//! Loops that keep a store in order. Every worker may run them; they only do what is still to be done.

mod promoter;
mod pruner;
mod reaper;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::StoreResult;

use crate::error::ConfigError;
use crate::health::Part;
use crate::retries::{PAUSE_MAX, backoff, spread};
use crate::shutdown::Shutdown;
use crate::supervise::{Background, Board};
use crate::worker::at_least_long;

pub use promoter::{PromoteSummary, Promoter};
pub use pruner::{PruneSummary, Pruner};
pub(crate) use reaper::WorkerReaper;
pub use reaper::{ReapSummary, Reaper};

/// Whether a worker also keeps the store in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance {
    /// It takes lost jobs back, promotes due jobs of queues without workers and prunes.
    On,
    /// It leaves that to others.
    Off,
}

/// Items of one store call.
const BATCH_MAX: u32 = 500;
/// Store calls of one round, so that a round ends; the next one goes on.
const CALLS_MAX: u32 = 200;

/// How often a part has its round.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    pub(crate) interval: Duration,
}

impl Config {
    /// `what` is the name of the setting.
    pub(crate) fn new(what: &'static str, interval: Duration) -> Result<Self, ConfigError> {
        at_least_long(what, interval, Duration::from_millis(1))?;
        Ok(Self { interval })
    }
}

/// One round of a part that keeps the store in order.
pub(crate) trait Sweep: Send + Sync + 'static {
    const PART: Part;

    /// A round that has begun is always finished.
    fn sweep(&self) -> impl Future<Output = StoreResult<()>> + Send;

    /// Waits until a round is worth while before its time.
    fn woken(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// Runs the rounds of a part. Intervals are spread, so that workers which started together do not stay in step.
pub(crate) struct Sweeper<S> {
    config: Config,
    sweep: S,
    board: Arc<Board>,
}

impl<S: Sweep> Sweeper<S> {
    pub(crate) fn new(config: Config, sweep: S, board: Arc<Board>) -> Self {
        Self { config, sweep, board }
    }
}

impl<S: Sweep> Background for Sweeper<S> {
    const PART: Part = S::PART;

    async fn run(self: &Arc<Self>, mut shutdown: Shutdown) {
        let (board, interval) = (&self.board, self.config.interval);
        while shutdown.is_running() {
            board.expect_within(S::PART, Some(interval.max(PAUSE_MAX)));
            let pause = match self.sweep.sweep().await {
                Ok(()) => {
                    board.success(S::PART);
                    spread(interval)
                }
                Err(error) => backoff(board.failure(S::PART, &error.to_string())),
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.sweep.woken() => {}
                () = shutdown.changed() => {}
            }
        }
        board.expect_within(S::PART, None);
    }
}
