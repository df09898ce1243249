//! Where claims begin to look.
//!
//! A job leaves an index when it is claimed, promoted or dead, and its place there is cleared soon after, unless a session
//! holds an old snapshot (a long report, a forgotten transaction, a replica that asks for it). Then the index begins with
//! ever more dead places, and a look from its beginning takes ever longer. So a claim tells how many places it
//! looked at. When these were far more than the jobs it took, the next ones begin where this one ended: jobs that
//! come later are due, and expire, later. What comes further ahead after all (a job that was put back, a commit that
//! took long) is found by the look from the beginning that is still taken every few seconds.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::Name;
use windlass_core::clock::Timestamp;
use windlass_core::job::ClaimedJob;
use windlass_core::store::ClaimRequest;

/// So many places without a job are looked at in a moment.
const DEAD_MAX: i64 = 5_000;
/// How much later a job may be stored than it is due and still be found from the floor.
const LAG: Duration = Duration::from_millis(100);
/// How long floors are used between two looks from the beginning: many times what such a look takes.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
const PAUSE_FACTOR: u32 = 20;
/// Priorities that are in use at once, at most; with more of them the floor is not worth its upkeep.
const LEVELS_MAX: usize = 16;
/// How long a priority is remembered that nothing is taken from.
const LEVEL_MEMORY: Duration = Duration::from_secs(60);
/// Lines that are remembered.
const LINES_MAX: usize = 1_000;
/// How soon to claim again when other calls had locked what could have been taken: most claims end within that. Doubled
/// with each such answer, for a lock can also be held for long.
const LOCKED_PAUSE: Duration = Duration::from_millis(2);
const LOCKED_DOUBLINGS_MAX: u32 = 7;
/// From the beginning of an index by instants.
const BEGINNING: i64 = i64::MIN;

/// The floors of the lines that this process claims from.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    lines: Mutex<HashMap<(Name, u64), Line>>,
}

/// The line of one queue for one set of kinds.
#[derive(Debug, Default)]
struct Line {
    levels: HashMap<i16, Level>,
    /// Until when to begin at the floor.
    until: Option<Instant>,
    /// Looks from the beginning, one after the other, that met far more places than jobs. The first of them clears the
    /// dead places, unless they cannot be cleared.
    slow_looks: u32,
    /// Up to when all due and expired jobs were moved.
    moved_to: Option<Timestamp>,
    /// Claims, one after the other, that met jobs which other calls had locked.
    locked_looks: u32,
}

/// How far jobs of one priority were taken.
#[derive(Debug)]
struct Level {
    due_at: Timestamp,
    taken_from: Instant,
}

/// The floors for one claim, as columns.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) queues: Vec<i64>,
    pub(super) priorities: Vec<i64>,
    pub(super) dues: Vec<i64>,
    /// For each queue of the claim, from which instant on to look for expired and for due jobs.
    pub(super) moved_to: Vec<i64>,
}

impl Beginning {
    fn is_floor(&self, place: usize) -> bool {
        self.queues.contains(&(place as i64 + 1))
            || self.moved_to.get(place).is_some_and(|from| *from != BEGINNING)
    }
}

/// What a claim has met.
#[derive(Debug, Clone, Copy)]
pub(super) struct Met {
    /// How many places of indexes it looked at, and how long that took.
    pub(super) looked_at: i64,
    pub(super) took: Duration,
    /// Up to when all due and expired jobs were moved, unless there were more than one claim moves.
    pub(super) moved_to: Option<Timestamp>,
    /// Whether other calls had locked jobs that it could have taken.
    pub(super) is_locked: bool,
}

impl Floors {
    /// Where this claim begins to look.
    pub(super) fn beginning(&self, request: &ClaimRequest) -> Beginning {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (kinds, now) = (digest(&request.kinds), Instant::now());
        let mut beginning = Beginning::default();
        for (place, share) in request.queues.iter().enumerate() {
            beginning.moved_to.push(BEGINNING);
            let Some(line) = lines.get(&(share.queue.clone(), kinds)) else { continue };
            if line.until.is_none_or(|until| until <= now) || line.levels.len() > LEVELS_MAX {
                continue;
            }
            if let Some(moved_to) = line.moved_to {
                beginning.moved_to[place] = moved_to.minus(LAG).as_micros();
            }
            let mut levels: Vec<_> = line.levels.iter().collect();
            levels.sort_unstable_by_key(|(priority, _)| Reverse(**priority));
            for (priority, level) in levels {
                beginning.queues.push(place as i64 + 1);
                beginning.priorities.push((*priority).into());
                beginning.dues.push(level.due_at.minus(LAG).as_micros());
            }
        }
        beginning
    }

    /// Learns from a claim that began so, what it took and what it met. Answers how soon to claim again because other calls
    /// had locked jobs, if so.
    pub(super) fn learn(
        &self,
        request: &ClaimRequest,
        beginning: &Beginning,
        taken: &[ClaimedJob],
        met: Met,
    ) -> Option<Duration> {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() > LINES_MAX {
            lines.clear();
        }
        // Several kinds are looked at side by side, and a little further than the claim goes; see jobs/claim/choose.
        let fair = 8 * (i64::from(request.limit) + request.kinds.len() as i64);
        let is_slow = met.looked_at > fair.saturating_add(DEAD_MAX);
        let kinds = digest(&request.kinds);
        let mut again = None;
        for (place, share) in request.queues.iter().enumerate() {
            let line = lines.entry((share.queue.clone(), kinds)).or_default();
            let has_overlooked =
                line.take(taken.iter().filter(|job| job.queue == share.queue && job.key.is_none()));
            line.moved_to = line.moved_to.max(met.moved_to);
            let pause = LOCKED_PAUSE * (1 << line.locked_looks.min(LOCKED_DOUBLINGS_MAX));
            again = again.max(met.is_locked.then_some(pause));
            line.locked_looks = if met.is_locked { line.locked_looks.saturating_add(1) } else { 0 };
            if !beginning.is_floor(place) {
                line.slow_looks = if is_slow { line.slow_looks + 1 } else { 0 };
                let pause = (met.took * PAUSE_FACTOR).clamp(PAUSE.0, PAUSE.1);
                // As long as there is something below the floor, no claim begins above it.
                let is_worth_it = line.slow_looks > 1 && !has_overlooked;
                line.until = is_worth_it.then(|| Instant::now() + pause);
            } else if has_overlooked {
                // It moved due jobs, and so began below. What it did not take of them lies there.
                line.until = None;
            }
        }
        again
    }
}

impl Line {
    /// Notes what was taken. Answers whether any of it lay below the floor.
    fn take<'j>(&mut self, jobs: impl Iterator<Item = &'j ClaimedJob>) -> bool {
        let now = Instant::now();
        let mut has_overlooked = false;
        let before: HashMap<i16, Timestamp> =
            self.levels.iter().map(|(priority, level)| (*priority, level.due_at.minus(LAG))).collect();
        for job in jobs {
            has_overlooked |= before.get(&job.priority).is_some_and(|floor| job.due_at < *floor);
            let level = Level { due_at: job.due_at, taken_from: now };
            let level = self.levels.entry(job.priority).or_insert(level);
            level.due_at = level.due_at.max(job.due_at);
            level.taken_from = now;
        }
        if self.levels.len() > LEVELS_MAX {
            self.levels.retain(|_, level| now.duration_since(level.taken_from) < LEVEL_MEMORY);
        }
        has_overlooked
    }
}

fn digest(kinds: &[Name]) -> u64 {
    let mut sorted: Vec<_> = kinds.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let mut hasher = DefaultHasher::new();
    sorted.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use windlass_core::store::QueueShare;
    use windlass_core::{Fence, LeaseId, NewJob, Options};

    use super::*;

    fn request() -> ClaimRequest {
        let name = |text| Name::new(text).unwrap();
        let queues = vec![QueueShare { queue: name("q"), limit: 10 }];
        ClaimRequest {
            lease: LeaseId::new(),
            nonce: windlass_core::Fence::nonce(),
            queues,
            kinds: vec![name("k")],
            limit: 10,
            at_once: 10,
            bytes: 1 << 20,
        }
    }

    fn job(priority: i16, due_at: i64) -> ClaimedJob {
        let NewJob { id, queue: _, kind, payload, spec, tags, .. } =
            NewJob::new("k", "", Options::new()).unwrap();
        let time = Timestamp::from_micros(due_at);
        let facts = windlass_core::job::Facts { counters: Default::default(), spec };
        let (queue, caps) = (Name::new("q").unwrap(), Default::default());
        let fence = Fence { number: 1, nonce: 1 };
        ClaimedJob {
            id,
            queue,
            kind,
            payload,
            priority,
            key: None,
            fence,
            facts,
            caps,
            tags,
            enqueued_at: time,
            due_at: time,
            claimed_at: time,
        }
    }

    fn met(looked_at: i64) -> Met {
        Met { looked_at, took: Duration::from_millis(1), moved_to: None, is_locked: false }
    }

    #[test]
    fn a_claim_begins_at_the_floor_only_after_a_slow_look() {
        let (floors, request) = (Floors::default(), request());
        let jobs = [job(0, 5_000_000), job(7, 3_000_000), job(0, 9_000_000)];
        let beginning = floors.beginning(&request);
        floors.learn(&request, &beginning, &jobs, met(30));
        assert!(floors.beginning(&request).queues.is_empty(), "nothing was slow");
        floors.learn(&request, &beginning, &[], met(DEAD_MAX + 100));
        assert!(floors.beginning(&request).queues.is_empty(), "one slow look may have cleared the line");
        floors.learn(&request, &beginning, &[], met(DEAD_MAX + 100));
        let beginning = floors.beginning(&request);
        assert_eq!(beginning.queues, [1, 1]);
        assert_eq!(beginning.priorities, [7, 0], "the highest first");
        assert_eq!(beginning.dues, [2_900_000, 8_900_000]);
        // What a claim from the floor looks at says nothing about a look from the beginning.
        floors.learn(&request, &beginning, &[], met(0));
        assert_eq!(floors.beginning(&request).queues, [1, 1]);
    }

    #[test]
    fn lines_of_other_kinds_are_apart() {
        let (floors, request) = (Floors::default(), request());
        for _ in 0..2 {
            floors.learn(&request, &Beginning::default(), &[job(0, 1)], met(10_000));
        }
        let other = ClaimRequest { kinds: vec![Name::new("other").unwrap()], ..request.clone() };
        assert!(floors.beginning(&other).queues.is_empty());
        assert_eq!(floors.beginning(&request).queues, [1]);
    }

    #[test]
    fn nobody_begins_above_jobs_that_were_overlooked() {
        let (floors, request) = (Floors::default(), request());
        for due_at in [9_000_000, 9_000_001, 1_000_000] {
            floors.learn(&request, &Beginning::default(), &[job(0, due_at)], met(10_000));
        }
        assert!(floors.beginning(&request).queues.is_empty(), "the last one lay below the floor");
        floors.learn(&request, &Beginning::default(), &[job(0, 9_500_000)], met(10_000));
        assert_eq!(floors.beginning(&request).queues, [1]);
    }

    #[test]
    fn due_jobs_are_looked_for_from_where_all_were_moved() {
        let (floors, request) = (Floors::default(), request());
        let at = |micros| Met { moved_to: Some(Timestamp::from_micros(micros)), ..met(DEAD_MAX + 1_000) };
        assert_eq!(floors.beginning(&request).moved_to, [BEGINNING]);
        for looked in [at(8_000_000), at(9_000_000), met(0)] {
            assert_eq!(floors.learn(&request, &Beginning::default(), &[], looked), None);
        }
        assert_eq!(floors.beginning(&request).moved_to, [BEGINNING], "the last look was not slow");
        for looked in [at(9_500_000), met(DEAD_MAX + 1_000)] {
            floors.learn(&request, &Beginning::default(), &[], looked);
        }
        let beginning = floors.beginning(&request);
        assert_eq!(beginning.moved_to, [9_400_000]);
        floors.learn(&request, &beginning, &[], at(9_900_000));
        assert_eq!(floors.beginning(&request).moved_to, [9_800_000], "it moves on");
    }

    #[test]
    fn what_was_locked_is_looked_for_again_soon_and_then_less_often() {
        let (floors, request) = (Floors::default(), request());
        let locked = Met { is_locked: true, ..met(0) };
        let ask = |met| floors.learn(&request, &Beginning::default(), &[], met);
        let pauses: Vec<_> = (0..9).map(|_| ask(locked).unwrap().as_millis()).collect();
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 256]);
        assert_eq!((ask(met(0)), ask(locked)), (None, Some(LOCKED_PAUSE)));
    }
}
