//! A worker that runs, and the order in which it ends.
//!
//! Stop claiming; hand back what has not started; let what runs end until the deadline; tell the rest to stop
//! and give it its grace; drop what is left and hand it back; record every outcome; close the lease. The lease
//! ends last, so nothing of this can be taken for lost meanwhile. A second word skips the waiting.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};
use windlass_core::Outcome;

use crate::ctx::control::Stop;
use crate::engine::Engine;
use crate::floor::Floor;
use crate::lease::End;
use crate::supervise::Health;

/// A worker that runs in the background. Dropping it stops the worker as [`Running::stop`] does, without
/// waiting for it.
#[must_use = "a worker stops when this is dropped"]
pub struct Running {
    engine: Arc<Engine>,
    ended: watch::Receiver<bool>,
}

/// How far a worker is on its way to the end.
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

impl Running {
    /// How the worker fares.
    pub fn health(&self) -> Health {
        self.engine.health()
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

    /// Waits until the worker has ended, on whose word ever.
    pub async fn wait(&mut self) {
        // An attendant that is gone has ended with its runtime.
        let _ = self.ended.wait_for(|ended| *ended).await;
    }

    /// Begins to stop without waiting for it.
    fn advance(&self, stage: Stage) {
        self.engine.advance(stage);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.engine.advance(Stage::Draining);
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
/// How long the lease may take to be closed.
const LEASE_MAX: Duration = Duration::from_secs(4);

/// Attends to a worker until its end.
pub(crate) fn attend(
    engine: Arc<Engine>,
    loops: Vec<JoinHandle<()>>,
    lease: oneshot::Receiver<()>,
) -> Running {
    let (ending, ended) = watch::channel(false);
    let attended = Arc::clone(&engine);
    engine.runtime.spawn(async move {
        let at_the_end = EndOfLease(Arc::clone(&attended));
        let mut stage = attended.stage();
        {
            let running = stage.wait_for(|stage| *stage != Stage::Running);
            tokio::select! {
                _ = running => {}
                () = attended.lag.measure() => {}
            }
        }
        let is_killed = attended.wind_down().await;
        end_loops(loops, if is_killed { Duration::ZERO } else { LOOP_MAX }).await;
        attended.lease.end(if is_killed { End::Leave } else { End::Close });
        // A store call that hangs keeps the lease's thread; its lease runs out by itself.
        let _ = timeout(LEASE_MAX, lease).await;
        let _ = ending.send(true);
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

/// A runtime that ends takes the attendant with it, and every attempt. The lease must not go on living in its
/// own thread then: nobody could ever take the jobs back.
struct EndOfLease(Arc<Engine>);

impl Drop for EndOfLease {
    fn drop(&mut self) {
        self.0.lease.end(End::Close);
        self.0.floor().lease_retired();
    }
}

impl Engine {
    /// Brings everything that was claimed to an end, and tells whether the worker was killed instead.
    async fn wind_down(&self) -> bool {
        self.floor().close();
        let drained = Instant::now() + self.config.drain_deadline;
        self.until(drained, Stage::Now, |floor| !floor.is_claiming()).await;
        if self.is_killed() {
            return true;
        }
        let waiting = self.floor().take_waiting();
        let _ = timeout(STORE_MAX, self.give_back(waiting)).await;
        self.until(drained, Stage::Now, is_empty).await;
        self.floor().stop_all(Stop::Shutdown);
        self.until(Instant::now() + self.config.cancel_grace, Stage::Now, is_empty).await;
        if self.is_killed() {
            return true;
        }
        self.floor().stop_all(Stop::Now);
        let stuck = Instant::now() + STUCK_MAX;
        self.until(stuck, Stage::Killed, |floor| is_empty(floor) && !floor.is_claiming()).await;
        if self.is_killed() {
            return true;
        }
        let recorded = Instant::now() + STORE_MAX;
        let _ = timeout_at(recorded, self.give_back_stuck()).await;
        if timeout_at(recorded, self.settler.flushed()).await.is_err() {
            let unsettled = self.settler.unsettled();
            tracing::error!(
                unsettled,
                "the store is away: outcomes are not recorded, their jobs will run again"
            );
        }
        false
    }

    /// Whether the worker is to end as if its process had been killed; then everything is let go of.
    fn is_killed(&self) -> bool {
        let is_killed = *self.stage().borrow() == Stage::Killed;
        if is_killed {
            self.floor().let_go();
        }
        is_killed
    }

    /// Handlers that hold their thread cannot be dropped. Their jobs go back all the same; the fence keeps
    /// whatever they come to from counting.
    async fn give_back_stuck(&self) {
        let stuck: Vec<_> = self.floor().running().cloned().collect();
        for ctx in stuck {
            tracing::warn!(job.id = %ctx.id(), job.kind = %ctx.kind(), "does not stop; handing its job back");
            ctx.inner().control.stop(Stop::Lost);
            self.settler.settle(&ctx, Outcome::Returned).await;
        }
    }

    /// Waits until the floor is as wanted, the deadline has passed, or the worker was told to be that quick.
    async fn until(&self, deadline: Instant, stage: Stage, wanted: impl Fn(&Floor) -> bool) {
        let mut stages = self.stage();
        let quiet = async {
            loop {
                let changed = self.quiet.notified();
                tokio::pin!(changed);
                // Registered before the floor is looked at, so that a change between the two is not missed.
                changed.as_mut().enable();
                if wanted(&self.floor()) {
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

fn is_empty(floor: &Floor) -> bool {
    floor.running().next().is_none()
}

/// Runs until the program is told to stop: the first signal drains, the second does not wait.
pub(crate) async fn run_until_signal(mut running: Running) {
    let mut signals = Signals::new();
    tokio::select! {
        name = signals.next() => tracing::info!(signal = name, "stopping; once more to stop at once"),
        () = running.wait() => return,
    }
    running.advance(Stage::Draining);
    tokio::select! {
        name = signals.next() => tracing::warn!(signal = name, "stopping at once"),
        () = running.wait() => return,
    }
    running.stop_now().await;
}

/// SIGTERM and SIGINT, or Ctrl-C where there are no such signals.
struct Signals {
    #[cfg(unix)]
    each: Vec<(&'static str, tokio::signal::unix::Signal)>,
}

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        let listen = |(name, kind)| match signal(kind) {
            Ok(signal) => Some((name, signal)),
            Err(error) => {
                tracing::error!(%error, signal = name, "cannot listen for the signal");
                None
            }
        };
        let kinds = [("SIGTERM", SignalKind::terminate()), ("SIGINT", SignalKind::interrupt())];
        Self { each: kinds.into_iter().filter_map(listen).collect() }
    }

    async fn next(&mut self) -> &'static str {
        std::future::poll_fn(|context| {
            for (name, signal) in &mut self.each {
                if signal.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*name);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self {}
    }

    async fn next(&mut self) -> &'static str {
        if let Err(error) = tokio::signal::ctrl_c().await {
            tracing::error!(%error, "cannot listen for Ctrl-C");
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
