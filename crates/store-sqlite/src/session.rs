//! What an operation sees of the transaction it runs in: the connection, the time, the definitions of queues,
//! and where to note what it moved and whom to wake.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use rusqlite::{CachedStatement, Connection, OptionalExtension};
use windlass_core::bell::{Rings, Topic};
use windlass_core::clock::Timestamp;
use windlass_core::queue::QueueConfig;
use windlass_core::{Name, State};

use crate::counters::Deltas;
use crate::error::Fault;
use crate::jobs::calls::Calls;
use crate::row;

pub(crate) const CONFIG: &str = include_str!("../queries/queues/config.sql");

/// One transaction, shared by the operations that are committed together.
pub(crate) struct Session<'c> {
    pub(crate) connection: &'c Connection,
    /// Read once, with the write lock held, so that instants grow in the order of transactions.
    pub(crate) now: Timestamp,
    deltas: RefCell<Deltas>,
    rings: Cell<Rings>,
    configs: RefCell<Vec<(Name, Rc<QueueConfig>)>>,
    pub(crate) calls: &'c RefCell<Calls>,
}

impl<'c> Session<'c> {
    pub(crate) fn new(connection: &'c Connection, now: Timestamp, calls: &'c RefCell<Calls>) -> Self {
        Self {
            connection,
            now,
            deltas: RefCell::default(),
            rings: Cell::default(),
            configs: RefCell::default(),
            calls,
        }
    }

    pub(crate) fn prepare(&self, sql: &str) -> Result<CachedStatement<'c>, Fault> {
        Ok(self.connection.prepare_cached(sql)?)
    }

    /// Jobs came into a state, and whoever waits for that should hear of it.
    pub(crate) fn entered(&self, queue: &Name, state: State, jobs: usize) {
        if jobs > 0 {
            self.deltas.borrow_mut().add(queue, state, jobs as i64);
            self.ring(Rings::entered(state));
        }
    }

    /// Jobs became ready because their time has come. Idle workers know the time and come by themselves.
    pub(crate) fn promoted(&self, queue: &Name, jobs: usize) {
        if jobs > 0 {
            let mut deltas = self.deltas.borrow_mut();
            deltas.add(queue, State::Scheduled, -(jobs as i64));
            deltas.add(queue, State::Ready, jobs as i64);
        }
    }

    /// Jobs are gone for good.
    pub(crate) fn left(&self, queue: &Name, state: State, jobs: usize) {
        self.deltas.borrow_mut().add(queue, state, -(jobs as i64));
    }

    /// Jobs are gone for good, and whoever waits for their end should hear of that.
    pub(crate) fn removed(&self, queue: &Name, state: State, jobs: usize) {
        self.left(queue, state, jobs);
        self.ring_about(Topic::Finish);
    }

    /// Jobs went from one state to another.
    pub(crate) fn moved(&self, queue: &Name, from: State, to: State, jobs: usize) {
        self.left(queue, from, jobs);
        self.entered(queue, to, jobs);
    }

    pub(crate) fn ring_about(&self, topic: Topic) {
        self.ring(Rings::about(topic));
    }

    fn ring(&self, more: Rings) {
        self.rings.set(self.rings.get().and(more));
    }

    /// What is owed when the transaction has taken effect.
    pub(crate) fn rings(&self) -> Rings {
        self.rings.get()
    }

    /// Writes the counters as of now. The transaction does it before it commits; an operation that reads
    /// counters does it before it looks.
    pub(crate) fn write_counters(&self) -> Result<(), Fault> {
        self.deltas.borrow_mut().write(self.connection)
    }

    /// The definition of a queue, or the default one.
    pub(crate) fn config(&self, queue: &Name) -> Result<Rc<QueueConfig>, Fault> {
        if let Some((_, config)) = self.configs.borrow().iter().find(|(name, _)| name == queue) {
            return Ok(Rc::clone(config));
        }
        let stored: Option<Option<String>> =
            self.prepare(CONFIG)?.query_row([queue.as_str()], |row| row.get(0)).optional()?;
        let config = Rc::new(row::config_or_unreadable(stored.flatten().as_deref()).0);
        self.configs.borrow_mut().push((queue.clone(), Rc::clone(&config)));
        Ok(config)
    }

    /// A definition has changed.
    pub(crate) fn forget_configs(&self) {
        self.configs.borrow_mut().clear();
    }
}
