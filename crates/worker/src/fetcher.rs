//! Claims jobs: as many as there are free slots, and a bounded number ahead.
//!
//! At most one claim is in flight, in a task of its own that always brings its answer to the slots, so no claimed job is
//! forgotten when the fetcher stops. Between claims the fetcher sleeps until asking is worth while again: a slot became
//! free, the bell rang, the next job is due, or it is time to poll. A store that stores jobs may ask for a claim itself: see
//! [`called`].

mod called;
mod timing;
mod unknown;
mod waiter;

use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::store::{ClaimAnswer, Sharing, StoreResult};
use windlass_core::{ClaimedJob, Name, Outcome, StoreErrorKind};

use self::timing::{Ask, Pace, Timing};
pub(crate) use self::unknown::Config as UnknownConfig;
use self::unknown::UnknownKinds;
use self::waiter::SlotWaiter;
use crate::attempts::Attempts;
use crate::client::Client;
use crate::ctx::{Claimed, Ctx, Defaults};
use crate::error::ConfigError;
use crate::health::Part;
use crate::lag::Lag;
use crate::lease::Lease;
use crate::observe::{Call, Observed};
use crate::reconcile::{Reconciler, UnansweredClaim};
use crate::retries::PAUSE_MAX;
use crate::shutdown::Shutdown;
use crate::slots::{Answer, Plan};
use crate::supervise::{Background, Board};
use crate::worker::{Wakeups, at_least_long};

/// How much longer than its interval a poll waits at most, where many workers share the polls.
const POLL_STRETCH_MAX: u32 = 5;

/// How jobs are claimed.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// The queues that are claimed from, in the order of the slots' buffers.
    pub(crate) queues: Vec<Name>,
    pub(crate) kinds: Vec<Name>,
    pub(crate) poll_interval: Duration,
    pub(crate) wakeups: Wakeups,
    /// What holds for attempts whose jobs say nothing about it.
    pub(crate) defaults: Defaults,
    /// How often it is looked for jobs of other kinds.
    pub(crate) unknown: UnknownConfig,
}

impl Config {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        at_least_long("poll_interval", self.poll_interval, Duration::from_millis(1))?;
        at_least_long("timeout", self.defaults.timeout.unwrap_or(Duration::MAX), Duration::from_nanos(1))
    }
}

/// Claims jobs and brings them to the slots.
pub(crate) struct Fetcher {
    config: Config,
    client: Client,
    attempts: Arc<Attempts>,
    lease: Arc<Lease>,
    reconciler: Arc<Reconciler>,
    board: Arc<Board>,
    lag: Arc<Lag>,
    timing: Timing,
    unknown: Arc<UnknownKinds>,
}

/// What one round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Jobs that were claimed; nothing when none were asked for, or the claim failed.
    pub(crate) claimed: Option<usize>,
}

/// A claim in flight. However it ends, the next one may follow.
struct ClaimInFlight(Arc<Attempts>);

impl Drop for ClaimInFlight {
    fn drop(&mut self) {
        self.0.slots().claim_ended();
        self.0.wakers.fetcher.notify_one();
        self.0.wakers.shutdown.notify_waiters();
    }
}

impl Background for Fetcher {
    const PART: Part = Part::Fetcher;

    async fn run(self: &Arc<Self>, mut shutdown: Shutdown) {
        let _enrolled = (self.config.wakeups == Wakeups::On).then(|| {
            let waiter = Arc::new(SlotWaiter(Arc::clone(self)));
            self.client.store().bell().enroll(&self.config.queues, &self.config.kinds, waiter)
        });
        while shutdown.is_running() {
            if self.attempts.slots().frees_more() {
                // Attempts that are about to end do so first, and one claim is for all of their slots.
                tokio::task::yield_now().await;
            }
            let (plan, wake) = self.plan();
            if let Some(plan) = plan {
                let fetcher = Arc::clone(self);
                self.attempts.runtime.spawn(async move { fetcher.claim(plan).await });
            }
            tokio::select! {
                () = self.attempts.wakers.fetcher.notified() => {}
                () = tokio::time::sleep_until(wake.into()) => {}
                () = shutdown.changed() => {}
            }
        }
        self.board.expect_within(Part::Fetcher, None);
    }
}

impl Fetcher {
    pub(crate) fn new(
        config: Config,
        client: Client,
        attempts: Arc<Attempts>,
        lease: Arc<Lease>,
        reconciler: Arc<Reconciler>,
        (board, lag): (Arc<Board>, Arc<Lag>),
    ) -> Self {
        let timing = Timing::new(Instant::now());
        let unknown = Arc::new(UnknownKinds::new(config.unknown, Instant::now()));
        Self { config, client, attempts, lease, reconciler, board, lag, timing, unknown }
    }

    /// Gives back what waits too long, starts what can start, and makes one claim if there is a reason to.
    #[cfg(test)]
    pub(crate) async fn run_once(&self) -> Summary {
        match self.plan() {
            (Some(plan), _) => self.claim(plan).await,
            (None, _) => Summary { claimed: None },
        }
    }

    /// What to claim now, if anything, and when to look again at the latest.
    fn plan(&self) -> (Option<Plan>, Instant) {
        let now = Instant::now();
        self.give_back_stale(now);
        let ask = self.recording(now).map_or_else(|| self.timing.ask(now), Ask::NotBefore);
        let (starts, plan, next, is_claiming) = {
            let mut slots = self.attempts.slots();
            // A claim in flight is the poll.
            if !slots.is_claiming() && self.timing.polls_all(&ask, now, self.config.poll_interval) {
                slots.hint();
            }
            let due = slots.mark_due(now);
            let starts = slots.fill();
            let plan = if matches!(ask, Ask::NotBefore(_)) { None } else { slots.plan(now) };
            let stale = slots.next_stale();
            (starts, plan, due.into_iter().chain(stale).min(), slots.is_claiming())
        };
        starts.into_iter().for_each(|start| self.attempts.launch(start));
        if plan.is_some() || !is_claiming {
            self.board.expect_within(Part::Fetcher, Some(self.config.poll_interval.max(PAUSE_MAX)));
        }
        let wake = match ask {
            Ask::At(next) | Ask::NotBefore(next) => next,
            // A claim is in flight, or nothing may be asked for, because slots are busy or there is no lease. Each of
            // these wakes the fetcher when it is over.
            Ask::Now => now + self.config.poll_interval,
        };
        (plan, next.map_or(wake, |next| wake.min(next)))
    }

    /// Gives back what waits too long for a slot.
    fn give_back_stale(&self, now: Instant) {
        let (stale, pause) = {
            let mut slots = self.attempts.slots();
            (slots.take_stale(now), slots.suspect_pause(now))
        };
        if stale.is_empty() {
            return;
        }
        let settler = Arc::clone(&self.attempts.settler);
        // Not here: a lane that is full must not keep other queues from being asked.
        self.attempts.runtime.spawn(async move {
            for ctx in stale {
                // A suspect would come back at once, and wait for the same one again.
                let is_suspect = ctx.is_suspect();
                let outcome = if is_suspect { Outcome::Snooze { after: pause } } else { Outcome::Returned };
                settler.settle(&ctx, outcome).await;
            }
        });
    }

    /// When to look again, as long as outcomes of a lost lease come first. Rare, and soon over.
    fn recording(&self, now: Instant) -> Option<Instant> {
        const INTERVAL: Duration = Duration::from_millis(20);
        let until = self.lease.records_until()?.into_std();
        (now < until && self.attempts.settler.unsettled() > 0).then_some(now + INTERVAL)
    }

    /// One claim, from the request to the jobs in their slots.
    async fn claim(&self, plan: Plan) -> Summary {
        let sent = Instant::now();
        let request = plan.request(&self.config.queues, &self.config.kinds);
        let _in_flight = ClaimInFlight(Arc::clone(&self.attempts));
        let answer = {
            let call = self.board.guard(Part::Fetcher, self.client.store().claim(request));
            self.client.observe().call(Call::Claim, call).await
        };
        let (claimed, rest) = self.answered(&plan, sent, answer);
        self.start();
        self.attempts.give_back(rest).await;
        Summary { claimed }
    }

    /// What a claim was answered with. Claimed jobs are put into the buffers, from where they may start. Answers how many there
    /// were, and which of them may not start here and are to be given back.
    fn answered(
        &self,
        plan: &Plan,
        sent: Instant,
        answer: StoreResult<ClaimAnswer>,
    ) -> (Option<usize>, Vec<Ctx>) {
        match answer {
            Ok(ClaimAnswer::Jobs { jobs, next_due, unreadable, sick, limited, ample }) => {
                let claimed = Some(jobs.len());
                self.board.success(Part::Fetcher);
                let unread: Vec<Name> = unreadable.iter().map(|lost| lost.queue.clone()).collect();
                self.reconciler.settle_unreadable(plan.lease, unreadable);
                let unanswered = sick.iter().filter(|sick| sick.kind != StoreErrorKind::Unavailable);
                self.reconcile(plan, unanswered.map(|sick| sick.queue.clone()).collect(), &jobs);
                self.look_for_unknown(plan, &jobs);
                let due = next_due.and_then(|wait| sent.checked_add(wait));
                let answer = Answer {
                    jobs: &[],
                    unreadable: &unread,
                    sick: &sick,
                    limited: &limited,
                    ample: &ample,
                    is_partial: next_due == Some(Duration::ZERO),
                };
                return (claimed, self.take_in(plan, sent, jobs, answer, due));
            }
            Ok(ClaimAnswer::LeaseLost) => {
                self.lease.verify(plan.lease);
                self.board.failure(Part::Fetcher, "the store does not know the lease");
                self.timing.failed(0);
            }
            Err(error) => {
                self.lease.note_failure(&error);
                let failures = self.board.failure(Part::Fetcher, &error.to_string());
                self.timing.failed(failures);
                self.attempts.slots().claim_failed();
                if error.kind() != StoreErrorKind::Unavailable {
                    // It may have claimed jobs that this worker does not know of.
                    self.reconcile(plan, plan.queues(&self.config.queues), &[]);
                }
            }
        }
        (None, Vec::new())
    }

    /// Starts what waits and can start.
    fn start(&self) {
        let starts = self.attempts.slots().fill();
        starts.into_iter().for_each(|start| self.attempts.launch(start));
    }

    /// Now and then, looks whether queues that gave nothing hold jobs of kinds that this worker does not know.
    fn look_for_unknown(&self, plan: &Plan, jobs: &[ClaimedJob]) {
        if !jobs.is_empty() {
            self.unknown.found_jobs();
        }
        let is_empty = |queue: &Name| !jobs.iter().any(|job| job.queue == *queue);
        let empty = || {
            let mut queues = plan.queues(&self.config.queues);
            queues.retain(is_empty);
            queues
        };
        let queues = self.unknown.take_due(Instant::now(), empty);
        if queues.is_empty() {
            return;
        }
        let (unknown, client) = (Arc::clone(&self.unknown), self.client.clone());
        let kinds = self.config.kinds.clone();
        // Not here: the next claim must not wait for it.
        self.attempts.runtime.spawn(async move {
            for queue in queues {
                if let Err(error) = unknown.look(&**client.store(), queue, &kinds).await {
                    tracing::debug!(%error, "it is not known whether jobs of other kinds wait");
                    return;
                }
            }
        });
    }

    /// The kinds that were warned about.
    #[cfg(test)]
    pub(crate) fn unknown_kinds(&self) -> Vec<Name> {
        self.unknown.warned()
    }

    /// Puts claimed jobs into the buffers. Answers those that may not start here.
    fn take_in(
        &self,
        plan: &Plan,
        sent: Instant,
        jobs: Vec<ClaimedJob>,
        answer: Answer<'_>,
        due: Option<Instant>,
    ) -> Vec<Ctx> {
        let (defaults, claimed) =
            (self.config.defaults, Claimed { lease: plan.lease, sent, at: Instant::now() });
        let mut last = Observed::default();
        let ctx = |job| {
            let observed = self.client.observe().of(&job, &mut last);
            Ctx::new(job, self.client.clone(), defaults, claimed, observed)
        };
        let jobs: Vec<Ctx> = jobs.into_iter().map(ctx).collect();
        self.timing.answered(jobs.len(), self.pace());
        let mut slots = self.attempts.slots();
        slots.learn(plan, &Answer { jobs: &jobs, ..answer }, |queue| self.comes_at(queue, due));
        if slots.were_asked_to_stop(&jobs) {
            self.lease.verify(plan.lease);
        }
        slots.take_in(plan.lease, jobs)
    }

    /// When to come for a job that is due then. Of many workers that know of it few come, so that not all ask for it.
    fn comes_at(&self, queue: &Name, due: Option<Instant>) -> Option<Instant> {
        match self.config.wakeups {
            Wakeups::On => due?.checked_add(self.client.store().bell().due_delay(queue)?),
            Wakeups::Off => due,
        }
    }

    /// How often to poll: ever more rarely while nothing is found. Where the store knows how many workers serve these
    /// queues, wake-ups come through, and the workers share the polls.
    fn pace(&self) -> Pace {
        let interval = self.config.poll_interval;
        if self.config.wakeups == Wakeups::Off {
            return Pace::Adaptive(interval);
        }
        let peers = self.client.store().bell().peers();
        let least = self.config.queues.iter().map(|queue| peers.serving(queue)).min();
        match u32::try_from(least.unwrap_or(0)).unwrap_or(u32::MAX) {
            0 => Pace::Adaptive(interval),
            workers => Pace::Steady(interval.saturating_mul((workers / 2).clamp(1, POLL_STRETCH_MAX))),
        }
    }

    /// A claim was not answered in these queues, and may have taken more jobs there than these.
    fn reconcile(&self, plan: &Plan, queues: Vec<Name>, jobs: &[ClaimedJob]) {
        let known = |queues: &[Name]| {
            let known = jobs.iter().filter(|job| queues.contains(&job.queue));
            known.map(|job| job.id).collect()
        };
        let (lease, nonce) = (plan.lease, plan.nonce);
        let unanswered = |queues: Vec<Name>| UnansweredClaim {
            lease,
            nonce,
            known: known(&queues),
            queues: queues.into(),
        };
        match self.client.store().about().sharing {
            _ if queues.is_empty() => {}
            Sharing::Store => self.reconciler.reconcile(unanswered(queues)),
            // One that does not answer must not hide what another holds.
            Sharing::Queue => {
                queues.into_iter().for_each(|queue| self.reconciler.reconcile(unanswered(vec![queue])));
            }
        }
    }
}
