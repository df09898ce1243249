//! Claims jobs: as many as there are free slots, and a bounded number ahead.
//!
//! At most one claim is on its way, in an owned task whose answer always lands on the floor: whoever waits for
//! it, the jobs are never forgotten. Between claims the fetcher sleeps until it is worth asking again: a slot
//! became free, the bell rang, the next job is due, or it is time to poll.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use windlass_core::bell::{Listener, Topic};
use windlass_core::store::{ClaimAnswer, Sharing, StoreResult};
use windlass_core::{ClaimedJob, Name, Outcome, StoreError, StoreErrorKind};

use crate::ctx::{Ctx, Landing};
use crate::engine::Engine;
use crate::floor::Plan;
use crate::release::Unheard;
use crate::shutdown::Stage;
use crate::supervise::{BACKOFF_MAX, Part, backoff, panic_text};
use crate::worker::Wakeups;

/// How much faster than its longest interval polling begins after something was found.
const POLL_STEPS: u32 = 4;

/// When to ask again although nothing says so.
#[derive(Debug)]
pub(crate) struct Timing {
    state: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// Time to poll.
    poll: Instant,
    /// Polls in a row that found nothing.
    empty: u32,
    /// The store is away; not before this.
    pause: Option<Instant>,
}

impl Timing {
    pub(crate) fn new(now: Instant) -> Self {
        Self { state: Mutex::new(Times { poll: now, empty: 0, pause: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim was answered.
    fn answered(&self, found: usize, interval: Duration) {
        let mut times = self.lock();
        times.pause = None;
        times.empty = if found > 0 { 0 } else { times.empty.saturating_add(1) };
        // Shorter than the interval by up to a fifth, so that workers do not poll in step.
        let steps = POLL_STEPS.saturating_sub(times.empty);
        let interval = (interval / 2u32.pow(steps)).mul_f64(1.0 - fastrand::f64() / 5.0);
        times.poll = Instant::now() + interval.max(Duration::from_millis(1));
    }

    fn failed(&self, failures: u32) {
        self.lock().pause = Some(Instant::now() + backoff(failures));
    }

    /// What the clock says now.
    fn look(&self, now: Instant) -> Look {
        let times = self.lock();
        match times.pause {
            Some(pause) if now < pause => Look::NotBefore(pause),
            Some(_over) => Look::Time,
            None if times.poll <= now => Look::Time,
            None => Look::At(times.poll),
        }
    }
}

/// What the clock says about asking for jobs.
enum Look {
    /// Ask, whatever was found last time.
    Time,
    /// Ask if there is a reason; without one, at this instant.
    At(Instant),
    /// Do not ask before this instant.
    NotBefore(Instant),
}

/// A claim on its way. However it ends, the next one may follow.
struct OnItsWay<'a>(&'a Engine);

impl Drop for OnItsWay<'_> {
    fn drop(&mut self) {
        self.0.floor().claim_ended();
        self.0.hungry.notify_one();
        self.0.quiet.notify_waiters();
    }
}

/// Claims until the worker stops.
pub(crate) async fn run(engine: Arc<Engine>) {
    let mut listener = match engine.config.wakeups {
        Wakeups::On => Some(engine.store().bell().listen(Topic::Work)),
        Wakeups::Off => None,
    };
    let mut stage = engine.stage();
    while *stage.borrow_and_update() == Stage::Running {
        let wake = engine.step().await;
        tokio::select! {
            () = engine.hungry.notified() => {}
            () = rung(listener.as_mut()) => engine.floor().hint(),
            () = tokio::time::sleep_until(wake.into()) => {}
            _ = stage.changed() => {}
        }
    }
    engine.board.expect_within(Part::Fetcher, None);
}

async fn rung(listener: Option<&mut Listener>) {
    match listener {
        Some(listener) => listener.rung().await,
        None => std::future::pending().await,
    }
}

impl Engine {
    /// Asks for jobs if that is in order, and answers when to look again at the latest.
    async fn step(self: &Arc<Self>) -> Instant {
        let now = Instant::now();
        let (stale, pause) = {
            let mut floor = self.floor();
            (floor.take_stale(now), floor.suspect_pause(now))
        };
        if !stale.is_empty() {
            let engine = Arc::clone(self);
            // Not here: a lane that is full must not keep other queues from being asked.
            self.runtime.spawn(async move {
                for ctx in stale {
                    // A suspect would come back at once, and wait for the same one again.
                    let is_suspect = ctx.is_suspect();
                    let outcome =
                        if is_suspect { Outcome::Snooze { after: pause } } else { Outcome::Returned };
                    engine.settler.settle(&ctx, outcome).await;
                }
            });
        }
        let look = self.recording(now).map_or_else(|| self.timing.look(now), Look::NotBefore);
        let (starts, plan, next, is_claiming) = {
            let mut floor = self.floor();
            // A claim that is on its way is the poll.
            if matches!(look, Look::Time) && !floor.is_claiming() {
                floor.hint();
            }
            let due = floor.heed_due(now);
            let starts = floor.fill();
            let plan = if matches!(look, Look::NotBefore(_)) { None } else { floor.plan(now) };
            let stale = floor.next_stale();
            (starts, plan, due.into_iter().chain(stale).min(), floor.is_claiming())
        };
        starts.into_iter().for_each(|start| self.launch(start));
        if plan.is_some() || !is_claiming {
            self.board.expect_within(Part::Fetcher, Some(self.config.poll_interval.max(BACKOFF_MAX)));
        }
        if let Some(plan) = plan {
            let engine = Arc::clone(self);
            self.runtime.spawn(async move { engine.claim(plan).await });
        }
        let wake = match look {
            Look::At(next) | Look::NotBefore(next) => next,
            // A claim is on its way, or nothing may be asked for, because slots are busy or the lease is
            // away. Each of these wakes the fetcher when it is over.
            Look::Time => now + self.config.poll_interval,
        };
        next.map_or(wake, |next| wake.min(next))
    }

    /// When to look again, as long as outcomes of a lost lease come first. Rare, and soon over.
    fn recording(&self, now: Instant) -> Option<Instant> {
        const LOOK: Duration = Duration::from_millis(20);
        let until = self.lease.records_until()?.into_std();
        (now < until && self.settler.unsettled() > 0).then_some(now + LOOK)
    }

    /// One claim, from the question to the jobs on the floor.
    async fn claim(self: Arc<Self>, plan: Plan) {
        let sent = Instant::now();
        let request = plan.request(&self.config);
        let _on_its_way = OnItsWay(&self);
        let answer = AssertUnwindSafe(self.store().claim(&request)).catch_unwind().await;
        let answer = answer.unwrap_or_else(|panic| {
            let what = panic_text(&*panic);
            self.board.restart(Part::Fetcher, &what);
            Err(StoreError::Internal { what, source: None })
        });
        self.land(&plan, sent, answer).await;
    }

    async fn land(self: &Arc<Self>, plan: &Plan, sent: Instant, answer: StoreResult<ClaimAnswer>) {
        match answer {
            Ok(ClaimAnswer::Jobs { jobs, next_due, unreadable, sick }) => {
                self.board.success(Part::Fetcher);
                self.set_aside(plan.lease, unreadable);
                let unheard = sick.iter().filter(|sick| sick.kind != StoreErrorKind::Unavailable);
                self.look_after(plan, unheard.map(|sick| sick.queue.clone()).collect(), &jobs);
                let (timeout, landing) =
                    (self.config.timeout, Landing { lease: plan.lease, at: Instant::now() });
                let ctx = |job| Ctx::new(job, self.client.clone(), timeout, landing);
                let jobs: Vec<Ctx> = jobs.into_iter().map(ctx).collect();
                self.timing.answered(jobs.len(), self.config.poll_interval);
                let due = next_due.and_then(|wait| sent.checked_add(wait));
                let (starts, rest) = {
                    let mut floor = self.floor();
                    floor.learn(plan, &jobs, due, &sick);
                    floor.land(plan.lease, jobs)
                };
                starts.into_iter().for_each(|start| self.launch(start));
                self.give_back(rest).await;
            }
            Ok(ClaimAnswer::LeaseLost) => {
                self.lease.doubt(plan.lease);
                self.board.failure(Part::Fetcher, "the store does not know the lease");
                self.timing.failed(0);
            }
            Err(error) => {
                let failures = self.board.failure(Part::Fetcher, &error.to_string());
                self.timing.failed(failures);
                self.floor().claim_failed();
                if error.kind() != StoreErrorKind::Unavailable {
                    // It may have handed out jobs that we do not know of.
                    self.look_after(plan, plan.queues(&self.config), &[]);
                }
            }
        }
    }

    /// A claim was not answered in these queues, and may have taken more jobs there than these.
    fn look_after(self: &Arc<Self>, plan: &Plan, queues: Vec<Name>, jobs: &[ClaimedJob]) {
        let known = |queues: &[Name]| {
            let known = jobs.iter().filter(|job| queues.contains(&job.queue));
            known.map(|job| job.id).collect()
        };
        let (lease, nonce) = (plan.lease, plan.nonce);
        let unheard = |queues: Vec<Name>| Unheard { lease, nonce, known: known(&queues), queues };
        match self.store().about().sharing {
            _ if queues.is_empty() => {}
            Sharing::Store => self.reconcile(unheard(queues)),
            // One that stays away must not hide what another holds.
            Sharing::Queue => queues.into_iter().for_each(|queue| self.reconcile(unheard(vec![queue]))),
        }
    }

    /// Hands jobs back that were claimed and not started.
    pub(crate) async fn give_back(&self, jobs: Vec<Ctx>) {
        for ctx in jobs {
            self.settler.settle(&ctx, Outcome::Returned).await;
        }
    }
}
