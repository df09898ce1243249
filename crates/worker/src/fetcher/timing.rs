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
    /// When all queues were last asked.
    all: Instant,
    /// Polls in a row that found nothing.
    empty: u32,
    /// The last claim failed; not before this.
    pause: Option<Instant>,
}

impl Timing {
    pub(super) fn new(now: Instant) -> Self {
        Self { state: Mutex::new(Times { poll: now, all: now, empty: 0, pause: None }) }
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

    /// Whether all queues are to be asked: it is time to poll, or wake-ups about some of them have kept this worker from
    /// asking the others for an interval. Then the next interval begins.
    pub(super) fn polls_all(&self, ask: &Ask, now: Instant, interval: Duration) -> bool {
        let mut times = self.lock();
        let is_due = match ask {
            Ask::Now => true,
            Ask::At(_) => now.saturating_duration_since(times.all) >= interval,
            Ask::NotBefore(_) => false,
        };
        if is_due {
            times.all = now;
        }
        is_due
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_queues_are_asked_within_an_interval_however_busy_one_is() {
        const INTERVAL: Duration = Duration::from_secs(2);
        let start = Instant::now();
        let timing = Timing::new(start);
        let mut polls = 0;
        // A claim is answered every 10 ms, and puts the time of the next poll off.
        for step in 1..=1_000 {
            let now = start + Duration::from_millis(step * 10);
            timing.answered(1, Pace::Steady(INTERVAL));
            polls += u32::from(timing.polls_all(&Ask::At(now + INTERVAL), now, INTERVAL));
        }
        assert_eq!(polls, 5, "once in each of five intervals");
        assert!(
            !timing.polls_all(&Ask::NotBefore(start), start + 2 * INTERVAL * 10, INTERVAL),
            "it may not ask"
        );
    }
}
