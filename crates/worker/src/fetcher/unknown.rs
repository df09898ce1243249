//! Warns about ready jobs whose kind this worker has no handler for, in queues that it serves.
//!
//! Such jobs wait without a trace otherwise. It is looked rarely, only after a claim that brought nothing from a queue, and
//! ever more rarely while nothing is found: an idle worker makes no call for it that it can do without.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use windlass_core::store::{Filter, StoreResult};
use windlass_core::{Name, State, Store};

/// How often it is looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Config {
    /// How long after the start.
    pub(crate) first: Duration,
    /// How long after a look at least; up to [`STRETCH_MAX`] times as long while the worker has nothing to do.
    pub(crate) interval: Duration,
    /// How long a job has been ready that no worker seems to take.
    pub(crate) age: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(5),
            interval: Duration::from_secs(60),
            age: Duration::from_secs(30),
        }
    }
}

/// How much longer the interval grows.
const STRETCH_MAX: u32 = 16;
/// Queues that one look is about.
const QUEUES_MAX: usize = 10;
/// Jobs that are looked at in a queue.
const JOBS_MAX: u32 = 100;
/// Kinds that are warned about at most.
const KINDS_MAX: usize = 100;

/// Looks for jobs of unknown kinds, and says so once per kind.
#[derive(Debug)]
pub(super) struct UnknownKinds {
    config: Config,
    state: Mutex<Looking>,
}

#[derive(Debug)]
struct Looking {
    /// Not before this.
    next: Instant,
    /// How often the interval was doubled.
    doubled: u32,
    /// Where the next look begins among the queues.
    turn: usize,
    warned: HashSet<Name>,
}

impl UnknownKinds {
    pub(super) fn new(config: Config, now: Instant) -> Self {
        let next = now.checked_add(config.first).unwrap_or(now);
        Self { config, state: Mutex::new(Looking { next, doubled: 0, turn: 0, warned: HashSet::new() }) }
    }

    fn lock(&self) -> MutexGuard<'_, Looking> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Jobs were claimed: what is looked for may have come as well.
    pub(super) fn found_jobs(&self) {
        self.lock().doubled = 0;
    }

    /// Of queues that gave nothing, those to look at now: mostly none, because it is not time.
    pub(super) fn take_due(&self, now: Instant, empty: impl FnOnce() -> Vec<Name>) -> Vec<Name> {
        let mut looking = self.lock();
        if now < looking.next || looking.warned.len() >= KINDS_MAX {
            return Vec::new();
        }
        let mut queues = empty();
        if queues.is_empty() {
            return queues;
        }
        let pause =
            self.config.interval.saturating_mul(2u32.saturating_pow(looking.doubled).min(STRETCH_MAX));
        looking.next = now.checked_add(pause).unwrap_or(now);
        looking.doubled = looking.doubled.saturating_add(1);
        let first = looking.turn % queues.len();
        queues.rotate_left(first);
        queues.truncate(QUEUES_MAX);
        looking.turn = first + queues.len();
        queues
    }

    /// Looks into a queue, and warns about each kind that is not among these. What it counts is asked first, which is cheap.
    pub(super) async fn look(&self, store: &dyn Store, queue: Name, kinds: &[Name]) -> StoreResult<()> {
        let record = store.queue(&queue).await?;
        if record.is_none_or(|record| record.counts.of(State::Ready) == 0) {
            return Ok(());
        }
        let filter = Filter { queue: Some(queue.clone()), state: Some(State::Ready), ..Filter::default() };
        let page = store.list(&filter, None, JOBS_MAX).await?;
        let mut unknown = page.jobs;
        unknown.retain(|job| !kinds.contains(&job.kind) && !job.kind.is_internal());
        if unknown.is_empty() {
            return Ok(());
        }
        // Others may have handlers for them, and take them in a moment.
        let now = store.now().await?;
        for job in unknown.iter().filter(|job| now.since(job.due_at) >= self.config.age) {
            let is_new = self.lock().warned.insert(job.kind.clone());
            if is_new {
                let kind = &job.kind;
                tracing::warn!(
                    job.kind = %kind, job.queue = %queue, job.id = %job.id,
                    "ready jobs of kind `{kind}` wait in queue `{queue}`, which this worker serves without a handler for them: give it one with `handle`, or see that a worker runs which has one"
                );
            }
        }
        Ok(())
    }

    /// The kinds that were warned about.
    #[cfg(test)]
    pub(crate) fn warned(&self) -> Vec<Name> {
        self.lock().warned.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queues(count: usize) -> Vec<Name> {
        (0..count).map(|number| Name::new(format!("q{number:02}")).unwrap()).collect()
    }

    #[test]
    fn it_is_looked_rarely_and_ever_more_rarely_while_idle() {
        let (start, config) = (Instant::now(), Config::default());
        let unknown = UnknownKinds::new(config, start);
        let looks = |from: u64, to: u64| {
            let due = |second: &u64| {
                !unknown.take_due(start + Duration::from_secs(*second), || queues(1)).is_empty()
            };
            (from..to).filter(due).collect::<Vec<_>>()
        };
        assert!(looks(0, 5).is_empty(), "not at the start");
        assert_eq!(looks(5, 3_000), [5, 65, 185, 425, 905, 1_865, 2_825]);
        unknown.found_jobs();
        assert_eq!(looks(3_000, 3_900), [3_785, 3_845], "each minute after there was work");
    }

    #[test]
    fn a_look_is_about_a_few_queues_and_all_have_their_turn() {
        let start = Instant::now();
        let config = Config { first: Duration::ZERO, interval: Duration::ZERO, ..Config::default() };
        let unknown = UnknownKinds::new(config, start);
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let look = unknown.take_due(start, || queues(25));
            assert_eq!(look.len(), QUEUES_MAX);
            seen.extend(look);
        }
        assert_eq!(seen.len(), 25);
        assert!(unknown.take_due(start, Vec::new).is_empty());
    }
}
