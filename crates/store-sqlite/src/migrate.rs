//! The schema and how it grows. Steps are numbered, applied in order in one transaction each, and never
//! edited after they land. Several processes may open a new file at once: each step is tested again under the
//! write lock.

use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};
use windlass_core::StoreError;

use crate::error::Fault;
use crate::options::{Place, SqliteOptions};
use crate::patience;

/// One step of the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    /// Its number; the schema's version after it.
    pub version: i64,
    /// What it is about.
    pub name: &'static str,
    /// The statements it runs.
    pub sql: &'static str,
}

/// Every step, in order.
pub const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "jobs", sql: include_str!("../migrations/0001_jobs.sql") },
    Migration { version: 2, name: "unique keys", sql: include_str!("../migrations/0002_unique.sql") },
    Migration { version: 3, name: "rules of queues", sql: include_str!("../migrations/0003_rules.sql") },
    Migration { version: 4, name: "keys of jobs", sql: include_str!("../migrations/0004_gates.sql") },
    Migration {
        version: 5,
        name: "places of keys",
        sql: include_str!("../migrations/0005_unique_place.sql"),
    },
    Migration { version: 6, name: "records", sql: include_str!("../migrations/0006_records.sql") },
    Migration { version: 7, name: "tallies", sql: include_str!("../migrations/0007_tallies.sql") },
];

/// How far the schema of a store has grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The version in the store; 0 when it has none.
    pub found: i64,
    /// The newest version that this program knows.
    pub known: i64,
    /// The steps that opening the store would apply.
    pub pending: Vec<Migration>,
}

/// Looks at the schema under a URL and changes nothing. A missing file has everything pending.
pub fn status(url: &str) -> Result<Status, StoreError> {
    let found = match SqliteOptions::parse(url)?.place {
        Place::File(path) if path.is_file() => found_in(&path).map_err(StoreError::from)?,
        Place::File(_) | Place::Memory => 0,
    };
    let pending = MIGRATIONS.iter().copied().filter(|step| step.version > found).collect();
    Ok(Status { found, known: known(), pending })
}

fn found_in(path: &Path) -> Result<i64, Fault> {
    // Not read-only: SQLite must be able to make the shared memory of the log to read it.
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.busy_handler(Some(patience::wait))?;
    version(&connection)
}

/// The newest version that this program knows.
pub(crate) fn known() -> i64 {
    MIGRATIONS.last().map_or(0, |step| step.version)
}

/// Brings the schema up to date.
pub(crate) fn run(connection: &Connection) -> Result<(), Fault> {
    if current(connection)? == known() {
        return Ok(());
    }
    for step in MIGRATIONS {
        // Rolled back when it is dropped: a rollback that fails must not hide why there was one.
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        apply(&transaction, step)?;
        transaction.commit()?;
    }
    Ok(())
}

fn apply(connection: &Connection, step: &Migration) -> Result<(), Fault> {
    if current(connection)? >= step.version {
        return Ok(());
    }
    connection.execute_batch(step.sql)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS windlass_meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT",
    )?;
    // Programs of before the first release look at 'schema', and stay out.
    connection.execute(
        "INSERT INTO windlass_meta (key, value) VALUES ('layout', ?1), ('schema', 1000000)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value",
        [step.version],
    )?;
    Ok(())
}

/// The version found, unless it is one that this program does not know.
fn current(connection: &Connection) -> Result<i64, Fault> {
    let (found, known) = (version(connection)?, known());
    if found > known {
        return Err(Fault::Refused(StoreError::SchemaTooNew { found, known }));
    }
    Ok(found)
}

/// The version in the store; 0 when it has none.
pub(crate) fn version(connection: &Connection) -> Result<i64, Fault> {
    let has_table = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'windlass_meta'";
    let table: Option<i64> =
        connection.prepare_cached(has_table)?.query_row([], |row| row.get(0)).optional()?;
    if table.is_none() {
        return Ok(0);
    }
    // Also nothing for a file of before the first release whose layout has the same number.
    let value = "SELECT value FROM windlass_meta WHERE key = 'layout'
        AND EXISTS (SELECT 1 FROM pragma_table_info('windlass_leases') WHERE name = 'serves')";
    let version = connection.prepare_cached(value)?.query_row([], |row| row.get(0)).optional()?;
    let unreleased = || StoreError::unreleased_layout("file").into();
    version.ok_or_else(unreleased)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_numbered_from_one_without_gaps() {
        for (index, step) in MIGRATIONS.iter().enumerate() {
            assert_eq!(step.version, index as i64 + 1);
            assert!(!step.name.is_empty() && !step.sql.is_empty());
        }
    }

    #[test]
    fn running_twice_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        run(&connection).unwrap();
        run(&connection).unwrap();
        assert_eq!(version(&connection).unwrap(), known());
    }

    #[test]
    fn a_full_disk_is_called_that_and_leaves_nothing_half_done() {
        let connection = Connection::open_in_memory().unwrap();
        connection.pragma_update_and_check(None, "max_page_count", 4, |_| Ok(())).unwrap();
        let error = StoreError::from(run(&connection).unwrap_err());
        assert_eq!(error.to_string(), "store unavailable: the disk is full");
        assert_eq!(version(&connection).unwrap(), 0);
        connection.pragma_update_and_check(None, "max_page_count", 1_000, |_| Ok(())).unwrap();
        run(&connection).unwrap();
    }

    #[test]
    fn a_file_of_before_the_first_release_is_refused_in_words() {
        let connection = Connection::open_in_memory().unwrap();
        run(&connection).unwrap();
        connection
            .execute_batch("DELETE FROM windlass_meta; INSERT INTO windlass_meta VALUES ('schema', 2)")
            .unwrap();
        let error = StoreError::from(run(&connection).unwrap_err());
        assert!(error.to_string().contains("before the first release"), "{error}");
    }

    #[test]
    fn a_newer_schema_is_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        run(&connection).unwrap();
        connection.execute("UPDATE windlass_meta SET value = 99 WHERE key = 'layout'", []).unwrap();
        let Err(Fault::Refused(StoreError::SchemaTooNew { found: 99, known: at })) = run(&connection) else {
            panic!("a newer schema was accepted");
        };
        assert_eq!(at, known());
    }
}
