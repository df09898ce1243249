//! A worker that runs, and the order in which it ends.
//!
//! Stop claiming; hand back what has not started; let what runs end until the deadline; tell the rest to stop
//! and give it its grace; drop what is left and hand it back; record every outcome; close the lease. The lease
//! ends last, so nothing of this can be taken for lost meanwhile. A second signal skips the waiting.

mod signals;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use windlass_core::Outcome;

use crate::ctx::control::Stop;
use crate::engine::Engine;
use crate::error::Result;
use crate::health::Health;
use crate::lease::End;
use crate::slots::Slots;

pub(crate) use self::signals::run_until_signal;

/// A worker that runs in the background. Dropping it stops the worker as [`Running::stop`] does, without
/// waiting for it, and a warning says so: end it with `stop`.
#[must_use = "the worker stops when this is dropped: keep it, and end it with `stop().await`"]
pub struct Running {
    engine: Arc<Engine>,
    ended: watch::Receiver<bool>,
}

/// How far a worker has come in ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// Running attempts may end.
    Draining,
    /// Nothing is waited for.
    Now,
    /// As if the process had been killed.
    Killed,
}

/// How the parts of a worker learn that it ends.
#[derive(Debug, Clone)]
pub(crate) struct Shutdown(watch::Receiver<Stage>);

impl Shutdown {
    pub(crate) fn new(stage: &watch::Sender<Stage>) -> Self {
        Self(stage.subscribe())
    }

    /// For tests of parts that end by themselves.
    #[cfg(test)]
    pub(crate) fn never() -> Self {
        Self(watch::Sender::new(Stage::Running).subscribe())
    }

    pub(crate) fn stage(&self) -> Stage {
        *self.0.borrow()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        *self.0.borrow_and_update() == Stage::Running
    }

    /// Waits until the stage is another than when it was last looked at.
    pub(crate) async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Running {
    /// How the worker fares.
    pub fn health(&self) -> Health {
        self.engine.health()
    }

    /// Changes how many attempts run at a time, in all, from what [`Worker::concurrency`](crate::Worker::concurrency) said.
    /// Attempts that run go on: with fewer slots, none starts until enough of them have ended. Limits and reserved slots of
    /// queues stay as they are, and so does the number of threads for blocking handlers. A batch that is larger than the slots
    /// that are left goes when its linger is over.
    ///
    /// # Errors
    /// When a worker could not start with so many slots: none at all, or fewer than are reserved. Nothing has changed then.
    pub fn set_concurrency(&self, slots: usize) -> Result<()> {
        self.engine.attempts.slots().set_concurrency(slots)?;
        self.engine.attempts.wakers.fetcher.notify_one();
        Ok(())
    }

    /// Stops claiming, lets running attempts end within the deadline, hands the others back, records
    /// everything, and waits for all of that.
    pub async fn stop(mut self) {
        self.engine.advance(Stage::Draining);
        self.wait().await;
    }

    /// The same without waiting for running attempts: they are dropped and handed back at once.
    pub async fn stop_now(mut self) {
        self.engine.advance(Stage::Now);
        self.wait().await;
    }

    /// Ends as a killed process would: running attempts are dropped, nothing more is handed back or
    /// recorded, and the lease is left to run out.
    pub fn abort(self) {
        self.engine.advance(Stage::Killed);
    }

    /// Waits until the worker has ended, whatever ended it.
    pub async fn wait(&mut self) {
        // A sender that is gone has ended with its runtime.
        let _ = self.ended.wait_for(|ended| *ended).await;
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let is_surprise = *self.engine.stage().borrow() == Stage::Running && !*self.ended.borrow();
        self.engine.advance(Stage::Draining);
        if is_surprise {
            tracing::warn!(
                worker = self.engine.config.lease.worker,
                "the worker stops because its handle was dropped: keep what `start` returns, and end it with `stop().await`"
            );
        }
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("health", &self.health()).finish_non_exhaustive()
    }
}

/// How long an attempt that was dropped may hold its thread before its job is handed back without it.
const STUCK_MAX: Duration = Duration::from_secs(1);
/// How long the store may take to record the last outcomes once nothing runs any more.
const STORE_MAX: Duration = Duration::from_secs(5);
/// How long the loops may take to end, all of them together.
const LOOP_MAX: Duration = Duration::from_secs(2);
/// How often it is looked whether handlers still hold threads after the end.
const HELD_INTERVAL: Duration = Duration::from_millis(100);
/// How long the lease may take to be closed.
const LEASE_MAX: Duration = Duration::from_secs(4);

/// Waits for the worker to be told to stop, and stops its parts in order.
pub(crate) fn spawn(
    engine: Arc<Engine>,
    loops: Vec<JoinHandle<()>>,
    lease: oneshot::Receiver<()>,
) -> Running {
    let ended = engine.ended.subscribe();
    let (measured, stopped) = (Arc::clone(&engine), Arc::clone(&engine));
    engine.runtime.spawn(async move {
        tokio::select! {
            () = measured.lag.measure() => {}
            () = measured.gone() => {}
        }
    });
    engine.runtime.spawn(async move {
        let at_the_end = EndOfLease(Arc::clone(&stopped));
        // Answered also when the sender is gone, which it is not while the engine is there.
        let _ = stopped.stage().wait_for(|stage| *stage != Stage::Running).await;
        let is_killed = stopped.wind_down().await;
        end_loops(loops, if is_killed { Duration::ZERO } else { LOOP_MAX }).await;
        stopped.lease.end(if is_killed { End::Leave } else { End::Close });
        // A store call that hangs keeps the lease's thread; its lease runs out by itself.
        let _ = timeout(LEASE_MAX, lease).await;
        stopped.ended.send_replace(true);
        drop(at_the_end);
    });
    Running { engine, ended }
}

/// Waits for all loops together, and drops those that are late.
async fn end_loops(loops: Vec<JoinHandle<()>>, within: Duration) {
    let late = Instant::now() + within;
    for mut handle in loops {
        if timeout_at(late, &mut handle).await.is_err() {
            handle.abort();
        }
    }
}

/// A runtime that ends drops this task and every attempt. The lease must not be renewed by its own thread then: the jobs
/// could never be taken back.
struct EndOfLease(Arc<Engine>);

impl Drop for EndOfLease {
    fn drop(&mut self) {
        self.0.lease.end(End::Close);
        self.0.attempts.slots().lease_retired();
    }
}

impl Engine {
    /// Brings everything that was claimed to an end, and tells whether the worker was killed instead.
    async fn wind_down(&self) -> bool {
        self.attempts.close();
        let drained = Instant::now() + self.config.drain_deadline;
        self.until(drained, Stage::Now, |slots| !slots.is_claiming()).await;
        if self.is_killed() {
            return true;
        }
        let waiting = self.attempts.slots().take_waiting();
        let _ = timeout(STORE_MAX, self.attempts.give_back(waiting)).await;
        self.until(drained, Stage::Now, is_empty).await;
        self.attempts.slots().stop_all(Stop::Shutdown);
        self.until(Instant::now() + self.config.cancel_grace, Stage::Now, is_empty).await;
        if self.is_killed() {
            return true;
        }
        self.attempts.slots().stop_all(Stop::Now);
        let stuck = Instant::now() + STUCK_MAX;
        // Nothing wants a call of a batch any more that goes on: it is dropped as soon as it yields.
        let is_quiet = |slots: &Slots| is_empty(slots) && !slots.has_calls() && !slots.is_claiming();
        self.until(stuck, Stage::Killed, is_quiet).await;
        if self.is_killed() {
            return true;
        }
        let recorded = Instant::now() + STORE_MAX;
        let _ = timeout_at(recorded, self.give_back_stuck()).await;
        if timeout_at(recorded, self.settler.run_once()).await.is_err() {
            let unsettled = self.settler.unsettled();
            tracing::error!(
                unsettled,
                "the store does not answer: outcomes are not recorded, their jobs will run again"
            );
        }
        // Else maintenance of another worker moves on the flows whose last jobs have ended here.
        let _ = timeout_at(recorded, self.client.flows_at_rest()).await;
        false
    }

    /// Whether the worker is to end as if its process had been killed; then everything is let go of.
    fn is_killed(&self) -> bool {
        let is_killed = *self.stage().borrow() == Stage::Killed;
        if is_killed {
            self.attempts.slots().let_go();
        }
        is_killed
    }

    /// Handlers that hold their thread cannot be dropped. Their jobs go back all the same; the fence keeps
    /// whatever they come to from counting.
    async fn give_back_stuck(&self) {
        let stuck: Vec<_> = self.attempts.slots().running().cloned().collect();
        for ctx in stuck {
            tracing::warn!(job.id = %ctx.id(), job.kind = %ctx.kind(), "does not stop; handing its job back");
            ctx.inner().control.stop(Stop::Gone);
            self.settler.settle(&ctx, Outcome::Returned).await;
        }
    }

    /// Waits until the worker has ended and none of its handlers holds a thread of the runtime any more.
    async fn gone(&self) {
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
        while self.attempts.slots().is_held() {
            tokio::time::sleep(HELD_INTERVAL).await;
        }
    }

    /// Waits until the slots are as wanted, the deadline has passed, or the worker was told to be that quick.
    async fn until(&self, deadline: Instant, stage: Stage, wanted: impl Fn(&Slots) -> bool) {
        let mut stages = self.stage();
        let quiet = async {
            loop {
                let changed = self.attempts.wakers.shutdown.notified();
                tokio::pin!(changed);
                // Registered before the slots are looked at, so that a change between the two is not missed.
                changed.as_mut().enable();
                if wanted(&self.attempts.slots()) {
                    return;
                }
                changed.await;
            }
        };
        tokio::select! {
            biased;
            () = quiet => {}
            () = sleep_until(deadline) => {}
            _ = stages.wait_for(|now| *now >= stage) => {}
        }
    }
}

fn is_empty(slots: &Slots) -> bool {
    slots.running().next().is_none()
}
