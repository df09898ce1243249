//! What accepting and moving jobs need of the transaction that they run in. There are two: the writer's own, which
//! answers at once, and one of the user's, which is asked over a line. `accept` and `moves` are written once for both.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt;
use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension, Statement};
use windlass_core::clock::Timestamp;
use windlass_core::sql::{Row, Value};
use windlass_core::{Bytes, Name, NewJob};

use crate::accept::{self, BY_ID, Insert, NEWEST};
use crate::error::Fault;
use crate::keys;
use crate::moves::Moves;
use crate::row::definition::Definition;
use crate::session::Session;

/// A transaction that holds the file's write lock.
pub(crate) trait Transaction {
    type Error: From<Fault>;

    /// Read once, with the write lock held.
    fn now(&self) -> Timestamp;

    /// Notes what has moved.
    fn note(&mut self, note: impl FnOnce(&mut Moves));

    /// Writes the counters as of now.
    async fn write_counters(&mut self) -> Result<(), Self::Error>;

    /// The definition of a queue, or the default one.
    async fn definition(&mut self, queue: &Name) -> Result<Arc<Definition>, Self::Error>;

    /// Runs a statement that answers nothing.
    async fn run(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<(), Self::Error>;

    /// The first row that a statement finds.
    async fn find(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<Option<Row>, Self::Error>;

    /// All rows that a statement finds or answers.
    async fn find_all(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<Vec<Row>, Self::Error>;

    /// Inserts one job, or as many as there is an [`Insert`] for. Answers for each its place in the order of acceptance, or
    /// nothing if a job with its id was there; of two with one id in a call, the first is inserted. Of many, nothing also if
    /// another row has the place of its unique key.
    async fn insert(&mut self, jobs: &[NewJob]) -> Result<Vec<Option<i64>>, Self::Error>;
}

/// A parameter of a statement.
#[derive(Debug)]
pub(crate) enum Field<'a> {
    Int(Option<i64>),
    Text(Option<Cow<'a, str>>),
    Bytes(Option<&'a Bytes>),
    Slice(&'a [u8]),
    Id(&'a [u8; 16]),
}

impl Field<'_> {
    /// As a line takes it.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Int(value) => Value::Int(*value),
            Self::Text(value) => Value::Text(value.as_deref().map(str::to_owned)),
            Self::Bytes(value) => Value::Bytes(value.cloned()),
            Self::Slice(bytes) => Value::Bytes(Some(Bytes::copy_from_slice(bytes))),
            Self::Id(id) => Value::Uuid(**id),
        }
    }
}

impl From<i64> for Field<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Field<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl<'a> From<&'a str> for Field<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(Cow::Borrowed(value)))
    }
}

impl From<Option<String>> for Field<'_> {
    fn from(value: Option<String>) -> Self {
        Self::Text(value.map(Cow::Owned))
    }
}

impl<'a> From<Option<&'a Bytes>> for Field<'a> {
    fn from(value: Option<&'a Bytes>) -> Self {
        Self::Bytes(value)
    }
}

impl ToSql for Field<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Int(value) => value.map_or(ValueRef::Null, ValueRef::Integer),
            Self::Text(value) => {
                value.as_deref().map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
            }
            Self::Bytes(value) => value.map_or(ValueRef::Null, |bytes| ValueRef::Blob(bytes)),
            Self::Slice(bytes) => ValueRef::Blob(bytes),
            Self::Id(id) => ValueRef::Blob(&id[..]),
        }))
    }
}

impl Transaction for &Session<'_> {
    type Error = Fault;

    fn now(&self) -> Timestamp {
        self.now
    }

    fn note(&mut self, note: impl FnOnce(&mut Moves)) {
        note(&mut self.moves.borrow_mut());
    }

    async fn write_counters(&mut self) -> Result<(), Fault> {
        Session::write_counters(self)
    }

    async fn definition(&mut self, queue: &Name) -> Result<Arc<Definition>, Fault> {
        Session::definition(self, queue)
    }

    async fn run(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<(), Fault> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, fields)?;
        statement.raw_execute()?;
        Ok(())
    }

    async fn find(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<Option<Row>, Fault> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, fields)?;
        statement.raw_query().next()?.map(read).transpose()
    }

    async fn find_all(&mut self, sql: &'static str, fields: &[Field<'_>]) -> Result<Vec<Row>, Fault> {
        let mut statement = self.prepare(sql)?;
        bind(&mut statement, fields)?;
        let (mut rows, mut found) = (statement.raw_query(), Vec::new());
        while let Some(row) = rows.next()? {
            found.push(read(row)?);
        }
        Ok(found)
    }

    async fn insert(&mut self, jobs: &[NewJob]) -> Result<Vec<Option<i64>>, Fault> {
        let is_lone = jobs.len() == 1;
        let before = if is_lone { 0 } else { newest(self)? };
        let mut insert = self.prepare(Insert::of(jobs).sql)?;
        let mut place = 1;
        for job in jobs {
            for field in accept::fields(job, self.now)?.iter().chain(&keys::fields(job, jobs.len())) {
                insert.raw_bind_parameter(place, field)?;
                place += 1;
            }
        }
        let inserted = insert.raw_execute()?;
        if inserted == jobs.len() {
            let last = self.connection.last_insert_rowid();
            return Ok((last - (inserted as i64 - 1)..=last).map(Some).collect());
        }
        if is_lone {
            return Ok(vec![None]);
        }
        let mut new = HashSet::new();
        let mut seqs = Vec::with_capacity(jobs.len());
        for job in jobs {
            let seq: Option<i64> =
                self.prepare(BY_ID)?.query_row([job.id.as_bytes()], |row| row.get(0)).optional()?;
            seqs.push(seq.filter(|seq| *seq > before && new.insert(job.id)));
        }
        Ok(seqs)
    }
}

/// The newest job's place in the order of acceptance.
pub(crate) fn newest(session: &Session<'_>) -> Result<i64, Fault> {
    Ok(session.prepare(NEWEST)?.query_row([], |row| row.get(0)).optional()?.unwrap_or(0))
}

fn bind(statement: &mut Statement<'_>, fields: &[Field<'_>]) -> Result<(), Fault> {
    for (field, place) in fields.iter().zip(1..) {
        statement.raw_bind_parameter(place, field)?;
    }
    Ok(())
}

/// A row as a line would answer it.
pub(crate) fn read(row: &rusqlite::Row<'_>) -> Result<Row, Fault> {
    let columns = 0..row.as_ref().column_count();
    Ok(Row::new(columns.map(|column| value(row, column)).collect::<Result<_, _>>()?))
}

fn value(row: &rusqlite::Row<'_>, column: usize) -> Result<Value, Fault> {
    Ok(match row.get_ref(column)? {
        ValueRef::Null => Value::Int(None),
        ValueRef::Integer(value) => Value::Int(Some(value)),
        ValueRef::Text(text) => Value::Text(Some(String::from_utf8_lossy(text).into_owned())),
        ValueRef::Blob(bytes) => Value::Bytes(Some(Bytes::copy_from_slice(bytes))),
        ValueRef::Real(_) => return Err(Fault::Corrupt(format!("column {column} is a real number"))),
    })
}

/// The answer of a future about the writer's own transaction, which never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the writer's connection answers at once")
}
