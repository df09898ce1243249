//! One group of operations: begin, run, commit, answer. When SQLite fails inside a group, nobody knows whose
//! fault it was, so the group is rolled back and each operation runs in a transaction of its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::{Connection, Error as SqliteError};
use windlass_core::StoreError;
use windlass_core::bell::Bell;
use windlass_core::clock::Clock;

use super::checkpoint::Checkpoint;
use super::operation::Operation;
use super::{Tally, Tools};
use crate::error::{Fault, failed, is_unknown_commit, unknown};
use crate::patience::Turns;
use crate::session::Session;
use crate::wakeup::{Ringer, Rings};

/// Runs groups on the connection that it owns.
pub(crate) struct Committer {
    connection: Connection,
    clock: Arc<dyn Clock>,
    bell: Bell,
    /// None, as the turns, for a store that no other process can see.
    ringer: Option<Ringer>,
    turns: Option<Turns>,
    checkpoint: Checkpoint,
    tally: Arc<Tally>,
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
        let Tools { connection, clock, bell, ringer } = tools;
        let turns = ringer.as_ref().map(|ringer| Turns::of_this_thread(ringer.file()));
        Self { connection, clock, bell, ringer, turns, checkpoint: Checkpoint::default(), tally }
    }

    /// Runs and answers all operations, and wakes whom they concern.
    pub(crate) fn run(&mut self, mut group: Vec<Box<dyn Operation>>) {
        match self.transact(&mut group) {
            Ok(rings) => self.answer(group, rings),
            Err(Failure::RolledBack(fault)) if group.len() > 1 => {
                tracing::debug!(?fault, operations = group.len(), "a group failed, its operations run alone");
                group.into_iter().for_each(|operation| self.run(vec![operation]));
            }
            Err(failure) => answer_failure(group, failure),
        }
    }

    fn answer(&mut self, group: Vec<Box<dyn Operation>>, rings: Rings) {
        self.tally.operations.fetch_add(group.len() as u64, Ordering::Relaxed);
        self.tally.commits.fetch_add(1, Ordering::Relaxed);
        rings.ring(&self.bell);
        group.into_iter().for_each(Operation::answer);
        if let Some(ringer) = &mut self.ringer {
            ringer.ring(rings);
        }
    }

    /// What is left to do when everyone has been answered: keeps the log short, and leaves the file's lock
    /// to another process if one has asked. `rows` says about how many rows were written.
    pub(crate) fn tidy(&mut self, rows: usize) {
        if let Some(turns) = &mut self.turns {
            self.checkpoint.after_commit(&self.connection, rows);
            turns.give();
        }
    }

    fn transact(&mut self, group: &mut [Box<dyn Operation>]) -> Result<Rings, Failure> {
        execute(&self.connection, "BEGIN IMMEDIATE").map_err(Failure::NotBegun)?;
        if let Some(turns) = &mut self.turns {
            turns.taken();
        }
        let session = Session::new(&self.connection, self.clock.now());
        let ran = group
            .iter_mut()
            .try_for_each(|operation| operation.run(&session))
            .and_then(|()| session.write_counters());
        if let Err(fault) = ran {
            self.roll_back();
            return Err(Failure::RolledBack(fault));
        }
        let rings = session.rings();
        match execute(&self.connection, "COMMIT") {
            Ok(()) => Ok(rings),
            Err(error) => {
                self.roll_back();
                let is_unknown = is_unknown_commit(&error);
                Err(if is_unknown { Failure::Unknown(error) } else { Failure::RolledBack(error.into()) })
            }
        }
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
