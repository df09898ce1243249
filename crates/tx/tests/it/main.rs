//! Enqueueing and completing inside transactions of real drivers, on real stores.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod keys_sqlite;
mod pooler;
mod postgres;
mod refused;
mod rusqlite;
mod sqlx_sqlite;
mod support;
mod unique_sqlite;
mod versioned;
mod worker;
