//! PostgreSQL through sqlx. Compiled once per supported version of sqlx, which the module above names.
//!
//! Statements are not kept prepared, at the price of a round trip each: behind a transaction pooler the names
//! of those that sqlx keeps meet those of its other connections.

use std::future::Future;

use bytes::Bytes;
use windlass_core::sql::{Ask, Dialect, Operator, Row as Found, SqlError, Value};
use windlass_core::store::StoreResult;

use super::driver::encode::{Encode, IsNull};
use super::driver::error::BoxDynError;
use super::driver::pool::PoolConnection;
use super::driver::postgres::types::Oid;
use super::driver::postgres::{
    PgArgumentBuffer, PgHasArrayType, PgRow, PgTypeInfo, PgValueFormat, PgValueRef,
};
use super::driver::{Column, Decode, PgConnection, Postgres, Row, Transaction, Type, TypeInfo};
use super::{answered, statement};
use crate::converse::{Converse, Run, serve};

macro_rules! converse {
    ($type:ty) => {
        impl Converse for $type {
            const DIALECT: Dialect = Dialect::Postgres;

            async fn converse<T, F>(&mut self, operator: Operator, conversation: F) -> StoreResult<T>
            where
                F: Future<Output = StoreResult<T>>,
            {
                let connection: &mut PgConnection = self;
                serve(connection, operator, conversation).await
            }
        }
    };
}

converse!(PgConnection);
converse!(PoolConnection<Postgres>);
converse!(Transaction<'_, Postgres>);

impl Run for PgConnection {
    async fn run(&mut self, ask: Ask) -> Result<Vec<Found>, SqlError> {
        let mut query = statement::<Postgres>(&ask.sql);
        for value in ask.values {
            query = match value {
                Value::Int(number) => query.bind(number),
                Value::Text(text) => query.bind(text),
                Value::Bytes(bytes) => query.bind(bytes.map(Vec::from)),
                Value::Uuid(id) => query.bind(Uuid(id)),
                Value::Ints(numbers) => query.bind(numbers),
                Value::Texts(texts) => query.bind(texts),
                Value::Blobs(blobs) => query.bind(
                    blobs.into_iter().map(|blob| blob.map(Vec::from)).collect::<Vec<Option<Vec<u8>>>>(),
                ),
                Value::Uuids(ids) => query.bind(ids.into_iter().map(Uuid).collect::<Vec<_>>()),
            };
        }
        let rows = query.persistent(false).fetch_all(self).await.map_err(answered)?;
        rows.iter().map(row).collect()
    }
}

fn row(row: &PgRow) -> Result<Found, SqlError> {
    let columns = row.columns().iter().enumerate();
    let value = |(index, column): (usize, &<Postgres as super::driver::Database>::Column)| {
        value(row, index, column.type_info().name())
    };
    columns.map(value).collect::<Result<_, _>>().map(Found::new)
}

fn value(row: &PgRow, index: usize, kind: &str) -> Result<Value, SqlError> {
    let shape = |error: super::driver::Error| SqlError::Shape(error.to_string());
    Ok(match kind {
        "INT8" => Value::Int(row.try_get(index).map_err(shape)?),
        "INT4" => Value::Int(row.try_get::<Option<i32>, _>(index).map_err(shape)?.map(i64::from)),
        "INT2" => Value::Int(row.try_get::<Option<i16>, _>(index).map_err(shape)?.map(i64::from)),
        "BOOL" => Value::Int(row.try_get::<Option<bool>, _>(index).map_err(shape)?.map(i64::from)),
        "TEXT" | "VARCHAR" | "NAME" => Value::Text(row.try_get(index).map_err(shape)?),
        "BYTEA" => {
            let bytes: Option<&[u8]> = row.try_get(index).map_err(shape)?;
            Value::Bytes(bytes.map(Bytes::copy_from_slice))
        }
        "UUID" => {
            let id: Option<Uuid> = row.try_get(index).map_err(shape)?;
            id.map_or(Value::Bytes(None), |Uuid(id)| Value::Uuid(id))
        }
        other => return Err(SqlError::Shape(format!("column {index} is of type {other}"))),
    })
}

/// sqlx has its own only with a feature that the user would have to agree to.
struct Uuid([u8; 16]);

const UUID: Oid = Oid(2950);
const UUID_ARRAY: Oid = Oid(2951);

impl Type<Postgres> for Uuid {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UUID)
    }
}

impl PgHasArrayType for Uuid {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UUID_ARRAY)
    }
}

impl Encode<'_, Postgres> for Uuid {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
}

impl<'r> Decode<'r, Postgres> for Uuid {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Self(value.as_bytes()?.try_into()?)),
            PgValueFormat::Text => Err("a uuid came as text".into()),
        }
    }
}
