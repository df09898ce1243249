//! The signals that end a worker which runs until it is told to stop.
//!
//! They are heard by a thread of their own: handlers may hold every thread of the program's runtime, and then
//! nothing that runs there would ever hear them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::sync::oneshot;

use super::{HELD_INTERVAL, Running, Stage};
use crate::engine::Engine;
use crate::error::Result;

/// How long the runtime must have been silent before the process exits, when only handlers that hold its threads
/// are left.
const SILENT_MAX: Duration = Duration::from_secs(5);

/// Runs a worker until the program is told to stop: the first signal drains, the second does not wait. Signals are
/// listened for before the worker starts: one that came between would end the process in the middle of its jobs.
pub(crate) async fn run_until_signal(start: impl FnOnce() -> Result<Running>) -> Result<()> {
    let (listens, listening) = oneshot::channel();
    let (started, starts) = oneshot::channel::<Arc<Engine>>();
    let hear = move || {
        let runtime = Builder::new_current_thread().enable_all().build();
        let obey = async {
            let signals = Signals::new();
            let _ = listens.send(());
            // A worker that does not start has nothing to end.
            if let Ok(engine) = starts.await {
                engine.obey(signals).await;
            }
        };
        match runtime {
            Ok(runtime) => runtime.block_on(obey),
            Err(error) => tracing::error!(%error, "cannot listen for signals: end the worker otherwise"),
        }
    };
    let spawned = std::thread::Builder::new().name("windlass-signals".into()).spawn(hear);
    if let Err(error) = spawned {
        tracing::error!(%error, "cannot listen for signals: end the worker otherwise");
    }
    // Answered either way: the thread listens, or it is gone.
    let _ = listening.await;
    let mut running = start()?;
    let _ = started.send(Arc::clone(&running.engine));
    running.wait().await;
    Ok(())
}

impl Engine {
    /// Brings the worker to its end when signals ask for it.
    async fn obey(self: Arc<Self>, mut signals: Signals) {
        let mut ended = self.ended.subscribe();
        tokio::select! {
            name = signals.next() => tracing::info!(signal = name, "stopping; once more to stop at once"),
            _ = ended.wait_for(|ended| *ended) => return,
        }
        self.advance(Stage::Draining);
        tokio::select! {
            name = signals.next() => {
                tracing::warn!(signal = name, "stopping at once");
                self.advance(Stage::Now);
            }
            _ = ended.wait_for(|ended| *ended) => {}
        }
        let _ = ended.wait_for(|ended| *ended).await;
        self.leave_process().await;
    }

    /// The worker has ended by a signal. Handlers that hold threads of the runtime would keep the process alive,
    /// without limit: a runtime that is dropped waits for them. When nothing else is left, it exits.
    async fn leave_process(&self) {
        while self.attempts.slots().is_held() {
            if self.lag.silence(Instant::now()) >= SILENT_MAX {
                let held = self.attempts.slots().blocked(Instant::now(), Duration::ZERO);
                let kinds = held.iter().map(|held| held.kind.as_str()).collect::<Vec<_>>().join(", ");
                tracing::error!(kinds, "the process exits: only handlers that hold their thread are left");
                std::process::exit(1);
            }
            tokio::time::sleep(HELD_INTERVAL).await;
        }
    }
}

/// SIGTERM and SIGINT, or Ctrl-C on systems without them.
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
