//! How a worker and its parts do, for its user: what [`Running::health`](crate::Running::health) answers.

use std::time::{Duration, SystemTime};

use windlass_core::{JobId, LeaseId, Name};

/// How a worker fares.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Health {
    /// Each of its loops.
    pub loops: Vec<LoopHealth>,
    /// Its lease.
    pub lease: LeaseHealth,
    /// Slots in all; see [`Running::set_concurrency`](crate::Running::set_concurrency).
    pub slots: usize,
    /// Attempts that run.
    pub running: usize,
    /// Slots that are occupied by handlers whose attempt has ended: blocking ones that outlived it, async ones that
    /// hold their thread, and calls of a batch that go on for its other jobs.
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
    /// Looks after jobs that died.
    Redriver = 7,
    /// Puts lost ticks of schedules back.
    Ticker = 8,
    /// Goes on with flows that others have left.
    FlowKeeper = 9,
}

impl Part {
    pub(crate) const ALL: [Self; 10] = [
        Self::Fetcher,
        Self::Settler,
        Self::Lease,
        Self::Reaper,
        Self::Promoter,
        Self::Pruner,
        Self::Beginner,
        Self::Redriver,
        Self::Ticker,
        Self::FlowKeeper,
    ];

    /// The name used in logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fetcher => "fetcher",
            Self::Settler => "settler",
            Self::Lease => "lease",
            Self::Reaper => "reaper",
            Self::Promoter => "promoter",
            Self::Pruner => "pruner",
            Self::Beginner => "beginner",
            Self::Redriver => "redriver",
            Self::Ticker => "ticker",
            Self::FlowKeeper => "flow keeper",
        }
    }
}
