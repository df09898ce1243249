//! Jobs that are handed over to a worker of this process in the transaction that stores them.
//!
//! A worker could be told of a job once it is stored, and would then claim it: a second commit, and a second wait for the
//! disk. So the transaction calls workers that have room before it commits, and waits a moment for their claim, which then
//! runs in the same transaction. All claims of a process pass this thread: one that comes later runs after the commit and
//! finds the jobs, so a call that comes early is never a call in vain.

use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TryRecvError;

use super::operation::Operation;
use super::{Lane, Waiting};

/// How long a transaction waits for a claim: several times what a worker needs to wake up.
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
    /// The claim that a call has brought, and renewals that came before it. Everything else waits for its own commit.
    pub(super) fn called(&mut self) -> Vec<Box<dyn Operation>> {
        let mut along = Vec::new();
        // What waits already would wait for the claim as well.
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
                Ok(entry) => self.normal.push_back(entry),
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

    #[test]
    fn a_claim_that_fresh_jobs_call_shares_their_commit_and_finds_them() {
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
        let mut committer = Committer::new(tools, Arc::clone(&tally));
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut waiting = Waiting::new(receiver);
        let ((claim, mut claimed), (later, mut stored_later)) = (claim(), enqueue());
        let worker = Arc::new(Caller { sender, entries: Mutex::new(vec![later, claim]) });
        let names = |name: &str| vec![Name::new(name).unwrap()];
        let _enrolled = bell.enroll(&names("q"), &names("k"), Arc::clone(&worker) as _);

        let (enqueue, mut stored) = enqueue();
        committer.run(vec![enqueue.operation], Some(&mut waiting));
        assert_eq!(tally.commits.load(Ordering::Relaxed), 1);
        assert_eq!((stored.try_recv().unwrap().unwrap(), claimed.try_recv().unwrap().unwrap()), (0, 1));
        assert!(stored_later.try_recv().is_err(), "jobs that came meanwhile have a commit of their own");
        assert_eq!(waiting.len(), 1);
    }
}
