//! Where claims begin to look.
//!
//! A job leaves the line when it is claimed, and its place in the index is cleared soon after, unless somebody holds
//! an old snapshot (a long report, a forgotten transaction, a replica that asks for it). Then the line begins with
//! ever more dead places, and a look from its beginning takes ever longer. So a claim tells how many places it
//! looked at. When these were far more than the jobs it took, the next ones begin where this one ended: jobs that
//! come later are due later. What comes into the line further ahead after all (a job that was put back, a commit that
//! took long) is found by the look from the beginning that is still taken every few seconds.

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
/// Lines that are remembered.
const LINES_MAX: usize = 1_000;

/// The floors of the lines that this process claims from.
#[derive(Debug, Default)]
pub(crate) struct Floors {
    lines: Mutex<HashMap<(Name, u64), Line>>,
}

/// The line of one queue for one set of kinds.
#[derive(Debug, Default)]
struct Line {
    /// By priority, the due instant up to which jobs were taken.
    levels: HashMap<i16, Timestamp>,
    /// Until when to begin at the floor.
    until: Option<Instant>,
}

/// The floors for one claim, as columns.
#[derive(Debug, Default)]
pub(super) struct Beginning {
    pub(super) queues: Vec<i64>,
    pub(super) priorities: Vec<i64>,
    pub(super) dues: Vec<i64>,
}

impl Beginning {
    fn is_floor(&self, place: usize) -> bool {
        self.queues.contains(&(place as i64 + 1))
    }
}

impl Floors {
    /// Where this claim begins to look.
    pub(super) fn beginning(&self, request: &ClaimRequest) -> Beginning {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let (kinds, now) = (digest(&request.kinds), Instant::now());
        let mut beginning = Beginning::default();
        for (place, share) in request.queues.iter().enumerate() {
            let Some(line) = lines.get(&(share.queue.clone(), kinds)) else { continue };
            if line.until.is_none_or(|until| until <= now) || line.levels.len() > LEVELS_MAX {
                continue;
            }
            let mut levels: Vec<_> = line.levels.iter().collect();
            levels.sort_unstable_by(|one, other| other.cmp(one));
            for (priority, due_at) in levels {
                beginning.queues.push(place as i64 + 1);
                beginning.priorities.push((*priority).into());
                beginning.dues.push(due_at.minus(LAG).as_micros());
            }
        }
        beginning
    }

    /// Learns from a claim that began so, what it took, how many places it looked at, and how long that took.
    pub(super) fn learn(
        &self,
        request: &ClaimRequest,
        beginning: &Beginning,
        taken: &[ClaimedJob],
        looked_at: i64,
        took: Duration,
    ) {
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() > LINES_MAX {
            lines.clear();
        }
        // Several kinds are looked at side by side, each as far as the claim might go.
        let fair = i64::from(request.limit).saturating_mul(request.kinds.len() as i64);
        let is_slow = looked_at > fair.saturating_add(DEAD_MAX);
        let kinds = digest(&request.kinds);
        for (place, share) in request.queues.iter().enumerate() {
            let line = lines.entry((share.queue.clone(), kinds)).or_default();
            for job in taken.iter().filter(|job| job.queue == share.queue) {
                let level = line.levels.entry(job.priority).or_insert(job.due_at);
                *level = job.due_at.max(*level);
            }
            if !beginning.is_floor(place) {
                let pause = (took * PAUSE_FACTOR).clamp(PAUSE.0, PAUSE.1);
                line.until = is_slow.then(|| Instant::now() + pause);
            }
        }
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
        ClaimRequest { lease: LeaseId::new(), queues, kinds: vec![name("k")], limit: 10, bytes: 1 << 20 }
    }

    fn job(priority: i16, due_at: i64) -> ClaimedJob {
        let NewJob { id, queue: _, kind, payload, retry, timeout, stalls_max, tags, .. } =
            NewJob::new("k", "", Options::new()).unwrap();
        let time = Timestamp::from_micros(due_at);
        let facts = windlass_core::job::Facts { counters: Default::default(), retry, stalls_max };
        let (queue, caps) = (Name::new("q").unwrap(), Default::default());
        let fence = Fence { number: 1, nonce: 1 };
        ClaimedJob {
            id,
            queue,
            kind,
            payload,
            priority,
            fence,
            facts,
            timeout,
            caps,
            tags,
            enqueued_at: time,
            due_at: time,
            claimed_at: time,
        }
    }

    #[test]
    fn a_claim_begins_at_the_floor_only_after_a_slow_look() {
        let (floors, request) = (Floors::default(), request());
        let jobs = [job(0, 5_000_000), job(7, 3_000_000), job(0, 9_000_000)];
        let beginning = floors.beginning(&request);
        floors.learn(&request, &beginning, &jobs, 30, Duration::from_millis(1));
        assert!(floors.beginning(&request).queues.is_empty(), "nothing was slow");
        floors.learn(&request, &beginning, &[], DEAD_MAX + 11, Duration::from_millis(1));
        let beginning = floors.beginning(&request);
        assert_eq!(beginning.queues, [1, 1]);
        assert_eq!(beginning.priorities, [7, 0], "the highest first");
        assert_eq!(beginning.dues, [2_900_000, 8_900_000]);
        // What a claim from the floor looks at says nothing about a look from the beginning.
        floors.learn(&request, &beginning, &[], 0, Duration::from_millis(1));
        assert_eq!(floors.beginning(&request).queues, [1, 1]);
    }

    #[test]
    fn lines_of_other_kinds_are_apart() {
        let (floors, request) = (Floors::default(), request());
        floors.learn(&request, &Beginning::default(), &[job(0, 1)], 10_000, Duration::ZERO);
        let other = ClaimRequest { kinds: vec![Name::new("other").unwrap()], ..request.clone() };
        assert!(floors.beginning(&other).queues.is_empty());
        assert_eq!(floors.beginning(&request).queues, [1]);
    }
}
