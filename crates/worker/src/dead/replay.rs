//! Sends dead jobs back, at a rate, until too many of them die again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use tokio::time::Instant;
use windlass_core::clock::Timestamp;
use windlass_core::store::{Amended, Seen};
use windlass_core::{JobId, JobRecord, State};

use super::{DeadLetters, PAGE};
use crate::client::Client;
use crate::error::Result;

/// Jobs that one store call sends back.
const CALL_MAX: usize = 100;
/// Jobs sent back that are looked at again, the newest.
const WATCHED_MAX: usize = 1_000;
/// How often they are looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

/// Dead jobs on their way back: say more about it, then [`run`](Replay::run) it.
///
/// Each job keeps its id and its history, and has all its attempts again. Only jobs that had died before the replay began are
/// sent back. So one that dies again is not sent back again, and a replay that was cut short is gone on with by the same call
/// with [`begun_at`](Replay::begun_at).
#[derive(Debug, Clone)]
#[must_use = "nothing is sent back before it runs"]
pub struct Replay {
    letters: DeadLetters,
    rate: Option<u32>,
    stop_after: Option<u64>,
    most: u64,
    stop: Arc<AtomicBool>,
}

/// What a replay has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ReplaySummary {
    /// Only what had died before this instant was sent back: when it began, by the store's clock, or what its filter says.
    pub began: Timestamp,
    /// Jobs that were sent back.
    pub replayed: u64,
    /// Jobs that were not, because another job has their unique key or they were gone.
    pub left: u64,
    /// Of the newest that were sent back, how many have died again so far.
    pub died_again: u64,
    /// Dead jobs that were looked at.
    pub looked: u64,
    /// Whether it stopped because too many died again.
    pub is_stopped: bool,
    /// Whether it stopped because it was [asked to](Replay::stop_on), with jobs that it had not come to.
    pub is_interrupted: bool,
}

impl DeadLetters {
    /// Sends those that match back.
    pub fn replay(&self) -> Replay {
        let (letters, stop) = (self.clone(), Arc::default());
        Replay { letters, rate: None, stop_after: None, most: u64::MAX, stop }
    }
}

impl Replay {
    /// At most so many a second.
    pub fn rate(mut self, jobs: u32) -> Self {
        self.rate = Some(jobs.max(1));
        self
    }

    /// Stops when so many of those that were sent back have died again, at least one.
    pub fn stop_after(mut self, deaths: u64) -> Self {
        self.stop_after = Some(deaths.max(1));
        self
    }

    /// Sends back so many at most.
    pub fn most(mut self, jobs: u64) -> Self {
        self.most = jobs;
        self
    }

    /// Stops before the next step once this is true: what was sent back until then is counted in the summary, and nothing is
    /// sent back after it.
    pub fn stop_on(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = stop;
        self
    }

    /// Goes on with a replay that began at this instant: what has died since is not sent back.
    pub fn begun_at(mut self, instant: impl Into<SystemTime>) -> Self {
        self.letters.filter = self.letters.filter.not_after(Timestamp::from(instant.into()));
        self
    }

    /// Sends them back.
    ///
    /// # Errors
    /// The store's; what was sent back until then stays so.
    pub async fn run(self) -> Result<ReplaySummary> {
        self.run_with(|_summary| {}).await
    }

    /// As [`run`](Self::run), and says after each step how far it is.
    ///
    /// # Errors
    /// As there.
    pub async fn run_with(mut self, mut progress: impl FnMut(&ReplaySummary)) -> Result<ReplaySummary> {
        let client = self.letters.client.clone();
        let now = client.store().now().await?;
        self.letters.filter = self.letters.filter.not_after(now);
        let began = self.letters.filter.end().unwrap_or(now);
        let mut run = Run {
            client,
            rate: self.rate,
            next_at: Instant::now(),
            looked_at: Instant::now(),
            watched: VecDeque::new(),
            summary: ReplaySummary {
                began,
                replayed: 0,
                left: 0,
                died_again: 0,
                looked: 0,
                is_stopped: false,
                is_interrupted: false,
            },
        };
        let mut after = None;
        loop {
            if run.is_asked_to_stop(&self.stop) {
                return Ok(run.summary);
            }
            let page = self.letters.page(after.as_ref(), PAGE).await?;
            run.summary.looked += page.looked;
            let ids: Vec<JobId> = page.letters.iter().map(|letter| letter.job.id).collect();
            for some in ids.chunks(run.step()) {
                run.wait_turn().await;
                if run.is_asked_to_stop(&self.stop) {
                    return Ok(run.summary);
                }
                let room = usize::try_from(self.most - run.summary.replayed).unwrap_or(usize::MAX);
                run.send_back(&some[..some.len().min(room)]).await?;
                run.look(self.stop_after).await?;
                progress(&run.summary);
                if run.summary.is_stopped || run.summary.replayed >= self.most {
                    return Ok(run.summary);
                }
            }
            progress(&run.summary);
            after = page.next;
            if after.is_none() {
                return Ok(run.summary);
            }
        }
    }
}

/// A replay that goes on.
struct Run {
    client: Client,
    rate: Option<u32>,
    /// When the next jobs may be sent back.
    next_at: Instant,
    looked_at: Instant,
    watched: VecDeque<JobId>,
    summary: ReplaySummary,
}

impl Run {
    /// How many are sent back by one call: a tenth of a second's worth.
    fn step(&self) -> usize {
        self.rate.map_or(CALL_MAX, |rate| (rate as usize / 10).clamp(1, CALL_MAX))
    }

    fn is_asked_to_stop(&mut self, stop: &AtomicBool) -> bool {
        self.summary.is_interrupted = stop.load(Ordering::Relaxed);
        self.summary.is_interrupted
    }

    /// Waits until the rate permits the next step.
    async fn wait_turn(&self) {
        if self.rate.is_some() {
            tokio::time::sleep_until(self.next_at).await;
        }
    }

    /// The next step has to wait for as long as the rate says for these.
    fn note_sent(&mut self, jobs: usize) {
        if let Some(rate) = self.rate {
            self.next_at = Instant::now() + Duration::from_secs_f64(jobs as f64 / f64::from(rate));
        }
    }

    async fn send_back(&mut self, ids: &[JobId]) -> Result<()> {
        let seen = self.still_dead(ids).await?;
        self.note_sent(seen.len());
        // What was sent back by others since this look is left to them.
        let answers = self.client.store().retry_seen(Arc::from(&seen[..])).await?;
        for (seen, answer) in seen.iter().zip(answers) {
            match answer {
                Amended::Done(_) => {
                    self.summary.replayed += 1;
                    self.watched.push_back(seen.id);
                }
                Amended::Refused(_) | Amended::Held(_) | Amended::Missing => self.summary.left += 1,
            }
        }
        let surplus = self.watched.len().saturating_sub(WATCHED_MAX);
        self.watched.drain(..surplus);
        Ok(())
    }

    /// Those that have not been sent back by others since they were read, and died again.
    async fn still_dead(&mut self, ids: &[JobId]) -> Result<Vec<Seen>> {
        let found = self.client.store().get(Arc::from(ids)).await?;
        let died_before = |job: &JobRecord| {
            job.state == State::Dead && job.finished_at.is_some_and(|died| died < self.summary.began)
        };
        let dead: Vec<_> = found.iter().flatten().filter(|job| died_before(job)).map(Seen::of).collect();
        self.summary.left += (ids.len() - dead.len()) as u64;
        Ok(dead)
    }

    /// Looks now and then what became of those that were sent back.
    async fn look(&mut self, stop_after: Option<u64>) -> Result<()> {
        let Some(stop_after) = stop_after else { return Ok(()) };
        if self.looked_at.elapsed() < LOOK_INTERVAL && !self.watched.len().is_multiple_of(CALL_MAX) {
            return Ok(());
        }
        self.looked_at = Instant::now();
        let ids: Arc<[JobId]> = self.watched.iter().copied().collect();
        let states = self.client.store().states(Arc::clone(&ids)).await?;
        let has_ended = |state: &Option<State>| state.is_none_or(State::is_terminal);
        let died = states.iter().filter(|state| **state == Some(State::Dead)).count() as u64;
        self.summary.died_again += died;
        // What has ended is not counted again.
        let open = ids.iter().zip(&states).filter(|(_, state)| !has_ended(state));
        self.watched = open.map(|(id, _)| *id).collect();
        self.summary.is_stopped = self.summary.died_again >= stop_after;
        Ok(())
    }
}
