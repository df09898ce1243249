//! A runner: takes work from the queue, runs it, and asks for more, until there is none; then it is parked. One
//! slot of concurrency is one runner, so nothing is spawned per piece of work.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use pin_project_lite::pin_project;
use tokio::time::{Instant, Sleep, sleep_until};

use crate::clock::after;
use crate::error::{Error, Why, drop_quietly, panic_text};
use crate::machine::{Effects, Id, Outcome, Pause, Start, Verdict};
use crate::shared::Shared;
use crate::sync::{AtomicBool, Ordering};
use crate::work::{Perform, Unit, Work};

/// How many pieces of work a runner runs before it lets others on its thread go first.
/// Where schedules are tried out, so few that it happens there.
const BUDGET: u32 = if cfg!(test) { 2 } else { 64 };

pin_project! {
    /// The future of one runner.
    pub(crate) struct Runner<W: Work, P: Perform<W>> {
        // Dropped before the station, which then reports that it was.
        #[pin]
        run: Option<P::Run>,
        perform: P,
        station: Station<W>,
    }

    impl<W: Work, P: Perform<W>> PinnedDrop for Runner<W, P> {
        // A panic in here would keep the other runners of a driver from being dropped.
        fn drop(this: Pin<&mut Self>) {
            let mut run = this.project().run;
            let _ = catch_unwind(AssertUnwindSafe(|| run.set(None)));
        }
    }
}

/// What a runner has besides the work itself.
struct Station<W: Work> {
    shared: Arc<Shared<W>>,
    runner: Option<u32>,
    bell: Arc<AtomicBool>,
    /// What runs, or has ended and is not reported yet.
    id: Option<Id>,
    /// How it has ended.
    end: Option<End<W>>,
    timeout: Option<Duration>,
    timer: Option<Pin<Box<Sleep>>>,
    is_rate_waiter: bool,
    /// Whether those it has called are to go first.
    steps_aside: bool,
    has_noted_start: bool,
    waker: Option<Waker>,
    has_left: bool,
}

struct End<W: Work> {
    verdict: Verdict,
    outcome: Outcome<W::Done>,
}

/// What to do next.
enum Next<W> {
    Run(W),
    Wait,
    Leave,
}

impl<W: Work, P: Perform<W>> Runner<W, P> {
    pub(crate) fn new(shared: Arc<Shared<W>>, perform: P) -> Self {
        let station = Station {
            shared,
            runner: None,
            bell: Arc::new(AtomicBool::new(false)),
            id: None,
            end: None,
            timeout: None,
            timer: None,
            is_rate_waiter: false,
            steps_aside: false,
            has_noted_start: false,
            waker: None,
            has_left: false,
        };
        Self { run: None, perform, station }
    }

    /// Runs one piece of work after the other.
    #[inline]
    fn advance(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut this = self.project();
        for _ in 0..BUDGET {
            // Others of the same driver may have cancelled what would run now.
            this.station.shared.heed_tokens();
            if this.run.is_none() {
                match this.station.next(context) {
                    Next::Run(work) => this.run.set(Some(this.perform.start(work))),
                    Next::Wait => return Poll::Pending,
                    Next::Leave => return Poll::Ready(()),
                }
            }
            if std::mem::take(&mut this.station.steps_aside) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let run = this.run.as_mut().as_pin_mut().expect("there is work, or it was just set");
            if this.station.poll(run, context).is_pending() {
                return Poll::Pending;
            }
            this.run.set(None);
        }
        this.station.let_others_go_first();
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// The work has panicked, while it ran, when it was made or when it was dropped.
    fn panicked(self: Pin<&mut Self>, payload: Box<dyn Any + Send>) {
        let mut this = self.project();
        if this.station.id.is_none() {
            // Not the work, then: this is not ours to hide.
            std::panic::resume_unwind(payload);
        }
        if this.station.end.is_none() {
            this.station.end = Some(End::failed(Error::Panicked(panic_text(&*payload))));
        }
        drop_quietly(payload);
        let _ = catch_unwind(AssertUnwindSafe(|| this.run.set(None)));
    }
}

impl<W: Work, P: Perform<W>> Future for Runner<W, P> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        loop {
            match catch_unwind(AssertUnwindSafe(|| self.as_mut().advance(context))) {
                Ok(poll) => return poll,
                Err(payload) => self.as_mut().panicked(payload),
            }
        }
    }
}

impl<W: Work> End<W> {
    fn failed(error: Error) -> Self {
        Self { verdict: Verdict::Failed(error.kind()), outcome: Err(Box::new(error)) }
    }
}

/// Drops an outcome without a handle. Errors hold no value of the user's.
#[inline]
fn drop_outcome<D>(unwanted: Option<Outcome<D>>) {
    if let Some(Ok(done)) = unwanted {
        drop_quietly(done);
    }
}

impl<W: Work> Station<W> {
    /// Reports what has ended and asks for more.
    #[inline]
    fn next(&mut self, context: &mut Context<'_>) -> Next<W> {
        if self.is_rate_waiter && self.poll_timer(context).is_pending() && self.waits_for_rate(context) {
            return Next::Wait;
        }
        let mut effects = Effects::new();
        let mut machine = self.shared.lock();
        let (runner, unwanted) = match (self.runner, self.end.take()) {
            (Some(runner), Some(end)) => {
                let id = self.id.take().expect("what has ended had begun");
                (runner, machine.finish(id, end.verdict, end.outcome, &mut effects))
            }
            (Some(runner), None) => {
                if std::mem::take(&mut self.is_rate_waiter) {
                    machine.runners.end_rate_wait(runner);
                    machine.rate_clears(&mut effects);
                }
                if !machine.runners.arrive(runner) {
                    machine.runners.register(runner, context.waker());
                    return Next::Wait;
                }
                (runner, None)
            }
            (None, _) => {
                let (runner, bell) = machine.runners.enroll();
                self.bell = bell;
                (*self.runner.insert(runner), None)
            }
        };
        let mut taken = machine.take(runner, &mut self.timeout, &mut effects);
        match &taken {
            Ok(_) | Err(Pause::Leave) => {}
            Err(Pause::Again) => machine.runners.step_back(runner),
            Err(Pause::Later(_)) => machine.runners.wait_for_rate(runner, context.waker()),
            Err(Pause::Park) => {
                if !machine.runners.park(runner, context.waker()) {
                    taken = Err(Pause::Leave);
                }
            }
        }
        drop(machine);
        self.steps_aside = effects.has_called;
        self.shared.carry_out(effects);
        drop_outcome(unwanted);
        match taken {
            Ok(start) => self.begin(start),
            Err(pause) => self.pause(&pause, context),
        }
    }

    #[inline]
    fn begin(&mut self, start: Start<W>) -> Next<W> {
        self.id = Some(start.id);
        self.has_noted_start = false;
        if let Some(timeout) = self.timeout {
            self.set_timer(after(Instant::now(), timeout));
        }
        Next::Run(start.work)
    }

    fn pause(&mut self, pause: &Pause, context: &mut Context<'_>) -> Next<W> {
        self.steps_aside = false;
        match *pause {
            Pause::Later(time) => {
                self.is_rate_waiter = true;
                self.set_timer(time);
                if self.poll_timer(context).is_ready() {
                    context.waker().wake_by_ref();
                }
                Next::Wait
            }
            Pause::Again => {
                context.waker().wake_by_ref();
                Next::Wait
            }
            Pause::Park => Next::Wait,
            Pause::Leave => {
                self.leave();
                Next::Leave
            }
        }
    }

    /// Runs the work a little further, and notes its end.
    #[inline]
    fn poll<R: Unit<W::Done>>(&mut self, run: Pin<&mut R>, context: &mut Context<'_>) -> Poll<()> {
        if self.bell.load(Ordering::Acquire)
            && let Some(why) = self.answer_bell()
        {
            self.end = Some(End::failed(why.into_error()));
            return Poll::Ready(());
        }
        if let Poll::Ready((verdict, done)) = run.poll(context) {
            self.end = Some(End { verdict, outcome: Ok(done) });
            return Poll::Ready(());
        }
        if let Some(timeout) = self.timeout
            && self.poll_timer(context).is_ready()
        {
            self.end = Some(End::failed(Error::TimedOut(timeout)));
            return Poll::Ready(());
        }
        self.settle_in(context);
        Poll::Pending
    }

    /// Makes sure that the queue knows how to wake this runner, and since when its work runs.
    fn settle_in(&mut self, context: &mut Context<'_>) {
        let is_known = self.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker()));
        if is_known && self.has_noted_start {
            return;
        }
        let Some(runner) = self.runner else { return };
        let mut machine = self.shared.lock();
        machine.runners.note_start(runner);
        self.has_noted_start = true;
        if !is_known {
            machine.runners.register(runner, context.waker());
            self.waker = Some(context.waker().clone());
        }
        if machine.runners.stop(runner).is_some() {
            // It may have been told so before it could be woken.
            context.waker().wake_by_ref();
        }
    }

    /// The bell was rung: why the work that runs now has to stop, if it is meant.
    fn answer_bell(&mut self) -> Option<Why> {
        self.bell.store(false, Ordering::Release);
        let runner = self.runner?;
        self.shared.lock().runners.stop(runner)
    }

    /// Reports what has ended, without asking for more.
    fn report(&mut self) {
        if let (Some(id), Some(end)) = (self.id.take(), self.end.take()) {
            let outcome = end.outcome;
            let unwanted =
                self.shared.act(|machine, effects| machine.finish(id, end.verdict, outcome, effects));
            drop_outcome(unwanted);
        }
    }

    /// Reports what has ended, and that this runner will come back, so that no other is called in its place.
    fn let_others_go_first(&mut self) {
        if let (Some(runner), Some(id), Some(end)) = (self.runner, self.id.take(), self.end.take()) {
            let outcome = end.outcome;
            let unwanted = self.shared.act(|machine, effects| {
                machine.runners.step_back(runner);
                machine.finish(id, end.verdict, outcome, effects)
            });
            drop_outcome(unwanted);
        }
    }

    fn set_timer(&mut self, time: Instant) {
        match &mut self.timer {
            Some(timer) => timer.as_mut().reset(time),
            None => self.timer = Some(Box::pin(sleep_until(time))),
        }
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.timer.as_mut().map_or(Poll::Pending, |timer| timer.as_mut().poll(context))
    }

    /// Whether this runner still waits for the rate, and was not called.
    fn waits_for_rate(&self, context: &mut Context<'_>) -> bool {
        let Some(runner) = self.runner else { return false };
        self.shared.lock().runners.still_waits_for_rate(runner, context.waker())
    }

    fn leave(&mut self) {
        self.has_left = true;
        if let Some(runner) = self.runner.take() {
            self.shared.lock().runners.leave(runner);
        }
    }
}

impl<W: Work> Drop for Station<W> {
    /// A runner that is dropped did not leave: its runtime has ended, or its driver was dropped. What waits
    /// will not run, so no caller may go on waiting for it.
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        self.end.get_or_insert_with(|| End::failed(Error::Closed));
        self.report();
        match self.runner {
            Some(_) => self.leave(),
            None => self.shared.lock().runners.never_came(),
        }
        self.shared.end();
    }
}
