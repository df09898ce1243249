//! What an operation sees of the transaction it runs in: the connection, the time, the definitions of queues,
//! and what it has moved.

use std::cell::RefCell;
use std::sync::Arc;

use rusqlite::{CachedStatement, Connection, OptionalExtension};
use windlass_core::Name;
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;

use crate::error::Fault;
use crate::jobs::calls::Calls;
use crate::moves::Moves;
use crate::row::definition::Definition;
use crate::tallies::{self, KindPlace};
use crate::transaction::at_once;

const SAVEPOINT: &str = "SAVEPOINT windlass_part";
const RELEASE: &str = "RELEASE windlass_part";
const UNDO: &str = "ROLLBACK TO windlass_part";
pub(crate) const CONFIG: &str = include_str!("../queries/queues/config.sql");

/// One transaction, shared by the operations that are committed together.
pub(crate) struct Session<'c> {
    pub(crate) connection: &'c Connection,
    /// Read once, with the write lock held, so that instants grow in the order of transactions.
    pub(crate) now: Timestamp,
    pub(crate) moves: RefCell<Moves>,
    definitions: RefCell<Vec<(Name, Arc<Definition>)>>,
    pub(crate) calls: &'c RefCell<Calls>,
}

impl<'c> Session<'c> {
    pub(crate) fn new(connection: &'c Connection, now: Timestamp, calls: &'c RefCell<Calls>) -> Self {
        Self { connection, now, moves: RefCell::default(), definitions: RefCell::default(), calls }
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<CachedStatement<'c>, Fault> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// As `accept` and `moves` take it.
    pub(crate) fn tx(&self) -> &Self {
        self
    }

    /// Owes a ring that no change of state owes.
    pub(crate) fn ring(&self, rings: Rings) {
        let mut moves = self.moves.borrow_mut();
        moves.rings = std::mem::take(&mut moves.rings).and(rings);
    }

    /// What is owed about fresh work, which is no longer owed then.
    pub(crate) fn take_fresh(&self) -> Rings {
        self.moves.borrow_mut().rings.take_fresh()
    }

    /// What is owed when the transaction has taken effect.
    pub(crate) fn rings(&self) -> Rings {
        self.moves.borrow().rings.clone()
    }

    /// Writes the counters as of now. The transaction does it before it commits; an operation that reads
    /// counters does it before it looks.
    pub(crate) fn write_counters(&self) -> Result<(), Fault> {
        self.moves.borrow_mut().counts.write(self.connection)?;
        at_once(tallies::write(&mut self.tx()))
    }

    /// The place of a kind, for what moves.
    pub(crate) fn kind(&self, kind: &str) -> KindPlace {
        self.moves.borrow_mut().tallies.kind(kind)
    }

    /// Runs a part of an operation, and undoes it if it fails in a way that [leaves others](Fault::leaves_others). SQLite
    /// copies each page that it might restore: worth while for what cannot be tested before it is written.
    pub(crate) fn undoable<T>(&self, run: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
        let before = self.moves.borrow().clone();
        self.prepare(SAVEPOINT)?.execute([])?;
        let done = run();
        match &done {
            Err(fault) if fault.leaves_others() => {
                self.prepare(UNDO)?.execute([])?;
                self.moves.replace(before);
            }
            // The whole transaction is rolled back.
            Err(_) => return done,
            Ok(_) => {}
        }
        self.prepare(RELEASE)?.execute([])?;
        done
    }

    /// The definition of a queue, or the default one.
    pub(crate) fn definition(&self, queue: &Name) -> Result<Arc<Definition>, Fault> {
        if let Some((_, definition)) = self.definitions.borrow().iter().find(|(name, _)| name == queue) {
            return Ok(Arc::clone(definition));
        }
        let stored: Option<Option<String>> =
            self.prepare(CONFIG)?.query_row([queue.as_str()], |row| row.get(0)).optional()?;
        let definition = Arc::new(Definition::read(stored.flatten().as_deref()));
        self.definitions.borrow_mut().push((queue.clone(), Arc::clone(&definition)));
        Ok(definition)
    }

    /// A definition has changed.
    pub(crate) fn forget_definitions(&self) {
        self.definitions.borrow_mut().clear();
    }
}
