//! sqlx 0.9.

#[cfg(feature = "postgres")]
#[path = "sqlx/postgres.rs"]
#[allow(clippy::duplicate_mod, reason = "the two versions of sqlx differ in their types only")]
mod postgres;
#[cfg(feature = "sqlite")]
#[path = "sqlx/sqlite.rs"]
mod sqlite;

use sqlx as driver;
use sqlx::query::Query;
use sqlx::{AssertSqlSafe, Database};
use windlass_core::sql::SqlError;

/// Statements come from the store's own files; all that is put into them is the name of a schema, which the
/// store has checked to be a plain identifier. Everything else is a parameter.
fn statement<DB: Database>(sql: &str) -> Query<'_, DB, DB::Arguments> {
    driver::query(AssertSqlSafe(sql.to_owned()))
}

fn answered(error: driver::Error) -> SqlError {
    let said = error
        .as_database_error()
        .map(|said| (said.code().unwrap_or_default().into_owned(), said.message().to_owned()));
    let text = error.to_string();
    match said {
        Some((code, text)) => SqlError::Answered { code, text, source: Some(Box::new(error)) },
        None => SqlError::Broken { text, source: Some(Box::new(error)) },
    }
}
