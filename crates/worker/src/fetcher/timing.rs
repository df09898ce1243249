//! When the fetcher asks although nothing says so: polls that slow down while nothing is found, and pauses after failures.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::retries::backoff;

/// How much faster than its longest interval polling begins after something was found.
const POLL_STEPS: u32 = 4;

/// How often to poll.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pace {
    /// At this interval.
    Steady(Duration),
    /// More often after something was found, and at this interval in the end.
    Adaptive(Duration),
}

/// When to ask again although nothing says so.
#[derive(Debug)]
pub(super) struct Timing {
    state: Mutex<Times>,
}

#[derive(Debug)]
struct Times {
    /// Time to poll.
    poll: Instant,
    /// Polls in a row that found nothing.
    empty: u32,
    /// The last claim failed; not before this.
    pause: Option<Instant>,
}

impl Timing {
    pub(super) fn new(now: Instant) -> Self {
        Self { state: Mutex::new(Times { poll: now, empty: 0, pause: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, Times> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A claim was answered.
    pub(super) fn answered(&self, found: usize, pace: Pace) {
        let mut times = self.lock();
        times.pause = None;
        times.empty = if found > 0 { 0 } else { times.empty.saturating_add(1) };
        let interval = match pace {
            Pace::Steady(interval) => interval,
            Pace::Adaptive(interval) => interval / 2u32.pow(POLL_STEPS.saturating_sub(times.empty)),
        };
        // Shorter than the interval by up to a fifth, so that workers do not poll in step.
        let interval = interval.mul_f64(1.0 - fastrand::f64() / 5.0);
        times.poll = Instant::now() + interval.max(Duration::from_millis(1));
    }

    pub(super) fn failed(&self, failures: u32) {
        self.lock().pause = Some(Instant::now() + backoff(failures));
    }

    /// What the clock says now.
    pub(super) fn ask(&self, now: Instant) -> Ask {
        let times = self.lock();
        match times.pause {
            Some(pause) if now < pause => Ask::NotBefore(pause),
            Some(_over) => Ask::Now,
            None if times.poll <= now => Ask::Now,
            None => Ask::At(times.poll),
        }
    }
}

/// What the clock says about asking for jobs.
pub(super) enum Ask {
    /// Ask, whatever was found last time.
    Now,
    /// Ask if there is a reason; without one, at this instant.
    At(Instant),
    /// Do not ask before this instant.
    NotBefore(Instant),
}
