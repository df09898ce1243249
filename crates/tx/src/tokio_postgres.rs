//! tokio-postgres. Parameters are sent with their types, so a statement costs one round trip and leaves no
//! prepared statement behind, which a transaction pooler would not keep.

use std::error::Error as StdError;
use std::future::Future;

use bytes::{BufMut, Bytes, BytesMut};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, Column, Transaction};
use windlass_core::sql::{Ask, Dialect, Operator, Row, SqlError, Value};
use windlass_core::store::StoreResult;

use crate::converse::{Converse, Run, serve};

type Boxed = Box<dyn StdError + Send + Sync>;

macro_rules! converse {
    ($type:ty) => {
        impl Converse for $type {
            const DIALECT: Dialect = Dialect::Postgres;

            async fn converse<T, F>(&mut self, operator: Operator, conversation: F) -> StoreResult<T>
            where
                F: Future<Output = StoreResult<T>>,
            {
                serve(self, operator, conversation).await
            }
        }

        impl Run for $type {
            async fn run(&mut self, ask: Ask) -> Result<Vec<Row>, SqlError> {
                let parameters: Vec<Parameter<'_>> = ask.values.iter().map(Parameter).collect();
                let typed: Vec<(&(dyn ToSql + Sync), Type)> = parameters
                    .iter()
                    .map(|parameter| (parameter as &(dyn ToSql + Sync), type_of(parameter.0)))
                    .collect();
                let rows = self.query_typed(&ask.sql, &typed).await.map_err(answered)?;
                rows.iter().map(row).collect()
            }
        }
    };
}

converse!(Client);
converse!(Transaction<'_>);

fn type_of(value: &Value) -> Type {
    match value {
        Value::Int(_) => Type::INT8,
        Value::Text(_) => Type::TEXT,
        Value::Bytes(_) => Type::BYTEA,
        Value::Uuid(_) => Type::UUID,
        Value::Ints(_) => Type::INT8_ARRAY,
        Value::Texts(_) => Type::TEXT_ARRAY,
        Value::Blobs(_) => Type::BYTEA_ARRAY,
        Value::Uuids(_) => Type::UUID_ARRAY,
    }
}

#[derive(Debug)]
struct Parameter<'v>(&'v Value);

impl ToSql for Parameter<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        match self.0 {
            Value::Int(number) => number.to_sql(ty, out),
            Value::Text(text) => text.as_deref().to_sql(ty, out),
            Value::Bytes(bytes) => bytes.as_deref().to_sql(ty, out),
            Value::Uuid(bytes) => Uuid(*bytes).to_sql(ty, out),
            Value::Ints(numbers) => numbers.to_sql(ty, out),
            Value::Texts(texts) => texts.to_sql(ty, out),
            Value::Blobs(blobs) => {
                blobs.iter().map(Option::as_deref).collect::<Vec<Option<&[u8]>>>().to_sql(ty, out)
            }
            Value::Uuids(ids) => ids.iter().copied().map(Uuid).collect::<Vec<_>>().to_sql(ty, out),
        }
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    tokio_postgres::types::to_sql_checked!();
}

#[derive(Debug)]
struct Uuid([u8; 16]);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Boxed> {
        out.put_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }

    tokio_postgres::types::to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Boxed> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::UUID
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, SqlError> {
    let columns = row.columns().iter().enumerate();
    columns.map(|(index, column)| value(row, index, column)).collect::<Result<_, _>>().map(Row::new)
}

fn value(row: &tokio_postgres::Row, index: usize, column: &Column) -> Result<Value, SqlError> {
    fn got<'r, T: FromSql<'r>>(row: &'r tokio_postgres::Row, index: usize) -> Result<Option<T>, SqlError> {
        row.try_get(index).map_err(|error| SqlError::Shape(error.to_string()))
    }
    Ok(match *column.type_() {
        Type::INT8 => Value::Int(got(row, index)?),
        Type::INT4 => Value::Int(got::<i32>(row, index)?.map(i64::from)),
        Type::INT2 => Value::Int(got::<i16>(row, index)?.map(i64::from)),
        Type::BOOL => Value::Int(got::<bool>(row, index)?.map(i64::from)),
        Type::TEXT | Type::VARCHAR | Type::NAME => Value::Text(got(row, index)?),
        Type::BYTEA => Value::Bytes(got::<&[u8]>(row, index)?.map(Bytes::copy_from_slice)),
        Type::UUID => got::<Uuid>(row, index)?.map_or(Value::Bytes(None), |Uuid(id)| Value::Uuid(id)),
        ref other => return Err(SqlError::Shape(format!("column `{}` is of type {other}", column.name()))),
    })
}

fn answered(error: tokio_postgres::Error) -> SqlError {
    let said = error.as_db_error().map(|said| (said.code().code().to_owned(), said.message().to_owned()));
    let text = error.to_string();
    match said {
        Some((code, text)) => SqlError::Answered { code, text, source: Some(Box::new(error)) },
        None => SqlError::Broken { text, source: Some(Box::new(error)) },
    }
}
