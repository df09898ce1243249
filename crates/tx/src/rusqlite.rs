//! rusqlite: blocking, so that a conversation ends within the first poll.

use std::future::Future;

use bytes::Bytes;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Savepoint, ToSql, Transaction};
use windlass_core::StoreError;
use windlass_core::sql::{Ask, Dialect, Operator, Row, SqlError, Value};
use windlass_core::store::StoreResult;

use crate::converse::{Blocking, Converse, Run, serve};

macro_rules! converse {
    ($type:ty) => {
        impl Converse for $type {
            const DIALECT: Dialect = Dialect::Sqlite;

            async fn converse<T, F>(&mut self, operator: Operator, conversation: F) -> StoreResult<T>
            where
                F: Future<Output = StoreResult<T>>,
            {
                framed(self.savepoint(), operator, conversation).await
            }
        }

        impl Blocking for $type {}
    };
}

converse!(Connection);
converse!(Transaction<'_>);
converse!(Savepoint<'_>);

/// A savepoint that goes out of scope is rolled back, so an error or a panic leaves nothing.
async fn framed<T, F>(
    frame: rusqlite::Result<Savepoint<'_>>,
    operator: Operator,
    conversation: F,
) -> StoreResult<T>
where
    F: Future<Output = StoreResult<T>>,
{
    let mut frame = frame.map_err(|error| not_begun(&error))?;
    let answer = serve(&mut frame, operator, conversation).await?;
    frame.commit().map_err(|error| not_committed(&error))?;
    Ok(answer)
}

impl Run for Savepoint<'_> {
    async fn run(&mut self, ask: Ask) -> Result<Vec<Row>, SqlError> {
        run(self, &ask).map_err(answered)
    }
}

fn run(connection: &Connection, ask: &Ask) -> rusqlite::Result<Vec<Row>> {
    let mut statement = connection.prepare_cached(&ask.sql)?;
    let columns = statement.column_count();
    let values = rusqlite::params_from_iter(ask.values.iter().map(Parameter));
    let mut rows = statement.query(values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let column = |index| row.get_ref(index).map(value);
        found.push(Row::new((0..columns).map(column).collect::<Result<_, _>>()?));
    }
    Ok(found)
}

fn value(stored: ValueRef<'_>) -> Value {
    match stored {
        ValueRef::Null => Value::Int(None),
        ValueRef::Integer(number) => Value::Int(Some(number)),
        // Nothing in the store is a fraction; a text shows what it was.
        ValueRef::Real(number) => Value::Text(Some(number.to_string())),
        ValueRef::Text(text) => Value::Text(Some(String::from_utf8_lossy(text).into_owned())),
        ValueRef::Blob(bytes) => Value::Bytes(Some(Bytes::copy_from_slice(bytes))),
    }
}

struct Parameter<'v>(&'v Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let borrowed = match self.0 {
            Value::Int(Some(number)) => ValueRef::Integer(*number),
            Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Value::Bytes(Some(bytes)) => ValueRef::Blob(bytes),
            Value::Uuid(bytes) => ValueRef::Blob(bytes),
            Value::Int(None) | Value::Text(None) | Value::Bytes(None) => ValueRef::Null,
            Value::Ints(_) | Value::Texts(_) | Value::Blobs(_) | Value::Uuids(_) => {
                let what = "SQLite has no arrays".to_owned();
                return Err(rusqlite::Error::ToSqlConversionFailure(what.into()));
            }
        };
        Ok(ToSqlOutput::Borrowed(borrowed))
    }
}

fn answered(error: rusqlite::Error) -> SqlError {
    let text = error.to_string();
    match error.sqlite_error() {
        Some(failure) => SqlError::Answered {
            code: failure.extended_code.to_string(),
            text,
            source: Some(Box::new(error)),
        },
        None => SqlError::Shape(text),
    }
}

fn not_begun(error: &rusqlite::Error) -> StoreError {
    let what = format!("the transaction takes no savepoint: {error}");
    StoreError::Unavailable { what, source: None }
}

/// Inside a transaction this only frees a name; on a bare connection it is the commit.
fn not_committed(error: &rusqlite::Error) -> StoreError {
    let what = format!("the commit was not confirmed: {error}");
    StoreError::Unknown { what, source: None }
}
