//! sqlx 0.8, with PostgreSQL only.

#[path = "sqlx/postgres.rs"]
#[allow(clippy::duplicate_mod, reason = "the two versions of sqlx differ in their types only")]
mod postgres;

use driver::Database;
use driver::query::Query;
use sqlx_08 as driver;
use windlass_core::sql::SqlError;

fn statement<DB: Database>(sql: &str) -> Query<'_, DB, DB::Arguments<'_>> {
    driver::query(sql)
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
