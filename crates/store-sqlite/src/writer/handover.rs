//! Jobs that are handed over to a worker of this process in the transaction that stores them.
//!
//! A worker could be told of a job once it is stored, and would then claim it: a second commit, and a second wait for the
//! disk. So the transaction calls workers that have room before it commits, and waits a moment for their claim, which then
//! runs in the same transaction. All claims of a process pass this thread: one that comes later runs after the commit and
//! finds the jobs, so that no worker oversleeps one because it was called early.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;

use super::operation::Operation;
use super::{Lane, Waiting};

/// How long a transaction waits for a claim, about: several times what a worker needs to wake up. The lock of the file is
/// held meanwhile.
const CLAIM_WAIT: Duration = Duration::from_micros(500);

/// The most calls that are not waited for after workers did not come.
const SKIPS_MAX: u32 = 64;

/// Whether workers come when they are called. Where the machine wakes them too slowly, few transactions wait.
#[derive(Debug, Default)]
pub(super) struct Chances {
    skip: u32,
    skip_next: u32,
}

impl Chances {
    /// Whether to wait this time.
    fn take(&mut self) -> bool {
        let is_skipped = self.skip > 0;
        self.skip = self.skip.saturating_sub(1);
        !is_skipped
    }

    fn came(&mut self) {
        *self = Self::default();
    }

    fn missed(&mut self) {
        self.skip = self.skip_next;
        self.skip_next = (self.skip_next * 2).clamp(1, SKIPS_MAX);
    }
}

impl Waiting {
    /// The claim that a call has brought, and renewals that came before it. Nothing if something else waits: it has waited
    /// long enough.
    pub(super) fn called(&mut self) -> Vec<Box<dyn Operation>> {
        let mut along = Vec::new();
        if self.len() > 0 || !self.chances.take() {
            return along;
        }
        let began = Instant::now();
        loop {
            match self.receiver.try_recv() {
                Ok(entry) if entry.lane == Lane::Claim => {
                    along.push(entry.operation);
                    self.chances.came();
                    return along;
                }
                Ok(entry) if entry.lane == Lane::Urgent => along.push(entry.operation),
                Ok(entry) => {
                    self.normal.push_back(entry);
                    return along;
                }
                Err(TryRecvError::Empty) if began.elapsed() < CLAIM_WAIT => thread::yield_now(),
                Err(_) => break,
            }
        }
        self.chances.missed();
        along
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, Mutex};

    use rusqlite::Connection;
    use tokio::sync::{Semaphore, mpsc, oneshot};
    use windlass_core::Name;
    use windlass_core::bell::{Bell, Fresh, Rings, Waiter};
    use windlass_core::clock::ManualClock;
    use windlass_core::store::StoreResult;

    use super::*;
    use crate::conditions::Conditions;
    use crate::error::Fault;
    use crate::migrate;
    use crate::session::Session;
    use crate::wakeup::Ringer;
    use crate::writer::group::Committer;
    use crate::writer::operation::Pending;
    use crate::writer::{Entry, Tally, Tools};

    #[test]
    fn workers_that_do_not_come_are_waited_for_ever_less() {
        let mut chances = Chances::default();
        let mut waits = 0;
        for _ in 0..1_000 {
            if chances.take() {
                waits += 1;
                chances.missed();
            }
        }
        assert!((10..30).contains(&waits), "{waits}");
        chances.came();
        assert!(chances.take() && chances.take());
    }

    type Answer = oneshot::Receiver<StoreResult<i64>>;

    fn operation(
        lane: Lane,
        run: impl FnMut(&Session<'_>) -> Result<i64, Fault> + Send + 'static,
    ) -> (Entry, Answer) {
        let (caller, answer) = oneshot::channel();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let operation = Box::new(Pending { lane, run, result: None, caller, _place: place });
        (Entry { lane, rows: 1, operation }, answer)
    }

    fn claim() -> (Entry, Answer) {
        operation(Lane::Claim, |session| {
            Ok(session.connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0))?)
        })
    }

    fn enqueue() -> (Entry, Answer) {
        operation(Lane::Intake, |session| {
            session.connection.execute("INSERT INTO notes VALUES (1)", [])?;
            let name = |text| Name::new(text).expect("a good name");
            session.ring(Rings::fresh(Fresh { queue: name("q"), kind: Some(name("k")), jobs: 1 }));
            Ok(0)
        })
    }

    /// A worker that hands in what it has when it is called.
    struct Caller {
        sender: mpsc::UnboundedSender<Entry>,
        entries: Mutex<Vec<Entry>>,
    }

    impl Waiter for Caller {
        fn room(&self, _queue: &Name) -> u32 {
            1
        }

        fn wake(&self, _queue: Option<&Name>) {
            for entry in self.entries.lock().unwrap().drain(..) {
                assert!(self.sender.send(entry).is_ok());
            }
        }
    }

    /// A committer, what waits for it, and a worker with room.
    struct Stage {
        committer: Committer,
        waiting: Waiting,
        worker: Arc<Caller>,
        tally: Arc<Tally>,
        _enrolled: windlass_core::bell::Enrolled,
    }

    impl Stage {
        fn new() -> Self {
            let connection = Connection::open_in_memory().unwrap();
            migrate::run(&connection).unwrap();
            connection.execute_batch("CREATE TABLE notes (note INT)").unwrap();
            let (bell, tally) = (Bell::new(), Arc::new(Tally::default()));
            let tools = Tools {
                connection,
                path: None,
                clock: Arc::new(ManualClock::default()),
                steps: Arc::default(),
                conditions: Arc::new(Conditions::of_memory()),
                bell: bell.clone(),
                ringer: Some(Ringer::new(Arc::new(tempfile::tempfile().unwrap()))),
            };
            let (sender, receiver) = mpsc::unbounded_channel();
            let worker = Arc::new(Caller { sender, entries: Mutex::default() });
            let names = |name: &str| vec![Name::new(name).unwrap()];
            let _enrolled = bell.enroll(&names("q"), &names("k"), Arc::clone(&worker) as _);
            let (committer, waiting) = (Committer::new(tools, Arc::clone(&tally)), Waiting::new(receiver));
            Self { committer, waiting, worker, tally, _enrolled }
        }

        /// Enqueues, with what the worker hands in when it is called. Answers whether that is stored.
        fn enqueue(&mut self, called: Entry) -> bool {
            self.worker.entries.lock().unwrap().push(called);
            let (enqueue, mut stored) = enqueue();
            self.committer.run(vec![enqueue.operation], Some(&mut self.waiting));
            stored.try_recv().unwrap().is_ok()
        }
    }

    #[test]
    fn a_claim_that_fresh_jobs_call_shares_their_commit_and_finds_them() {
        let mut stage = Stage::new();
        let (claim, mut claimed) = claim();
        assert!(stage.enqueue(claim));
        assert_eq!(claimed.try_recv().unwrap().unwrap(), 1);
        assert_eq!(stage.tally.commits.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn what_comes_meanwhile_and_is_not_a_claim_has_a_commit_of_its_own() {
        let mut stage = Stage::new();
        let (later, mut stored) = enqueue();
        assert!(stage.enqueue(later));
        assert!(stored.try_recv().is_err());
        assert_eq!(stage.waiting.len(), 1);
    }

    #[test]
    fn a_claim_that_panics_takes_no_job_with_it() {
        let mut stage = Stage::new();
        let (broken, mut failed) = operation(Lane::Claim, |_| panic!("a claim that panics"));
        assert!(stage.enqueue(broken));
        assert!(failed.try_recv().unwrap().is_err());
        let (claim, mut claimed) = claim();
        assert!(stage.enqueue(claim));
        assert_eq!(claimed.try_recv().unwrap().unwrap(), 2);
    }
}
