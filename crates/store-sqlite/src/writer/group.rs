//! One group of operations: begin, run, commit, answer. When SQLite fails inside a group, it is not known
//! which operation is at fault, so the group is rolled back and each operation runs in a transaction of its own.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::{Connection, Error as SqliteError};
use windlass_core::StoreError;
use windlass_core::bell::{Bell, Rings, Topic};
use windlass_core::clock::{Clock, Steps};

use super::checkpoint::Checkpoint;
use super::copier::Copier;
use super::handover::hand_over;
use super::operation::Operation;
use super::{Lane, Tally, Tools};
use crate::conditions::{Conditions, Refusal};
use crate::error::{Fault, failed, is_full, is_unknown_commit, unknown};
use crate::jobs::calls::Calls;
use crate::leases;
use crate::patience::Turns;
use crate::session::Session;
use crate::wakeup::Ringer;

/// Runs groups on the connection that it owns.
pub(crate) struct Committer {
    connection: Connection,
    clock: Arc<dyn Clock>,
    steps: Arc<Mutex<Steps>>,
    conditions: Arc<Conditions>,
    bell: Bell,
    /// None, as the turns, for a store that no other process can see.
    ringer: Option<Ringer>,
    turns: Option<Turns>,
    checkpoint: Checkpoint,
    calls: RefCell<Calls>,
    tally: Arc<Tally>,
}

/// Whether a group may hand its jobs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HandOver {
    Try,
    /// It failed, perhaps because of the claim.
    Never,
}

/// Why a transaction did not end well.
enum Failure {
    /// The lock was not to be had; nothing ran.
    NotBegun(SqliteError),
    /// It was rolled back.
    RolledBack(Fault),
    /// It was written, but not confirmed.
    Unknown(SqliteError),
}

impl Committer {
    /// Belongs to the thread that calls this.
    pub(crate) fn new(tools: Tools, tally: Arc<Tally>) -> Self {
        let Tools { connection, path, clock, steps, conditions, bell, ringer } = tools;
        let turns = ringer.as_ref().map(|ringer| Turns::of_this_thread(ringer.file()));
        let checkpoint = Checkpoint::new(&connection, path.map(Copier::new));
        Self {
            connection,
            clock,
            steps,
            conditions,
            bell,
            ringer,
            turns,
            checkpoint,
            calls: RefCell::default(),
            tally,
        }
    }

    /// Runs and answers all operations, and wakes whom they concern.
    pub(crate) fn run(&mut self, mut group: Vec<Box<dyn Operation>>, hand_over: HandOver) {
        if let Err(broken) = self.conditions.check(Some(&self.connection)) {
            return refuse(group, &broken);
        }
        if let Err(full) = self.conditions.check_room() {
            let (intake, others) = group.into_iter().partition(|one| one.lane() == Lane::Intake);
            refuse(intake, &full);
            group = others;
        }
        if group.is_empty() {
            return;
        }
        match self.transact(&mut group, hand_over) {
            Ok(left) => self.answer(group, &left),
            Err(Failure::RolledBack(fault)) if is_full(&fault) && self.make_room() => {
                self.run(group, HandOver::Never);
            }
            Err(Failure::RolledBack(fault)) if group.len() > 1 => {
                tracing::debug!(?fault, operations = group.len(), "a group failed, its operations run alone");
                group.into_iter().for_each(|operation| self.run(vec![operation], HandOver::Never));
            }
            Err(failure) => answer_failure(group, failure),
        }
    }

    /// The disk is full. True if another attempt is worth while, which it is a few times only.
    fn make_room(&mut self) -> bool {
        let has_reserve = self.conditions.make_room();
        self.checkpoint.make_room(&self.connection) || has_reserve
    }

    /// Other processes hear what is left for them.
    fn answer(&mut self, group: Vec<Box<dyn Operation>>, left: &Rings) {
        self.tally.operations.fetch_add(group.len() as u64, Ordering::Relaxed);
        self.tally.commits.fetch_add(1, Ordering::Relaxed);
        group.into_iter().for_each(Operation::answer);
        if let Some(ringer) = &mut self.ringer {
            ringer.ring(left);
        }
    }

    /// What is left to do when everyone has been answered: keeps the log short, and leaves the file's lock
    /// to another process if one has asked. `rows` says about how many rows were written.
    pub(crate) fn tidy(&mut self, rows: usize) {
        if let Some(turns) = &mut self.turns {
            self.checkpoint.after_commit(&self.connection, rows, &self.conditions);
            turns.give();
        }
    }

    /// Commits a group and rings for it in this process. Answers what others should hear.
    fn transact(&mut self, group: &mut Vec<Box<dyn Operation>>, handing: HandOver) -> Result<Rings, Failure> {
        execute(&self.connection, "BEGIN IMMEDIATE").map_err(Failure::NotBegun)?;
        if let Some(turns) = &mut self.turns {
            turns.taken();
        }
        // Before anything is decided by the time: what lived must not be lost because the clock was set.
        let before = self.steps().clone();
        let (now, step) = self.steps().look(&*self.clock);
        let session = Session::new(&self.connection, now, &self.calls);
        // A panic must not take the writer, and every other caller, with it. The transaction is rolled back, so nothing
        // half-done remains.
        let ran = catch_unwind(AssertUnwindSafe(|| {
            if let Some(step) = step {
                leases::outlive(&session, step)?;
            }
            for operation in group.iter_mut() {
                operation.run(&session)?;
            }
            // A store in memory has no disk to wait for, and most programs that enqueue have no worker.
            let may_hand_over =
                handing == HandOver::Try && self.ringer.is_some() && self.bell.is_heard(Topic::Work);
            let left = if may_hand_over { hand_over(&session, &self.bell, group)? } else { Rings::NONE };
            session.write_counters()?;
            self.calls.borrow_mut().write(&self.connection, now)?;
            Ok(left)
        }))
        .unwrap_or_else(|_| Err(Fault::Defect("an operation panicked".to_owned())));
        let rings = session.rings();
        let failure = match ran.map(|left| (left, execute(&self.connection, "COMMIT"))) {
            Ok((left, Ok(()))) => {
                self.calls.get_mut().keep();
                return Ok(rings.ring(&self.bell).and(left));
            }
            Ok((_, Err(error))) if is_unknown_commit(&error) => Failure::Unknown(error),
            Ok((_, Err(error))) => Failure::RolledBack(error.into()),
            Err(fault) => Failure::RolledBack(fault),
        };
        self.roll_back();
        self.calls.get_mut().drop_fresh();
        // The next transaction has to see the step.
        *self.steps() = before;
        Err(failure)
    }

    fn steps(&self) -> MutexGuard<'_, Steps> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// SQLite may have rolled back by itself already.
    fn roll_back(&self) {
        if !self.connection.is_autocommit()
            && let Err(error) = execute(&self.connection, "ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }
}

fn execute(connection: &Connection, sql: &str) -> Result<(), SqliteError> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

/// Answers operations that did not run.
fn refuse(group: Vec<Box<dyn Operation>>, refusal: &Refusal) {
    group.into_iter().for_each(|operation| operation.fail(refusal.clone().into()));
}

fn answer_failure(mut group: Vec<Box<dyn Operation>>, failure: Failure) {
    let (error, meaning): (_, fn(&Arc<SqliteError>) -> StoreError) = match failure {
        Failure::NotBegun(error) => (error, failed),
        Failure::Unknown(error) => {
            tracing::error!(%error, "a commit was not confirmed");
            (error, unknown)
        }
        Failure::RolledBack(fault) => {
            let operation = group.pop().expect("a group of several is run one by one instead");
            return operation.fail(fault.into());
        }
    };
    let error = Arc::new(error);
    group.into_iter().for_each(|operation| operation.fail(meaning(&error)));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::{Semaphore, oneshot};
    use windlass_core::StoreErrorKind;
    use windlass_core::clock::ManualClock;
    use windlass_core::store::StoreResult;

    use super::*;
    use crate::migrate;
    use crate::writer::operation::Pending;

    type Answer = oneshot::Receiver<StoreResult<usize>>;

    /// A committer on a store in memory that is full after so many more pages.
    fn committer(pages: i64) -> Committer {
        committer_under(pages, Conditions::of_memory())
    }

    fn committer_under(pages: i64, conditions: Conditions) -> Committer {
        let connection = Connection::open_in_memory().unwrap();
        migrate::run(&connection).unwrap();
        connection.execute_batch("CREATE TABLE notes (note BLOB)").unwrap();
        let used: i64 = connection.query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
        connection.pragma_update_and_check(None, "max_page_count", used + pages, |_| Ok(())).unwrap();
        let clock = Arc::new(ManualClock::default());
        let conditions = Arc::new(conditions);
        let tools = Tools {
            connection,
            path: None,
            clock,
            steps: Arc::default(),
            conditions,
            bell: Bell::new(),
            ringer: None,
        };
        Committer::new(tools, Arc::default())
    }

    fn operation(
        run: impl FnMut(&Session<'_>) -> Result<usize, Fault> + Send + 'static,
    ) -> (Box<dyn Operation>, Answer) {
        operation_in(Lane::Normal, run)
    }

    fn operation_in(
        lane: Lane,
        run: impl FnMut(&Session<'_>) -> Result<usize, Fault> + Send + 'static,
    ) -> (Box<dyn Operation>, Answer) {
        let (caller, answer) = oneshot::channel();
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        (Box::new(Pending { lane, run, result: None, caller, _place: place }), answer)
    }

    fn note(bytes: usize) -> (Box<dyn Operation>, Answer) {
        note_in(Lane::Normal, bytes)
    }

    fn note_in(lane: Lane, bytes: usize) -> (Box<dyn Operation>, Answer) {
        operation_in(lane, move |session| {
            Ok(session.prepare("INSERT INTO notes VALUES (zeroblob(?1))")?.execute([bytes as i64])?)
        })
    }

    fn kind(mut answer: Answer) -> Option<StoreErrorKind> {
        answer.try_recv().expect("everyone is answered").err().map(|error| error.kind())
    }

    fn notes(committer: &Committer) -> i64 {
        committer.connection.query_row("SELECT count(*) FROM notes", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn the_one_that_fills_the_disk_is_told_and_its_neighbours_are_not() {
        let mut committer = committer(20);
        let (operations, answers): (Vec<_>, Vec<_>) = [note(10), note(1 << 20), note(10)].into_iter().unzip();
        committer.run(operations, HandOver::Try);
        let kinds: Vec<_> = answers.into_iter().map(kind).collect();
        assert_eq!(kinds, [None, Some(StoreErrorKind::Unavailable), None]);
        assert_eq!(notes(&committer), 2);
    }

    #[test]
    fn on_a_full_disk_jobs_are_refused_and_all_else_goes_on() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let reserve = path("jobs.db-reserve");
        let conditions = Conditions::of_file(path("jobs.db"), path("jobs.db-wal"), reserve.clone());
        let mut committer = committer_under(20, conditions);
        let kept = || reserve.metadata().unwrap().len();
        assert!(kept() > 0, "there is a reserve");
        let group =
            [note_in(Lane::Intake, 1 << 20), note(10), note_in(Lane::Urgent, 10), note_in(Lane::Intake, 1)];
        let (operations, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        committer.run(operations, HandOver::Try);
        let mut errors = answers.into_iter().map(|mut answer| answer.try_recv().unwrap().err());
        let said = errors.next().flatten().expect("it does not fit").to_string();
        assert!(said.contains("no more jobs are taken until there is room"), "{said}");
        assert!(errors.next().flatten().is_none() && errors.next().flatten().is_none());
        assert!(errors.next().flatten().is_some(), "nor is a small one taken while the reserve is gone");
        assert_eq!((notes(&committer), kept()), (2, 0));

        // The disk of this test has room all the time, so the next look makes the reserve again.
        committer.conditions.look_now();
        assert!(kept() > 0);
        let (operation, answer) = note_in(Lane::Intake, 1);
        committer.run(vec![operation], HandOver::Try);
        assert_eq!(kind(answer), None);
    }

    #[test]
    fn a_panic_or_nonsense_concerns_one_caller_only() {
        let mut committer = committer(20);
        let broken = operation(|_| panic!("an operation that panics"));
        let corrupt = operation(|session| {
            session.connection.execute("INSERT INTO notes VALUES (x'00')", [])?;
            Err(Fault::Corrupt("nonsense".to_owned()))
        });
        let (operations, answers): (Vec<_>, Vec<_>) = [note(1), broken, corrupt, note(1)].into_iter().unzip();
        committer.run(operations, HandOver::Try);
        let kinds: Vec<_> = answers.into_iter().map(kind).collect();
        assert_eq!(kinds, [None, Some(StoreErrorKind::Fatal), Some(StoreErrorKind::Fatal), None]);
        assert_eq!(notes(&committer), 2, "what the failed ones wrote is gone");
    }

    #[test]
    fn a_refusal_does_not_end_the_transaction() {
        let mut committer = committer(20);
        let refused = operation(|_| Err(Fault::Refused(StoreError::Address("no".to_owned()))));
        let (operations, answers): (Vec<_>, Vec<_>) = [note(1), refused, note(1)].into_iter().unzip();
        committer.run(operations, HandOver::Try);
        let kinds: Vec<_> = answers.into_iter().map(kind).collect();
        assert_eq!(kinds, [None, Some(StoreErrorKind::Fatal), None]);
        assert_eq!(committer.tally.commits.load(Ordering::Relaxed), 1);
    }
}
