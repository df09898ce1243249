//! Supervision: no loop dies silently, and anyone can see how each one fares.
//!
//! Every loop of a worker runs under [`supervise`], which starts it again after a panic, and notes its
//! successes and failures on the [`Board`].

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use futures_util::FutureExt;
use windlass_core::{JobId, LeaseId, Name};

/// How a worker fares.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// Each of its loops.
    pub loops: Vec<LoopHealth>,
    /// Its lease.
    pub lease: LeaseHealth,
    /// Attempts that run.
    pub running: usize,
    /// Slots that are occupied by handlers whose attempt has ended: blocking ones that outlived it, and async
    /// ones that hold their thread.
    pub zombies: usize,
    /// Async handlers that do not give their runtime thread back; see `Worker::slow_poll`.
    pub blocked: Vec<Blocked>,
    /// Queues that can start nothing, because handlers whose attempt has ended occupy every slot they may use.
    pub starved: Vec<Name>,
    /// Threads for blocking handlers that are not held by one whose attempt has ended.
    pub threads_free: usize,
    /// Jobs that were claimed and have not started.
    pub buffered: usize,
    /// Outcomes that wait to be recorded.
    pub unsettled: usize,
    /// Outcomes that came too late and were refused.
    pub fenced: u64,
    /// Queues that could not be asked for jobs when they last were.
    pub sick: Vec<QueueHealth>,
    /// Jobs that could not be read.
    pub unreadable: UnreadableHealth,
    /// By how much the runtime was late the last time it was asked.
    pub lag: Duration,
    /// The most it was ever late.
    pub lag_max: Duration,
}

impl Health {
    /// Whether everything works: no loop fails or is overdue, the lease is held, every queue can be asked and has
    /// slots and threads that can become free, and no handler holds a runtime thread.
    pub fn is_ok(&self) -> bool {
        let has_room = self.blocked.is_empty() && self.starved.is_empty() && self.threads_free > 0;
        let can_ask = self.lease.id.is_some() && self.sick.is_empty();
        has_room && can_ask && self.loops.iter().all(LoopHealth::is_ok)
    }

    /// One of the loops.
    pub fn of(&self, part: Part) -> &LoopHealth {
        self.loops.iter().find(|note| note.part == part).expect("every part has its place on the board")
    }
}

/// An async handler that does not give its runtime thread back.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// Its kind.
    pub kind: Name,
    /// Its job.
    pub id: JobId,
    /// For how long it has held the thread.
    pub held: Duration,
}

/// A queue that cannot be asked for jobs; the others are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueHealth {
    /// Which one.
    pub queue: Name,
    /// What is wrong with it.
    pub error: String,
}

/// Jobs that this program could not read. They were set aside and harm nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnreadableHealth {
    /// How many were met.
    pub jobs: u64,
    /// The newest, and what is wrong with it.
    pub last: Option<String>,
}

/// How a worker's lease fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseHealth {
    /// The lease that is held; nothing while there is none.
    pub id: Option<LeaseId>,
    /// How many leases have been lost.
    pub lost: u64,
}

/// How one loop fares.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LoopHealth {
    /// Which one.
    pub part: Part,
    /// When it last did what it is for.
    pub last_success: Option<SystemTime>,
    /// Failures since then.
    pub consecutive_failures: u32,
    /// The newest failure, kept after a success.
    pub last_error: Option<String>,
    /// How often it was started again after a panic.
    pub restarts: u32,
    /// Whether it has missed its time by far.
    pub is_overdue: bool,
}

impl LoopHealth {
    /// Whether it works.
    pub fn is_ok(&self) -> bool {
        self.consecutive_failures == 0 && !self.is_overdue
    }
}

/// The loops of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Part {
    /// Claims jobs.
    Fetcher = 0,
    /// Records outcomes.
    Settler = 1,
    /// Keeps the lease alive.
    Lease = 2,
    /// Takes lost jobs back.
    Reaper = 3,
    /// Promotes due jobs of queues without workers.
    Promoter = 4,
    /// Removes old history.
    Pruner = 5,
    /// Tells the store which attempts have begun.
    Beginner = 6,
}

impl Part {
    const ALL: [Self; 7] = [
        Self::Fetcher,
        Self::Settler,
        Self::Lease,
        Self::Reaper,
        Self::Promoter,
        Self::Pruner,
        Self::Beginner,
    ];

    /// The word used in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetcher => "fetcher",
            Self::Settler => "settler",
            Self::Lease => "lease",
            Self::Reaper => "reaper",
            Self::Promoter => "promoter",
            Self::Pruner => "pruner",
            Self::Beginner => "beginner",
        }
    }
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
        // Without the lock: whoever listens to the log may look at the health.
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

    /// A loop must be heard of again within three of its periods; nothing while it may rest.
    pub(crate) fn expect_within(&self, part: Part, period: Option<Duration>) {
        let slack = Duration::from_secs(1);
        let due = period.and_then(|period| Instant::now().checked_add(period.saturating_mul(3) + slack));
        self.note(part).due = due;
    }

    /// What everybody has noted.
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

/// Runs a loop until it ends by itself; after a panic it is started again.
pub(crate) async fn supervise<Fut: Future<Output = ()>>(board: &Board, part: Part, start: impl Fn() -> Fut) {
    while let Err(panic) = AssertUnwindSafe(start()).catch_unwind().await {
        let text = panic_text(&*panic);
        board.restart(part, &text);
        tokio::time::sleep(backoff(board.failure(part, &text))).await;
    }
}

/// How long to wait after so many failures in a row: full jitter between 0.05 s and 5 s.
pub(crate) fn backoff(failures: u32) -> Duration {
    let most = BACKOFF_MIN.saturating_mul(2u32.saturating_pow(failures.min(16))).min(BACKOFF_MAX);
    BACKOFF_MIN + most.saturating_sub(BACKOFF_MIN).mul_f64(fastrand::f64())
}

const BACKOFF_MIN: Duration = Duration::from_millis(50);
/// The longest that a loop waits after a failure.
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(5);

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.map_or_else(|| "panicked without a text".to_owned(), |text| format!("panicked: {text}"))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_loop_that_panics_is_started_again_and_seen() {
        let board = Board::default();
        let starts = AtomicU32::new(0);
        supervise(&board, Part::Reaper, || async {
            assert!(starts.fetch_add(1, Ordering::Relaxed) >= 2, "not yet");
        })
        .await;
        let note = board.read().into_iter().find(|note| note.part == Part::Reaper).unwrap();
        assert_eq!((note.restarts, note.consecutive_failures, note.is_ok()), (2, 2, false));
        assert_eq!(note.last_error.as_deref(), Some("panicked: not yet"));
        board.success(Part::Reaper);
        assert!(board.read().iter().all(LoopHealth::is_ok));
    }

    #[test]
    fn backoff_is_bounded_at_any_number() {
        for failures in [0, 1, 5, 100, u32::MAX] {
            let wait = backoff(failures);
            assert!(wait >= Duration::from_millis(50) && wait <= Duration::from_secs(5), "{wait:?}");
        }
    }
}
