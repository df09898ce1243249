//! Calls that were accepted, remembered for a while: a repeat stores nothing, also when the jobs have run and are
//! gone meanwhile.
//!
//! Each transaction that brings calls adds one row with their ids, so a call costs 16 bytes at the end of a table and
//! no search in it. The ids of late are held in memory; a transaction first reads what other processes have added,
//! which the write lock makes all there is. A call is known in the period that it came in and in some after it. A
//! period lasts half of [`CALL_MEMORY`] at least, and is followed by the next only when a call comes, so no call is
//! forgotten early, whatever the clock is set to.

use std::collections::{HashSet, VecDeque};

use rusqlite::{Connection, params};
use windlass_core::CallId;
use windlass_core::clock::Timestamp;
use windlass_core::store::CALL_MEMORY;

use crate::error::Fault;
use crate::row;
use crate::session::Session;

const SINCE: &str = include_str!("../../queries/calls/since.sql");
const REMEMBER: &str = include_str!("../../queries/calls/remember.sql");
const FORGET: &str = include_str!("../../queries/calls/forget.sql");

/// Periods after its own in which a call is known: one more than memory needs, for a clock that is set forward.
const KNOWN_AFTER: i64 = 3;
/// Rows that one transaction forgets.
const FORGET_MAX: i64 = 8;

/// What one store knows of the calls of late. Belongs to the writer.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// By period, the oldest first.
    known: VecDeque<(i64, HashSet<CallId>)>,
    /// The newest row that was read or written.
    last: Row,
    /// Those of the running transaction.
    fresh: Vec<CallId>,
    /// Whether the running transaction has read what others have added.
    is_up_to_date: bool,
    /// The row that the running transaction has written.
    written: Option<Row>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Row {
    seq: i64,
    period: i64,
    since: i64,
}

/// Remembers a call. False if it is known already.
pub(crate) fn remember(session: &Session<'_>, call: CallId) -> Result<bool, Fault> {
    let mut calls = session.calls.borrow_mut();
    calls.read(session.connection)?;
    let is_new = !calls.knows(call);
    if is_new {
        calls.fresh.push(call);
    }
    Ok(is_new)
}

/// Whether a call was accepted before.
pub(crate) fn is_known(session: &Session<'_>, call: CallId) -> Result<bool, Fault> {
    let mut calls = session.calls.borrow_mut();
    calls.read(session.connection)?;
    Ok(calls.knows(call))
}

/// The call was refused: nothing of it is left.
pub(crate) fn take_back(session: &Session<'_>, call: CallId) {
    session.calls.borrow_mut().fresh.retain(|fresh| *fresh != call);
}

impl Calls {
    fn knows(&self, call: CallId) -> bool {
        // The transaction's own are few: a group is bounded.
        self.fresh.contains(&call) || self.known.iter().any(|(_, known)| known.contains(&call))
    }

    /// Reads what other processes have added.
    fn read(&mut self, connection: &Connection) -> Result<(), Fault> {
        if self.is_up_to_date {
            return Ok(());
        }
        let mut statement = connection.prepare_cached(SINCE)?;
        let mut rows = statement.query([self.last.seq])?;
        while let Some(found) = rows.next()? {
            let last = Row { seq: found.get(0)?, period: found.get(1)?, since: found.get(2)? };
            let ids = found.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?;
            let (ids, _) = ids.as_chunks();
            self.add(last, ids.iter().map(|id| CallId::from_bytes(*id)));
        }
        self.is_up_to_date = true;
        Ok(())
    }

    fn add(&mut self, last: Row, ids: impl IntoIterator<Item = CallId>) {
        if self.known.back().is_none_or(|(period, _)| *period < last.period) {
            self.known.push_back((last.period, HashSet::new()));
        }
        if let Some((_, known)) = self.known.back_mut() {
            known.extend(ids);
        }
        self.last = last;
        while self.known.front().is_some_and(|(period, _)| *period + KNOWN_AFTER < last.period) {
            self.known.pop_front();
        }
    }

    /// Adds the row of a transaction that brought calls, and takes away some that are too old. Called before the
    /// commit.
    pub(crate) fn write(&mut self, connection: &Connection, now: Timestamp) -> Result<(), Fault> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let (now, Row { period, since, .. }) = (now.as_micros(), self.last);
        let is_over = period == 0 || now < since || now - since >= row::micros(CALL_MEMORY / 2);
        let (period, since) = if is_over { (period + 1, now) } else { (period, since) };
        let ids: Vec<u8> = self.fresh.iter().flat_map(|call| *call.as_bytes()).collect();
        connection.prepare_cached(REMEMBER)?.execute(params![period, since, ids])?;
        self.written = Some(Row { seq: connection.last_insert_rowid(), period, since });
        if period > KNOWN_AFTER {
            connection.prepare_cached(FORGET)?.execute([period - KNOWN_AFTER, FORGET_MAX])?;
        }
        Ok(())
    }

    /// The transaction was committed.
    pub(crate) fn keep(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        if let Some(written) = self.written.take() {
            self.add(written, fresh);
        }
        self.is_up_to_date = false;
    }

    /// The transaction was rolled back, or that is not known. What it may have written is read like that of others.
    pub(crate) fn drop_fresh(&mut self) {
        self.fresh.clear();
        self.written = None;
        self.is_up_to_date = false;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::*;
    use crate::migrate;

    const NOON: Timestamp = Timestamp::from_micros(1_893_456_000_000_000);

    struct Store {
        connection: Connection,
        calls: RefCell<Calls>,
    }

    impl Store {
        fn new() -> Self {
            let connection = Connection::open_in_memory().unwrap();
            migrate::run(&connection).unwrap();
            Self { connection, calls: RefCell::default() }
        }

        /// Whether a call is new, so long after noon, in a transaction that is committed.
        fn is_new(&self, call: CallId, seconds: u64) -> bool {
            let now = NOON.plus(Duration::from_secs(seconds));
            let is_new = remember(&Session::new(&self.connection, now, &self.calls), call).unwrap();
            let mut calls = self.calls.borrow_mut();
            calls.write(&self.connection, now).unwrap();
            calls.keep();
            is_new
        }

        /// As another process would see the same file.
        fn forget_what_is_in_memory(&self) {
            self.calls.take();
        }
    }

    #[test]
    fn a_call_is_known_for_as_long_as_it_may_be_repeated_and_forgotten_later() {
        let store = Store::new();
        let call = CallId::new();
        assert!(store.is_new(call, 59));
        for seconds in (60..=59 + CALL_MEMORY.as_secs()).step_by(10) {
            store.is_new(CallId::new(), seconds);
            assert!(!store.is_new(call, seconds), "after {seconds} s");
            store.forget_what_is_in_memory();
            assert!(!store.is_new(call, seconds), "after {seconds} s, in another process");
        }
        for seconds in (200..900).step_by(100) {
            store.is_new(CallId::new(), seconds);
        }
        let left: i64 =
            store.connection.query_row("SELECT count(*) FROM windlass_calls", [], |row| row.get(0)).unwrap();
        assert!(left < 8, "old calls are forgotten, {left} rows are left");
        assert!(store.calls.borrow().known.len() <= 4);
        assert!(store.is_new(call, 900));
    }

    #[test]
    fn a_clock_that_is_set_forgets_nothing() {
        for later in [7_200, 0] {
            let store = Store::new();
            let call = CallId::new();
            assert!(store.is_new(call, 3_600));
            assert!(!store.is_new(call, later));
            store.is_new(CallId::new(), later + 60);
            assert!(!store.is_new(call, later + 119), "{later}");
        }
    }

    #[test]
    fn what_was_rolled_back_or_refused_is_not_known() {
        let store = Store::new();
        let (rolled_back, refused, call) = (CallId::new(), CallId::new(), CallId::new());
        let session = Session::new(&store.connection, NOON, &store.calls);
        assert!(remember(&session, rolled_back).unwrap());
        assert!(!remember(&session, rolled_back).unwrap(), "twice in one transaction");
        store.calls.borrow_mut().drop_fresh();
        assert!(remember(&session, refused).unwrap() && remember(&session, call).unwrap());
        take_back(&session, refused);
        let mut calls = store.calls.borrow_mut();
        calls.write(&store.connection, NOON).unwrap();
        calls.keep();
        drop(calls);
        assert!(!store.is_new(call, 0));
        assert!(store.is_new(refused, 0) && store.is_new(rolled_back, 0));
    }
}
