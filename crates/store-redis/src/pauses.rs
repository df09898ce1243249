//! Queues that failed lately. They are left out for a while that grows with each failure, so that nothing waits for them
//! that is about others; claims and sweeps ask here first.
//!
//! A queue may fail for some and not for others, since each reads other keys of it; so every kind of work has its own.
//!
//! A server by itself has all queues: when it is away, its connection knows and holds everybody back. So what is noted
//! there is only what is wrong with one queue; in a Cluster it is also that its node is away.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::store::SickQueue;
use windlass_core::{Name, StoreErrorKind};
use windlass_store_server::backoff;

use crate::error::{Effect, Fault, Meaning};

/// The most queues that are remembered.
const QUEUES_MAX: usize = 10_000;

/// A pause is at least this many times as long as asking took, from the second failure on: what hangs takes a small part
/// of the time only.
const TIMES_MAX: u32 = 16;

/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(15);

/// How long a queue of a Cluster may take to answer a claim, unless it is known to be slow.
const GRACE: Duration = Duration::from_millis(250);

/// It may take so many times as long as it took the last time, and no longer than this.
const GRACE_TIMES: u32 = 4;
const GRACE_MAX: Duration = Duration::from_secs(2);

/// How often jobs that this program cannot read are told of, for each queue.
const TOLD_FOR: Duration = Duration::from_secs(60);

/// The work that a queue failed at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Work {
    Claim,
    Lost,
    Sweep,
    Promote,
    Prune,
}

/// What is wrong with queues, as far as this process knows.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    failed: Mutex<HashMap<(Name, Work), Pause>>,
    /// How long queues took to answer a claim, of those that took longer than most.
    slow: Mutex<HashMap<Name, Duration>>,
    strange: Mutex<HashMap<Name, Instant>>,
}

#[derive(Debug)]
struct Pause {
    until: Instant,
    failures: u32,
    sick: SickQueue,
    /// Its server hung, so a claim asks it only after that has [answered](Pauses::is_to_probe).
    is_hung: bool,
}

impl Pauses {
    /// What is wrong with a queue that is left out now.
    pub(crate) fn of(&self, queue: &Name, work: Work) -> Option<SickQueue> {
        let failed = self.failed();
        if failed.is_empty() {
            return None;
        }
        let is_out = |pause: &&Pause| pause.is_hung || Instant::now() < pause.until;
        let pause = failed.get(&(queue.clone(), work)).filter(is_out)?;
        // It is not asked: nothing is taken there, whatever it failed by.
        Some(SickQueue { kind: StoreErrorKind::Unavailable, ..pause.sick.clone() })
    }

    /// Whether it is time to ask the server of a queue that hung whether it answers; says so to one caller only.
    pub(crate) fn is_to_probe(&self, queue: &Name) -> bool {
        let mut failed = self.failed();
        let Some(pause) = failed.get_mut(&(queue.clone(), Work::Claim)) else { return false };
        let is_due = pause.is_hung && Instant::now() >= pause.until;
        if is_due {
            // A probe may end without an answer, with the runtime that it ran on; then the next one is due after this.
            pause.until = Instant::now() + PAUSE_MAX;
        }
        is_due
    }

    /// How long a queue of a Cluster may take to answer a claim.
    pub(crate) fn grace(&self, queue: &Name) -> Duration {
        let slow = self.slow();
        let took = if slow.is_empty() { None } else { slow.get(queue) };
        took.map_or(GRACE, |took| took.saturating_mul(GRACE_TIMES).clamp(GRACE, GRACE_MAX))
    }

    /// A queue was asked and has answered, which took so long.
    pub(crate) fn answered_after(&self, queue: &Name, work: Work, took: Duration) {
        if work == Work::Claim {
            let mut slow = self.slow();
            if took.saturating_mul(GRACE_TIMES) > GRACE && slow.len() < QUEUES_MAX {
                slow.insert(queue.clone(), took);
            } else if !slow.is_empty() {
                slow.remove(queue);
            }
        }
        let mut failed = self.failed();
        if !failed.is_empty() && failed.remove(&(queue.clone(), work)).is_some() {
            tracing::info!(%queue, ?work, "a queue that was left out answers again");
        }
    }

    /// A queue was asked, which took so long, and failed. Answers what is wrong with it.
    pub(crate) fn failed_after(
        &self,
        queue: &Name,
        work: Work,
        fault: Fault,
        took: Duration,
        is_cluster: bool,
    ) -> SickQueue {
        let concerns_queue = is_cluster || is_of_one_queue(&fault);
        let sick = sick(queue, fault);
        if !concerns_queue {
            return sick;
        }
        let mut failed = self.failed();
        if failed.len() >= QUEUES_MAX {
            failed.clear();
        }
        let failures = failed.get(&(queue.clone(), work)).map_or(1, |pause| pause.failures.saturating_add(1));
        if failures == 1 {
            tracing::warn!(%queue, ?work, what = %sick.what, "a queue fails and is left out for a while; others go on");
        } else {
            tracing::debug!(%queue, ?work, what = %sick.what, failures, "a queue is left out");
        }
        let times = took.saturating_mul((1 << failures.min(8)).min(TIMES_MAX));
        let until = Instant::now() + backoff::pause(failures).max(times).min(PAUSE_MAX);
        let is_hung = is_cluster && work == Work::Claim && took >= GRACE;
        let pause = Pause { until, failures, sick: sick.clone(), is_hung };
        failed.insert((queue.clone(), work), pause);
        sick
    }

    /// A queue holds jobs that this program cannot read; says so in the log, at times.
    pub(crate) fn strange(&self, queue: &Name, jobs: i64) {
        if jobs <= 0 {
            return;
        }
        let mut told = self.strange.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= QUEUES_MAX {
            told.clear();
        }
        if told.get(queue).is_none_or(|at| at.elapsed() > TOLD_FOR) {
            told.insert(queue.clone(), Instant::now());
            tracing::warn!(%queue, jobs, "jobs are stored in a form that this program does not know, and are left alone");
        }
    }

    fn slow(&self) -> MutexGuard<'_, HashMap<Name, Duration>> {
        self.slow.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, HashMap<(Name, Work), Pause>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong, in one text.
pub(crate) fn sick(queue: &Name, fault: Fault) -> SickQueue {
    if let Fault::Sick(sick) = fault {
        return sick;
    }
    let error = fault.into_error(Effect::Write);
    let (kind, mut what) = (error.kind(), error.to_string());
    if let Some(cause) = error.source() {
        what = format!("{what}: {cause}");
    }
    SickQueue { queue: queue.clone(), what, kind }
}

/// Whether a server said it about this queue's keys, and not about itself.
fn is_of_one_queue(fault: &Fault) -> bool {
    match fault {
        Fault::Corrupt(_) | Fault::Defect(_) => true,
        Fault::Partial(rest) => is_of_one_queue(rest),
        Fault::Server(error) => matches!(error.meaning, Meaning::Corrupt(_) | Meaning::Defect),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Unreachable, said};

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    fn wrong() -> Fault {
        said("WRONGTYPE", "Operation against a key holding the wrong kind of value").into()
    }

    #[test]
    fn what_is_wrong_with_one_queue_pauses_that_one() {
        let pauses = Pauses::default();
        let sick = pauses.failed_after(&name("bad"), Work::Claim, wrong(), Duration::ZERO, false);
        assert_eq!((sick.kind, sick.queue), (StoreErrorKind::Fatal, name("bad")));
        assert!(pauses.of(&name("bad"), Work::Claim).is_some_and(|sick| sick.what.contains("WRONGTYPE")));
        assert!(
            pauses.of(&name("good"), Work::Claim).is_none() && pauses.of(&name("bad"), Work::Lost).is_none()
        );
        pauses.answered_after(&name("bad"), Work::Claim, Duration::ZERO);
        assert!(pauses.of(&name("bad"), Work::Claim).is_none());
    }

    #[test]
    fn a_server_that_is_away_pauses_queues_only_where_others_have_another() {
        let (pauses, queue) = (Pauses::default(), name("q"));
        let away = || Fault::from(Unreachable::passing("gone"));
        assert_eq!(
            pauses.failed_after(&queue, Work::Claim, away(), Duration::ZERO, false).kind,
            StoreErrorKind::Unavailable
        );
        assert!(pauses.of(&queue, Work::Claim).is_none());
        pauses.failed_after(&queue, Work::Claim, away(), Duration::ZERO, true);
        assert!(pauses.of(&queue, Work::Claim).is_some());
    }

    #[test]
    fn what_hangs_is_asked_seldom_and_took_nothing_while_it_is_not() {
        let (pauses, queue, took) = (Pauses::default(), name("q"), Duration::from_secs(1));
        for failures in 1..=6 {
            let before = Instant::now();
            let sick = pauses.failed_after(&queue, Work::Claim, Fault::Timeout(took), took, true);
            assert_eq!(sick.kind, StoreErrorKind::Unknown, "it may have taken effect");
            let pause = pauses.failed()[&(queue.clone(), Work::Claim)].until.duration_since(before);
            let least = took * [2, 4, 8, 15][(failures - 1).min(3)];
            assert!(pause >= least && pause <= PAUSE_MAX + took, "{pause:?} after {failures} failures");
            assert_eq!(pauses.of(&queue, Work::Claim).unwrap().kind, StoreErrorKind::Unavailable);
        }
    }

    #[test]
    fn what_hung_is_asked_for_jobs_only_when_its_server_answers() {
        let (pauses, queue, took) = (Pauses::default(), name("q"), GRACE);
        let is_over = || pauses.failed().values_mut().for_each(|pause| pause.until = Instant::now());
        pauses.failed_after(&queue, Work::Claim, Fault::Timeout(took), took, true);
        assert!(!pauses.is_to_probe(&queue), "not while it is left out");
        for _ in 0..2 {
            is_over();
            assert!(pauses.of(&queue, Work::Claim).is_some(), "claims leave it out");
            assert!(pauses.is_to_probe(&queue) && !pauses.is_to_probe(&queue), "by one at a time");
            pauses.failed_after(&queue, Work::Claim, Fault::Timeout(took), took, true);
        }
        is_over();
        assert!(pauses.is_to_probe(&queue), "this one ends without an answer");
        is_over();
        assert!(pauses.is_to_probe(&queue), "so there is another");
        pauses.answered_after(&queue, Work::Claim, took);
        assert!(pauses.of(&queue, Work::Claim).is_none());
        // What failed at once holds up no claim.
        pauses.failed_after(&queue, Work::Claim, wrong(), Duration::ZERO, true);
        is_over();
        assert!(pauses.of(&queue, Work::Claim).is_none() && !pauses.is_to_probe(&queue));
    }

    #[test]
    fn what_is_slow_gets_the_time_that_it_needs() {
        let (pauses, queue) = (Pauses::default(), name("q"));
        assert_eq!(pauses.grace(&queue), GRACE);
        for (took, grace) in [(200, 800), (10, 250), (1_500, 2_000)] {
            pauses.answered_after(&queue, Work::Claim, Duration::from_millis(took));
            assert_eq!(pauses.grace(&queue), Duration::from_millis(grace), "{took}");
        }
        pauses.answered_after(&queue, Work::Lost, Duration::ZERO);
        assert_eq!(pauses.grace(&queue), GRACE_MAX);
    }
}
