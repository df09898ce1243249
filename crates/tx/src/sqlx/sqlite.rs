//! SQLite through sqlx.
//!
//! The savepoint is one of sqlx's own, because sqlx counts them, and rolls back what is dropped. It does not
//! know of a transaction that was begun by a statement of the user's.

use std::future::Future;

use bytes::Bytes;
use windlass_core::StoreError;
use windlass_core::sql::{Ask, Dialect, Operator, Row as Found, SqlError, Value};
use windlass_core::store::StoreResult;

use super::driver::pool::PoolConnection;
use super::driver::sqlite::SqliteRow;
use super::driver::{
    Connection, Row, Sqlite, SqliteConnection, Transaction, TypeInfo, ValueRef, error::DatabaseError,
};
use super::{answered, driver, statement};
use crate::converse::{Converse, Run, serve};

macro_rules! converse {
    ($type:ty) => {
        impl Converse for $type {
            const DIALECT: Dialect = Dialect::Sqlite;

            async fn converse<T, F>(&mut self, operator: Operator, conversation: F) -> StoreResult<T>
            where
                F: Future<Output = StoreResult<T>>,
            {
                let connection: &mut SqliteConnection = self;
                let mut frame = connection.begin().await.map_err(not_begun)?;
                let answer = serve(&mut *frame, operator, conversation).await;
                match &answer {
                    Ok(_) => frame.commit().await.map_err(not_committed)?,
                    // Awaited, so that the lock is free when the caller hears of it.
                    Err(_) => frame.rollback().await.map_err(not_begun)?,
                }
                answer
            }
        }
    };
}

converse!(SqliteConnection);
converse!(PoolConnection<Sqlite>);
converse!(Transaction<'_, Sqlite>);

impl Run for SqliteConnection {
    async fn run(&mut self, ask: Ask) -> Result<Vec<Found>, SqlError> {
        let mut query = statement::<Sqlite>(&ask.sql);
        for value in ask.values {
            query = match value {
                Value::Int(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes.map(Vec::from)),
                Value::Uuid(id) => query.bind(id.to_vec()),
                Value::Ints(_) | Value::Texts(_) | Value::Blobs(_) | Value::Uuids(_) => {
                    return Err(SqlError::Shape("SQLite has no arrays".to_owned()));
                }
            };
        }
        let rows = query.fetch_all(self).await.map_err(answered)?;
        rows.iter().map(row).collect()
    }
}

fn row(row: &SqliteRow) -> Result<Found, SqlError> {
    (0..row.len()).map(|index| value(row, index)).collect::<Result<_, _>>().map(Found::new)
}

fn value(row: &SqliteRow, index: usize) -> Result<Value, SqlError> {
    let shape = |error: driver::Error| SqlError::Shape(error.to_string());
    let stored = row.try_get_raw(index).map_err(shape)?;
    if stored.is_null() {
        return Ok(Value::Int(None));
    }
    let kind = stored.type_info().into_owned();
    Ok(match kind.name() {
        "INTEGER" => Value::Int(row.try_get_unchecked(index).map_err(shape)?),
        "TEXT" => Value::Text(row.try_get_unchecked(index).map_err(shape)?),
        "BLOB" => {
            let bytes: &[u8] = row.try_get_unchecked(index).map_err(shape)?;
            Value::Bytes(Some(Bytes::copy_from_slice(bytes)))
        }
        other => return Err(SqlError::Shape(format!("column {index} is of type {other}"))),
    })
}

fn not_begun(error: driver::Error) -> StoreError {
    if error.as_database_error().map(DatabaseError::message)
        == Some("cannot start a transaction within a transaction")
    {
        return StoreError::Transaction(
            "the transaction was begun by a statement, so sqlx does not know of it: begin it with \
             `begin_with(\"BEGIN IMMEDIATE\")`"
                .to_owned(),
        );
    }
    let what = format!("the connection takes no savepoint: {error}");
    StoreError::Unavailable { what, source: Some(Box::new(error)) }
}

/// Inside a transaction this only frees a name; on a bare connection it is the commit.
fn not_committed(error: driver::Error) -> StoreError {
    let what = format!("the commit was not confirmed: {error}");
    StoreError::Unknown { what, source: Some(Box::new(error)) }
}
