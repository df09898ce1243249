//! Loops that keep a store in order. Every worker may run them; they only do what is still to be done.

mod promoter;
mod pruner;
mod reaper;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::StoreResult;

use crate::engine::Engine;
use crate::shutdown::Stage;
use crate::supervise::{BACKOFF_MAX, Part, backoff};

pub use promoter::{PromoteSummary, Promoter};
pub use pruner::{PruneSummary, Pruner};
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

/// Takes lost jobs back until the worker stops.
pub(crate) async fn reap(engine: Arc<Engine>) {
    let reaper = Reaper::new(Arc::clone(engine.store()));
    let interval = engine.config.reap_interval;
    rounds(&engine, Part::Reaper, interval, || async {
        engine.record_first().await;
        reaper.run_once().await.map(drop)
    })
    .await;
}

/// How long a round of the reaper waits for this worker's own outcomes to be recorded.
const RECORD_MAX: Duration = Duration::from_secs(1);

impl Engine {
    /// What was done is recorded before lost jobs are taken back, or it would be done again.
    async fn record_first(&self) {
        if let Some(until) = self.lease.recovers_until() {
            tokio::time::sleep_until(until).await;
        }
        if self.settler.unsettled() > 0 {
            let _ = tokio::time::timeout(RECORD_MAX, self.settler.flushed()).await;
        }
    }
}

/// Promotes due jobs of every queue until the worker stops.
pub(crate) async fn promote(engine: Arc<Engine>) {
    let promoter = Promoter::new(Arc::clone(engine.store()));
    let interval = engine.config.promote_interval;
    rounds(&engine, Part::Promoter, interval, || async { promoter.run_once().await.map(drop) }).await;
}

/// Prunes until the worker stops.
pub(crate) async fn prune(engine: Arc<Engine>) {
    let pruner = Pruner::new(Arc::clone(engine.store()));
    let interval = engine.config.prune_interval;
    rounds(&engine, Part::Pruner, interval, || async { pruner.run_once().await.map(drop) }).await;
}

/// Runs rounds until the worker stops; a round that has begun is always finished. Intervals are spread, so
/// that workers which started together do not stay in step.
async fn rounds<Fut>(engine: &Engine, part: Part, interval: Duration, round: impl Fn() -> Fut)
where
    Fut: Future<Output = StoreResult<()>>,
{
    let mut stage = engine.stage();
    while *stage.borrow_and_update() == Stage::Running {
        engine.board.expect_within(part, Some(interval.max(BACKOFF_MAX)));
        let pause = match round().await {
            Ok(()) => {
                engine.board.success(part);
                interval.mul_f64(0.75 + fastrand::f64() / 2.0)
            }
            Err(error) => backoff(engine.board.failure(part, &error.to_string())),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = engine.lost.notified(), if part == Part::Reaper => {}
            _ = stage.changed() => {}
        }
    }
    engine.board.expect_within(part, None);
}
