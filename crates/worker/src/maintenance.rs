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

/// How soon the next round follows one that ended by its limit. Others get their turn in between.
const CUT_PAUSE: Duration = Duration::from_millis(10);

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

/// How a round ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// All that there was to do is done.
    Whole,
    /// It ended by its limit, and the next one should follow soon.
    Cut,
}

/// One round of a part that keeps the store in order.
pub(crate) trait Sweep: Send + Sync + 'static {
    const PART: Part;

    /// A round that has begun is always finished.
    fn sweep(&self) -> impl Future<Output = StoreResult<Round>> + Send;

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
                Ok(round) => {
                    board.success(S::PART);
                    match round {
                        Round::Whole => spread(interval),
                        Round::Cut => CUT_PAUSE.min(interval),
                    }
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::{Notify, watch};
    use tokio::time::Instant;

    use super::*;
    use crate::shutdown::Stage;

    /// Has so many rounds that end by their limit.
    struct Backlog {
        cut: AtomicU32,
        whole: Arc<Notify>,
        times: Mutex<Vec<Instant>>,
    }

    impl Sweep for Backlog {
        const PART: Part = Part::Pruner;

        async fn sweep(&self) -> StoreResult<Round> {
            self.times.lock().unwrap().push(Instant::now());
            let left = |cut: u32| cut.checked_sub(1);
            if self.cut.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok() {
                return Ok(Round::Cut);
            }
            self.whole.notify_one();
            Ok(Round::Whole)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_round_that_ended_by_its_limit_is_followed_at_once() {
        let whole = Arc::new(Notify::new());
        let backlog = Backlog { cut: AtomicU32::new(3), whole: Arc::clone(&whole), times: Mutex::default() };
        let config = Config { interval: Duration::from_secs(3_600) };
        let sweeper = Arc::new(Sweeper::new(config, backlog, Arc::default()));
        let stage = watch::Sender::new(Stage::Running);
        let (running, shutdown) = (Arc::clone(&sweeper), Shutdown::new(&stage));
        let running = tokio::spawn(async move { running.run(shutdown).await });
        whole.notified().await;
        let took = |times: &[Instant]| *times.last().unwrap() - times[0];
        assert_eq!(sweeper.sweep.times.lock().unwrap().len(), 4);
        assert!(took(&sweeper.sweep.times.lock().unwrap()) < Duration::from_secs(1));
        whole.notified().await;
        assert!(
            took(&sweeper.sweep.times.lock().unwrap()) > Duration::from_secs(1_800),
            "then by its interval"
        );
        running.abort();
    }
}
