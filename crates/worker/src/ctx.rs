//! What a handler can know and do about its own attempt.

pub(crate) mod control;
mod fan_out;
mod flow;
pub(crate) mod follow;
pub(crate) mod once;
pub(crate) mod say;
pub(crate) mod within;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use windlass_core::job::Trace;
use windlass_core::schedule::{MADE_UP, SCHEDULE, nominal_of};
use windlass_core::size::TooLarge;
use windlass_core::{Bytes, ClaimedJob, Fence, JobId, LeaseId, Name, StoreError};

use self::control::{Control, Stop};
use self::follow::FollowState;
use self::within::CompletionState;
use crate::attempt_log::LogLimits;
use crate::blocking::{Clock, ThreadState};
use crate::client::{Client, Sayings};
use crate::error::Error;
use crate::observe::Observed;
use crate::polling::PollState;
use crate::trace::AttemptSpan;

/// One attempt, as its handler sees it. Cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    attempt: Arc<Inner>,
}

/// What the engine knows about an attempt.
pub(crate) struct Inner {
    pub(crate) job: ClaimedJob,
    pub(crate) client: Client,
    pub(crate) control: Control,
    pub(crate) timeout: Option<Duration>,
    pub(crate) claimed: Claimed,
    /// Where it is counted.
    pub(crate) observed: Observed,
    pub(crate) span: AttemptSpan,
    started: OnceLock<Instant>,
    /// The part of the attempt that runs on a thread of its own, if any.
    pub(crate) thread: ThreadState,
    /// Whether its handler gives the runtime's thread back.
    pub(crate) poll: PollState,
    /// How far it is with completing its job within a transaction.
    pub(crate) within: CompletionState,
    /// What it leaves behind.
    pub(crate) follow: FollowState,
    /// What it says of itself; few do.
    said: OnceLock<Box<Sayings>>,
    log_limits: LogLimits,
    /// Its outcome was reported, and the answer was lost: the store may have recorded it.
    pub(crate) is_perhaps_recorded: AtomicBool,
    /// The store knows that the handler has begun, or is being told.
    pub(crate) is_begun_told: AtomicBool,
}

/// What holds for attempts whose jobs say nothing about it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Defaults {
    pub(crate) timeout: Option<Duration>,
    pub(crate) log_limits: LogLimits,
}

/// The claim that an attempt came with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed {
    /// The lease of the attempt.
    pub(crate) lease: LeaseId,
    /// When its store was asked.
    #[cfg_attr(not(feature = "opentelemetry"), expect(dead_code, reason = "only spans show it"))]
    pub(crate) sent: Instant,
    /// When it was claimed; the handler may start later.
    pub(crate) at: Instant,
}

impl Ctx {
    pub(crate) fn new(
        job: ClaimedJob,
        client: Client,
        Defaults { timeout, log_limits }: Defaults,
        claimed: Claimed,
        observed: Observed,
    ) -> Self {
        let timeout = job.facts.spec.timeout.or(timeout);
        let attempt = Inner {
            job,
            client,
            control: Control::default(),
            timeout,
            claimed,
            observed,
            span: AttemptSpan::default(),
            started: OnceLock::new(),
            thread: ThreadState::default(),
            poll: PollState::default(),
            within: CompletionState::default(),
            follow: FollowState::default(),
            said: OnceLock::new(),
            log_limits,
            is_perhaps_recorded: AtomicBool::new(false),
            is_begun_told: AtomicBool::new(false),
        };
        Self { attempt: Arc::new(attempt) }
    }

    /// The attempt begins: its timeout counts from here.
    pub(crate) fn begin(&self) -> Instant {
        *self.attempt.started.get_or_init(Instant::now)
    }

    /// When the handler began, if it has. A blocking one begins when it has a thread.
    pub(crate) fn begun_at(&self) -> Option<Instant> {
        match self.attempt.thread.clock() {
            Clock::Elsewhere => self.attempt.started.get().copied(),
            Clock::Waits => None,
            Clock::Since(began) => Some(began),
        }
    }

    /// Whether the job was lost with a worker while its handler ran: it may have ended that worker.
    pub(crate) fn is_suspect(&self) -> bool {
        self.attempt.job.facts.counters.stalls > 0
    }

    /// Whether a claim of the job did not count as an attempt, or was lost. The handler may have begun then without
    /// the store's knowing, so this time the store is told first. Jobs of the engine come back by design, and have one only
    /// when they are suspect.
    pub(crate) fn has_history(&self) -> bool {
        let is_back = || !self.kind().is_internal() && self.fence().number > u64::from(self.attempt());
        self.is_suspect() || is_back()
    }

    /// The attempt for as long as others need it.
    #[cfg(feature = "capture")]
    pub(crate) fn downgrade(&self) -> WeakCtx {
        WeakCtx(Arc::downgrade(&self.attempt))
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.attempt
    }

    /// Whether the attempt has ended and its handler has not.
    pub(crate) fn is_zombie(&self) -> bool {
        self.attempt.thread.is_zombie() || self.attempt.poll.is_abandoned()
    }

    /// The job's id.
    pub fn id(&self) -> JobId {
        self.attempt.job.id
    }

    /// The queue that the job came from.
    pub fn queue(&self) -> &Name {
        &self.attempt.job.queue
    }

    /// What the job is.
    pub fn kind(&self) -> &Name {
        &self.attempt.job.kind
    }

    /// The key that the job takes turns by, if it has one.
    pub fn key(&self) -> Option<&Name> {
        self.attempt.job.key.as_ref()
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.attempt.job.facts.counters.attempt
    }

    /// How many attempts the job has in all.
    pub fn max_attempts(&self) -> u32 {
        self.attempt.job.facts.spec.retry.attempts_max()
    }

    /// Whether a transient error would now be the last.
    pub fn is_last_attempt(&self) -> bool {
        self.attempt() >= self.max_attempts()
    }

    /// The right to write about this attempt. Its number only ever grows for a job, so a downstream system
    /// can refuse what comes with a smaller one.
    pub fn fence(&self) -> Fence {
        self.attempt.job.fence
    }

    /// When the job was accepted, by the store's clock.
    pub fn enqueued_at(&self) -> SystemTime {
        self.attempt.job.enqueued_at.into()
    }

    /// The job's tags.
    pub fn tags(&self) -> &[Name] {
        &self.attempt.job.tags
    }

    /// The job's input as it was stored.
    pub fn payload(&self) -> &Bytes {
        &self.attempt.job.payload
    }

    /// The trace that the job belongs to, if its producer said so: to be passed on to what the handler calls. With the feature
    /// `opentelemetry`, and where the trace is sampled, it names the span of this attempt. Jobs that follow this one, and those
    /// that it gathers, get it by themselves.
    pub fn trace(&self) -> Option<&Trace> {
        self.attempt.span.trace().or(self.attempt.job.facts.spec.trace.as_ref())
    }

    /// What the producer said about the job beside its input.
    pub fn meta(&self) -> &BTreeMap<String, String> {
        &self.attempt.job.facts.spec.meta
    }

    /// The schedule that made the job, if one did.
    pub fn schedule(&self) -> Option<&str> {
        self.meta().get(SCHEDULE).map(String::as_str)
    }

    /// When the job should start by its schedule, if it has one: its slot, without spread, however late it is. By the clock of
    /// the store, and the same in every attempt.
    pub fn nominal_time(&self) -> Option<SystemTime> {
        nominal_of(&self.attempt.job.facts.spec).map(SystemTime::from)
    }

    /// Whether the slot of the job was missed and is made up now.
    pub fn is_made_up(&self) -> bool {
        self.meta().contains_key(MADE_UP)
    }

    /// When the attempt is told to stop because of its timeout, if it has one. The clock of a blocking handler
    /// starts when it has a thread.
    pub fn deadline(&self) -> Option<Instant> {
        let timeout = self.attempt.timeout?;
        let started = match self.attempt.thread.clock() {
            Clock::Elsewhere => self.begin(),
            Clock::Waits => return None,
            Clock::Since(began) => began,
        };
        started.checked_add(timeout)
    }

    /// Whether the attempt should stop: it timed out, the job was cancelled, the worker shuts down, or the
    /// job was lost to another worker. A handler that goes on is dropped after a grace; a blocking one cannot
    /// be, and should look here now and then.
    pub fn is_cancelled(&self) -> bool {
        self.attempt.control.reason() != Stop::No
    }

    /// Waits until the attempt should stop.
    pub async fn cancelled(&self) {
        self.attempt.control.stronger_than(Stop::No).await;
    }

    /// A client of the store that the job came from.
    pub fn client(&self) -> &Client {
        &self.attempt.client
    }
}

/// An attempt that may have gone.
#[cfg(feature = "capture")]
#[derive(Clone)]
pub(crate) struct WeakCtx(std::sync::Weak<Inner>);

#[cfg(feature = "capture")]
impl WeakCtx {
    pub(crate) fn upgrade(&self) -> Option<Ctx> {
        self.0.upgrade().map(|attempt| Ctx { attempt })
    }
}

fn too_large(id: JobId, error: TooLarge) -> Error {
    StoreError::TooLarge { id, error }.into()
}

impl fmt::Debug for Ctx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ctx")
            .field("id", &self.id())
            .field("kind", self.kind())
            .field("queue", self.queue())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
