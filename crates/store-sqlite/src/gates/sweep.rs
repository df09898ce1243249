//! Compares gates with the rows: a key with ready jobs has a gate, and one that is closed has a reason. Nothing here should
//! ever find anything. Were a gate lost or left closed by a defect or a hand, its jobs would wait for ever without it.
//!
//! SQLite keeps no counter of the running jobs of a key: claims count the rows. So the sweep compares no counters.

use std::cell::RefCell;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};
use windlass_core::bell::Rings;
use windlass_core::clock::Timestamp;
use windlass_core::{Name, State};

use super::{Gates, LOWEST};
use crate::error::Fault;
use crate::row;
use crate::session::Session;

const NEXT_KEY: &str = include_str!("../../queries/sweep/next_key.sql");
const KEY: &str = include_str!("../../queries/sweep/key.sql");
const MAKE: &str = include_str!("../../queries/sweep/make.sql");
const OPEN: &str = include_str!("../../queries/sweep/open.sql");

/// Keys with ready jobs that one round looks at.
const KEYS_LOOKED: usize = 200;

/// The key that a round has come to; the next one goes on after it. At the end it begins anew.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place {
    queue: Text,
    key: Text,
}

/// A text as it is stored, which may be none that reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Text(Vec<u8>);

impl ToSql for Text {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(&self.0)))
    }
}

/// What a round has found.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Keys whose gates are not as they should be, with their queues.
    pub(crate) damaged: Vec<(Name, Name)>,
    pub(crate) next: Place,
}

/// A gate as it is stored.
struct Stored {
    open_at: i64,
    version: i64,
}

/// Looks at the keys after a place, until so many damaged gates are found. Where no job has a key it looks once.
pub(crate) fn look(
    connection: &Connection,
    now: Timestamp,
    after: &Place,
    limit: u32,
) -> Result<Found, Fault> {
    let calls = RefCell::default();
    let session = Session::new(connection, now, &calls);
    let mut statement = session.prepare(NEXT_KEY)?;
    let mut found = Found { damaged: Vec::new(), next: after.clone() };
    for _ in 0..KEYS_LOOKED {
        if found.damaged.len() == limit as usize {
            break;
        }
        let mut rows = statement.query(params![found.next.queue, found.next.key])?;
        let Some(key) = rows.next()? else {
            found.next = Place::default();
            break;
        };
        found.next = Place { queue: text(key, 0)?, key: text(key, 1)? };
        let gate = stored(key, 2)?;
        // The sweep skips a key whose text breaks the rules of names: a claim that meets its gate deletes the gate.
        let names = (row::readable(row::name(key, 0))?, row::readable(row::name(key, 1))?);
        if let (Some(queue), Some(key)) = names
            && is_damaged(&session, &queue, &key, gate.as_ref())?
        {
            found.damaged.push((queue, key));
        }
    }
    Ok(found)
}

/// Makes the gates of these keys again, or opens them, where that is still to be done. Answers how many.
pub(crate) fn mend(session: &Session<'_>, damaged: &[(Name, Name)]) -> Result<u32, Fault> {
    let (mut made, mut opened, mut first) = (0, 0, None);
    for (queue, key) in damaged {
        let names = [queue.as_str(), key.as_str()];
        let gate = session.prepare(KEY)?.query_row(names, |row| stored(row, 0)).optional()?;
        let Some(gate) = gate else { continue };
        if !is_damaged(session, queue, key, gate.as_ref())? {
            continue;
        }
        let lowest = session.prepare(LOWEST)?.query_row([queue.as_str()], |row| row.get(0)).optional()?;
        let fields = params![queue.as_str(), key.as_str(), lowest.unwrap_or(0i64)];
        let (sql, count) = if gate.is_none() { (MAKE, &mut made) } else { (OPEN, &mut opened) };
        session.prepare(sql)?.execute(fields)?;
        *count += 1;
        first.get_or_insert((queue, key));
        session.ring(Rings::entered(State::Ready, queue));
    }
    if let Some((queue, key)) = first {
        tracing::warn!(%queue, %key, made, opened, "mended gates that kept ready jobs back, this one first");
    }
    Ok(made + opened)
}

/// Whether ready jobs of a key would wait behind its gate for no reason. A gate whose time has come is opened by claims, and so
/// is one that an earlier definition has closed.
fn is_damaged(session: &Session<'_>, queue: &Name, key: &Name, gate: Option<&Stored>) -> Result<bool, Fault> {
    let definition = session.definition(queue)?;
    let is_known = definition.unreadable.is_none() && definition.check_rules(queue).is_ok();
    let Some(&Stored { open_at, version }) = gate else { return Ok(is_known) };
    if !is_known || version < definition.version || open_at <= session.now.as_micros() {
        return Ok(false);
    }
    if version > definition.version {
        // No definition that there was has closed it.
        return Ok(true);
    }
    let gates = Gates::of(session, queue, &definition);
    let standing = gates.standing(&mut gates.asking(1)?, key)?;
    Ok(standing.leave(gates.rules, 1) > 0)
}

fn stored(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Stored>> {
    let (open_at, version): (Option<i64>, Option<i64>) = (row.get(first)?, row.get(first + 1)?);
    Ok(open_at.zip(version).map(|(open_at, version)| Stored { open_at, version }))
}

fn text(row: &Row<'_>, column: usize) -> Result<Text, Fault> {
    Ok(Text(row.get_ref(column)?.as_bytes().unwrap_or_default().to_vec()))
}
