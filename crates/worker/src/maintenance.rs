//! Loops that keep a store in order. Of a fleet one worker has the duty of each (`duty`), and another takes it over when that
//! one is gone. They only do what is still to be done, so it does no harm when two work at once.

mod duty;
mod flow_keeper;
mod promoter;
mod pruner;
mod reaper;
mod redriver;
mod ticker;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::{Duty, StoreResult};

use crate::error::ConfigError;
use crate::health::Part;
use crate::retries::{PAUSE_MAX, backoff, spread};
use crate::shutdown::Shutdown;
use crate::supervise::{Background, Board};
use crate::worker::at_least_long;

pub(crate) use duty::Duties;
pub use flow_keeper::{FlowKeeper, FlowSummary};
pub use promoter::{PromoteSummary, Promoter};
pub use pruner::{PruneSummary, Pruner};
pub(crate) use reaper::WorkerReaper;
pub use reaper::{ReapSummary, Reaper};
pub use redriver::{RedriveSummary, Redriver};
pub use ticker::{TickSummary, Ticker};

/// Whether a worker also keeps the store in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Maintenance {
    /// It takes lost jobs back, promotes due jobs of queues without workers, prunes, and heeds the rules for dead jobs.
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
    const DUTY: Duty;

    /// A round that has begun is always finished.
    fn sweep(&self) -> impl Future<Output = StoreResult<Round>> + Send;

    /// Waits until a round is worth while before its time.
    fn woken(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }
}

/// Runs the rounds of a part while this worker has its duty. Intervals are spread, so that workers which started together do
/// not stay in step.
pub(crate) struct Sweeper<S> {
    config: Config,
    sweep: S,
    duties: Duties,
    board: Arc<Board>,
}

impl<S: Sweep> Sweeper<S> {
    pub(crate) fn new(config: Config, sweep: S, duties: Duties, board: Arc<Board>) -> Self {
        Self { config, sweep, duties, board }
    }

    /// One round, if it is this worker's. Answers how long until the next one.
    async fn round(&self) -> StoreResult<Duration> {
        let interval = self.config.interval;
        if let Some(left) = self.duties.of_other(S::DUTY, interval).await {
            return Ok(left + spread(interval));
        }
        Ok(match self.sweep.sweep().await? {
            Round::Whole => spread(interval),
            Round::Cut => CUT_PAUSE.min(interval),
        })
    }
}

impl<S: Sweep> Background for Sweeper<S> {
    const PART: Part = S::PART;

    async fn run(self: &Arc<Self>, mut shutdown: Shutdown) {
        let (board, period) = (&self.board, self.config.interval.max(PAUSE_MAX));
        while shutdown.is_running() {
            board.expect_within(S::PART, Some(period));
            let pause = match self.round().await {
                Ok(pause) => {
                    board.success(S::PART);
                    pause
                }
                Err(error) => backoff(board.failure(S::PART, &error.to_string())),
            };
            board.expect_within(S::PART, Some(period.max(pause)));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.sweep.woken() => {}
                () = shutdown.changed() => {}
            }
        }
        self.duties.leave(S::DUTY).await;
        board.expect_within(S::PART, None);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::{Notify, watch};
    use tokio::time::Instant;
    use windlass_core::clock::{ManualClock, Timestamp};
    use windlass_store_memory::MemoryStore;

    use super::*;
    use crate::shutdown::Stage;

    const INTERVAL: Duration = Duration::from_secs(100);

    #[derive(Default)]
    struct Counting(AtomicU32);

    impl Sweep for Counting {
        const PART: Part = Part::Promoter;
        const DUTY: Duty = Duty::Promote;

        async fn sweep(&self) -> StoreResult<Round> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(Round::Whole)
        }
    }

    fn sweeper(store: &Arc<MemoryStore>) -> Sweeper<Counting> {
        let config = Config { interval: INTERVAL };
        Sweeper::new(config, Counting::default(), Duties::new(Arc::clone(store) as _), Arc::default())
    }

    /// Sweeps of both after a round of each.
    async fn rounds(first: &Sweeper<Counting>, second: &Sweeper<Counting>) -> (u32, u32) {
        for sweeper in [first, second] {
            let pause = sweeper.round().await.expect("the store answers");
            assert!(pause >= INTERVAL.mul_f64(0.75) && pause <= INTERVAL.mul_f64(4.25), "{pause:?}");
        }
        (first.sweep.0.load(Ordering::Relaxed), second.sweep.0.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn one_worker_sweeps_until_it_leaves_or_is_gone() {
        let clock = ManualClock::at(Timestamp::from_micros(0));
        let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
        let (first, second) = (sweeper(&store), sweeper(&store));
        assert_eq!(rounds(&first, &second).await, (1, 0));
        clock.advance(INTERVAL);
        assert_eq!(rounds(&first, &second).await, (2, 0), "it keeps the duty");
        first.duties.leave(Duty::Promote).await;
        assert_eq!(rounds(&second, &first).await, (1, 2), "the other one goes on at once");
        clock.advance(INTERVAL * 4);
        assert_eq!(rounds(&first, &second).await, (3, 1), "the second was away for too long");
    }

    /// Has so many rounds that end by their limit.
    struct Backlog {
        cut: AtomicU32,
        whole: Arc<Notify>,
        times: Mutex<Vec<Instant>>,
    }

    impl Sweep for Backlog {
        const PART: Part = Part::Pruner;
        const DUTY: Duty = Duty::Prune;

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
        let duties = Duties::new(Arc::new(MemoryStore::new()));
        let sweeper = Arc::new(Sweeper::new(config, backlog, duties, Arc::default()));
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
