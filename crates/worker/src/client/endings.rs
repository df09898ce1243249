//! Callers that wait for jobs to end. One loop per client asks the store about all of them at once, for their states only,
//! and no more often the more they are.
//!
//! The loop runs while there are callers, on the runtime of the one that came first. If that runtime ends, the others find
//! out and begin another loop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, sleep_until};
use windlass_core::bell::Topic;
use windlass_core::{JobId, State as JobState, Store};

/// How soon the states are asked for again; grows while nothing happens.
const POLL: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(500));
/// The bell rings for every job of the store; no more often than this are states asked for.
const GAP: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(20));
/// How much of that each caller adds.
const GAP_EACH: Duration = Duration::from_micros(200);
/// The most jobs that one call asks about.
const ASKED_MAX: usize = 1_000;

/// The callers of one client that wait for ends.
#[derive(Debug, Default)]
pub(super) struct Endings {
    state: Mutex<State>,
    /// A caller has come.
    fresh: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<JobId, Vec<oneshot::Sender<()>>>,
    /// The loop that runs.
    attendance: Option<u64>,
    /// Loops so far.
    attendances: u64,
}

impl Endings {
    /// Waits until it is worth while to look at a job that has just been looked at: it has ended or is gone.
    pub(super) async fn worth_a_look(self: &Arc<Self>, store: &Arc<dyn Store>, id: JobId) {
        let (tell, told) = oneshot::channel();
        let fresh = {
            let mut state = self.state();
            state.waiting.entry(id).or_default().push(tell);
            let is_first = state.attendance.is_none();
            if is_first {
                state.attendances += 1;
                state.attendance = Some(state.attendances);
            }
            state.attendance.filter(|_| is_first)
        };
        match fresh {
            Some(number) => {
                let attendance = Attendance { endings: Arc::clone(self), store: Arc::clone(store), number };
                tokio::spawn(async move { attendance.run().await });
            }
            None => self.fresh.notify_one(),
        }
        // An error means that the loop has gone.
        let _ = told.await;
    }

    /// The jobs that are waited for; the loop ends when there are none.
    fn jobs(&self) -> Vec<JobId> {
        let mut state = self.state();
        state.waiting.retain(|_, callers| {
            callers.retain(|caller| !caller.is_closed());
            !callers.is_empty()
        });
        if state.waiting.is_empty() {
            state.attendance = None;
        }
        state.waiting.keys().copied().collect()
    }

    fn tell<'a>(&self, jobs: impl IntoIterator<Item = &'a JobId>) {
        let mut state = self.state();
        for caller in jobs.into_iter().filter_map(|id| state.waiting.remove(id)).flatten() {
            // One that has gone away is not missed.
            let _ = caller.send(());
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loop. If it ends before its time, those who wait are told.
struct Attendance {
    endings: Arc<Endings>,
    store: Arc<dyn Store>,
    number: u64,
}

impl Attendance {
    async fn run(self) {
        let mut ends = self.store.bell().listen(Topic::Finish);
        let (mut asked, mut pause, mut gap) = (Instant::now(), POLL.0, GAP.0);
        let mut poll = asked + pause;
        loop {
            tokio::select! {
                () = ends.rung() => sleep_until(asked + gap).await,
                () = sleep_until(poll.max(asked + gap)) => pause = (pause * 2).min(POLL.1),
                () = self.endings.fresh.notified() => {
                    // The newcomer has just looked for itself.
                    pause = POLL.0;
                    poll = poll.min(Instant::now() + pause);
                    continue;
                }
            }
            let jobs = self.endings.jobs();
            if jobs.is_empty() {
                return;
            }
            asked = Instant::now();
            self.ask(&jobs).await;
            poll = Instant::now() + pause;
            gap = (GAP_EACH * u32::try_from(jobs.len()).unwrap_or(u32::MAX)).clamp(GAP.0, GAP.1);
        }
    }

    /// Asks for the states, and tells those whose job has ended or is gone.
    async fn ask(&self, jobs: &[JobId]) {
        for some in jobs.chunks(ASKED_MAX) {
            match self.store.states(some.into()).await {
                Ok(states) => {
                    let over =
                        some.iter().zip(&states).filter(|(_, state)| state.is_none_or(JobState::is_terminal));
                    self.endings.tell(over.map(|(id, _)| id));
                }
                // A store that is away is asked again, as everywhere.
                Err(error) if error.is_transient() => {}
                // Each of them hears it by a look of its own.
                Err(_) => self.endings.tell(some),
            }
        }
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut state = self.endings.state();
        if state.attendance == Some(self.number) {
            // Those who wait find out, and begin another one.
            state.attendance = None;
            state.waiting.clear();
        }
    }
}
