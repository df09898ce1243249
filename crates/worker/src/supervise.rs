//! Supervision: no loop ends silently, and the health report shows how each one does.
//!
//! Every [`Background`] part of a worker is started by [`spawn`], which starts it again after a panic, and notes its
//! successes and failures on the [`Board`].

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use windlass_core::store::StoreResult;

use crate::health::{LoopHealth, Part};
use crate::retries::{backoff, lost, panic_text};
use crate::shutdown::Shutdown;

/// A background part of a worker. Each has a `Config`, and a `run_once` that is one round and answers what it came to;
/// tests call that.
pub(crate) trait Background: Send + Sync + 'static {
    const PART: Part;

    /// Runs round after round until the worker stops.
    fn run(self: &Arc<Self>, shutdown: Shutdown) -> impl Future<Output = ()> + Send;
}

/// Where the loops note how they fare.
#[derive(Debug, Default)]
pub(crate) struct Board {
    notes: [Mutex<Note>; Part::ALL.len()],
}

#[derive(Debug, Default)]
struct Note {
    last_success: Option<SystemTime>,
    failures: u32,
    last_error: Option<String>,
    restarts: u32,
    /// By when it must have succeeded or failed again.
    due: Option<Instant>,
}

/// Texts on the board are cut to this.
const TEXT_MAX: usize = 1_000;

impl Board {
    /// A loop did what it is for.
    pub(crate) fn success(&self, part: Part) {
        let mut note = self.note(part);
        note.last_success = Some(SystemTime::now());
        note.failures = 0;
    }

    /// A loop failed, and will try again. Answers how often in a row.
    pub(crate) fn failure(&self, part: Part, error: &str) -> u32 {
        let failures = {
            let mut note = self.note(part);
            note.failures = note.failures.saturating_add(1);
            note.last_error = Some(windlass_core::size::bounded_text(error, TEXT_MAX));
            note.failures
        };
        // Without the lock: a log subscriber may read the health.
        if failures == 1 {
            tracing::warn!(part = part.as_str(), error, "failed, will try again");
        } else {
            tracing::debug!(part = part.as_str(), error, failures, "failed again");
        }
        failures
    }

    /// A loop panicked and is started again; to be noted as a failure as well.
    pub(crate) fn restart(&self, part: Part, panic: &str) {
        tracing::error!(part = part.as_str(), panic, "panicked, starting it again");
        let mut note = self.note(part);
        note.restarts = note.restarts.saturating_add(1);
    }

    /// A store call of a part. A panic in it is a lost answer, and counts as a restart.
    pub(crate) async fn guard<T>(
        &self,
        part: Part,
        call: impl Future<Output = StoreResult<T>> + Send,
    ) -> StoreResult<T> {
        AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|panic| {
            self.restart(part, &panic_text(&*panic));
            Err(lost(&*panic))
        })
    }

    /// A loop must be heard of again within three of its periods; nothing while it may rest.
    pub(crate) fn expect_within(&self, part: Part, period: Option<Duration>) {
        let slack = Duration::from_secs(1);
        let due = period.and_then(|period| Instant::now().checked_add(period.saturating_mul(3) + slack));
        self.note(part).due = due;
    }

    /// The notes of all parts.
    pub(crate) fn read(&self) -> Vec<LoopHealth> {
        let now = Instant::now();
        let read = |part| {
            let note = self.note(part);
            LoopHealth {
                part,
                last_success: note.last_success,
                consecutive_failures: note.failures,
                last_error: note.last_error.clone(),
                restarts: note.restarts,
                is_overdue: note.due.is_some_and(|due| due < now),
            }
        };
        Part::ALL.into_iter().map(read).collect()
    }

    fn note(&self, part: Part) -> MutexGuard<'_, Note> {
        self.notes[part as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a part until the worker stops; after a panic it is started again.
pub(crate) fn spawn(
    runtime: &Handle,
    board: Arc<Board>,
    part: Arc<impl Background>,
    shutdown: Shutdown,
) -> JoinHandle<()> {
    runtime.spawn(async move { supervise(&board, &part, &shutdown).await })
}

async fn supervise<B: Background>(board: &Board, background: &Arc<B>, shutdown: &Shutdown) {
    let (part, start) = (B::PART, || background.run(shutdown.clone()));
    while let Err(panic) = AssertUnwindSafe(start()).catch_unwind().await {
        let text = panic_text(&*panic);
        board.restart(part, &text);
        tokio::time::sleep(backoff(board.failure(part, &text))).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// Panics twice, and then ends.
    #[derive(Default)]
    struct Shaky {
        starts: AtomicU32,
    }

    impl Background for Shaky {
        const PART: Part = Part::Reaper;

        async fn run(self: &Arc<Self>, _shutdown: Shutdown) {
            assert!(self.starts.fetch_add(1, Ordering::Relaxed) >= 2, "not yet");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_started_again_and_seen() {
        let board = Board::default();
        supervise(&board, &Arc::<Shaky>::default(), &Shutdown::never()).await;
        let note = board.read().into_iter().find(|note| note.part == Part::Reaper).unwrap();
        assert_eq!((note.restarts, note.consecutive_failures, note.is_ok()), (2, 2, false));
        assert_eq!(note.last_error.as_deref(), Some("panicked: not yet"));
        board.success(Part::Reaper);
        assert!(board.read().iter().all(LoopHealth::is_ok));
    }
}
