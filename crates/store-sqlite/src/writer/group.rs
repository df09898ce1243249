//! One group of operations: begin, run, commit, answer. When SQLite fails inside a group, nobody knows whose
//! fault it was, so the group is rolled back and each operation runs in a transaction of its own.

use std::sync::Arc;

use rusqlite::{Connection, Error as SqliteError};
use windlass_core::StoreError;
use windlass_core::clock::Clock;

use super::operation::Operation;
use crate::error::{Fault, failed, is_unknown_commit, unknown};
use crate::patience::Turns;
use crate::session::Session;
use crate::wakeup::Rings;

/// Runs groups on the connection that it owns.
pub(crate) struct Committer {
    connection: Connection,
    clock: Arc<dyn Clock>,
    /// None for a store that no other process can see.
    turns: Option<Turns>,
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
    pub(crate) fn new(connection: Connection, clock: Arc<dyn Clock>, turns: Option<Turns>) -> Self {
        Self { connection, clock, turns }
    }

    /// Runs and answers all operations. Tells how many there were, how many commits they took, and whom to
    /// wake.
    pub(crate) fn run(&mut self, mut group: Vec<Box<dyn Operation>>) -> (u64, u64, Rings) {
        let operations = group.len() as u64;
        match self.transact(&mut group) {
            Ok(rings) => {
                group.into_iter().for_each(|operation| operation.answer());
                (operations, 1, rings)
            }
            Err(Failure::RolledBack(fault)) if group.len() > 1 => {
                tracing::debug!(?fault, operations, "a group failed, its operations run alone");
                let alone = group.into_iter().map(|operation| self.run(vec![operation]));
                let (commits, rings) = alone
                    .fold((0, Rings::default()), |(commits, rings), (_, more, owed)| {
                        (commits + more, rings.and(owed))
                    });
                (operations, commits, rings)
            }
            Err(failure) => {
                answer_failure(group, failure);
                (operations, 0, Rings::default())
            }
        }
    }

    /// Leaves the file's lock to another process, if one has asked.
    pub(crate) fn give_turn(&mut self) {
        if let Some(turns) = &mut self.turns {
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

fn answer_failure(group: Vec<Box<dyn Operation>>, failure: Failure) {
    let answer_all = |group: Vec<Box<dyn Operation>>, answer: &dyn Fn() -> StoreError| {
        group.into_iter().for_each(|operation| operation.fail(answer()));
    };
    match failure {
        Failure::NotBegun(error) => {
            let error = Arc::new(error);
            answer_all(group, &|| failed(&error));
        }
        Failure::Unknown(error) => {
            let error = Arc::new(error);
            tracing::error!(%error, "a commit was not confirmed");
            answer_all(group, &|| unknown(&error));
        }
        Failure::RolledBack(fault) => {
            for operation in group.into_iter().take(1) {
                return operation.fail(fault.into());
            }
        }
    }
}
