//! Opening the file: what is refused, how it is made, and how each connection is set up.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use windlass_core::StoreError;
use windlass_core::store::Durability;

use crate::conditions::Conditions;
use crate::error::{Fault, is_busy};
use crate::options::{Create, Guard, Place, SqliteOptions, Synchronous, address};
use crate::{filesystem, migrate, patience};

/// The oldest SQLite that keeps what it has committed: before it, two connections that checkpoint at the same
/// time could lose the newest commits.
const SQLITE_MIN: i32 = 3_051_003;
/// What the log is cut to when it starts over, in bytes: more than it usually grows to, so that only one that a reader
/// made long is cut.
const LOG_KEPT: u64 = 24 << 20;
/// Cached statements per connection: more than there are.
const STATEMENTS: usize = 160;

/// Everything that opening gives: connections that are set up, on a schema that is up to date.
pub(crate) struct Opened {
    pub(crate) writer: Connection,
    /// None for a store in memory, which only its one connection can see.
    pub(crate) readers: Vec<Connection>,
    pub(crate) file: Option<StoreFile>,
    pub(crate) durability: Durability,
    pub(crate) conditions: Conditions,
}

/// Where the store is on disk, and the file beside it through which processes wake each other.
pub(crate) struct StoreFile {
    pub(crate) path: PathBuf,
    pub(crate) bell_path: PathBuf,
    pub(crate) bell: Arc<File>,
}

impl StoreFile {
    pub(crate) fn log(&self) -> PathBuf {
        beside(&self.path, "-wal")
    }
}

/// Opens the place that the options name. Blocks.
pub(crate) fn open(options: &SqliteOptions, readers: usize) -> Result<Opened, StoreError> {
    check_version(rusqlite::version_number(), rusqlite::version(), options.old_sqlite)?;
    match &options.place {
        Place::Memory => open_memory().map_err(StoreError::from),
        Place::File(path) => open_file(path, options, readers),
    }
}

fn open_memory() -> Result<Opened, Fault> {
    let writer = Connection::open_in_memory()?;
    set_up(&writer, -16_000)?;
    migrate::run(&writer)?;
    Ok(Opened {
        writer,
        readers: Vec::new(),
        file: None,
        durability: Durability::Process,
        conditions: Conditions::of_memory(),
    })
}

fn open_file(path: &Path, options: &SqliteOptions, readers: usize) -> Result<Opened, StoreError> {
    let path = prepare(path, options)?;
    let failed = |fault: Fault| explain(fault, &path);
    let writer = connect(&path).and_then(|writer| {
        set_up(&writer, -16_000)?;
        use_log(&writer, options.synchronous)?;
        migrate::run(&writer)?;
        Ok(writer)
    });
    let writer = writer.map_err(failed)?;
    let readers = (0..readers).map(|_| reader(&path)).collect::<Result<Vec<_>, Fault>>().map_err(failed)?;
    let bell_path = beside(&path, "-bell");
    let bell = private().read(true).open(&bell_path).map_err(|error| {
        address(format!("cannot make {}: {error}; the directory must be writable", bell_path.display()))
    })?;
    let durability = match options.synchronous {
        Synchronous::Full => Durability::PowerCut,
        Synchronous::Normal => Durability::Crash,
    };
    let file = StoreFile { path, bell_path, bell: Arc::new(bell) };
    let conditions = Conditions::of_file(file.path.clone(), file.log(), beside(&file.path, "-reserve"));
    Ok(Opened { writer, readers, file: Some(file), durability, conditions })
}

/// A connection that only looks.
pub(crate) fn reader(path: &Path) -> Result<Connection, Fault> {
    let reader = connect(path)?;
    set_up(&reader, -8_000)?;
    reader.pragma_update(None, "query_only", true)?;
    Ok(reader)
}

/// Checks the place, makes the file and answers its full path.
fn prepare(path: &Path, options: &SqliteOptions) -> Result<PathBuf, StoreError> {
    let shown = path.display();
    if path.is_dir() {
        return Err(address(format!("{shown} is a directory: name a file in it, as {shown}/windlass.db")));
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if !parent.is_dir() {
        return Err(address(format!("{shown}: there is no directory {}: make it first", parent.display())));
    }
    if let (Guard::Refuse, Some(kind)) = (options.network, filesystem::network_kind(parent)) {
        return Err(address(format!(
            "{shown} is on a network file system ({kind}), where SQLite's locks do not hold and jobs can be lost: \
             use a local disk or a store server, or say network=allow"
        )));
    }
    if options.create == Create::Never && !path.exists() {
        return Err(address(format!("there is no store at {shown}")));
    }
    match private().create_new(true).open(path) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(address(format!("cannot make {shown}: {error}"))),
    }
    path.canonicalize().map_err(|error| address(format!("cannot find {shown}: {error}")))
}

/// How files are made: readable for this account only. SQLite gives its log the mode of the file it belongs to.
pub(crate) fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn connect(path: &Path) -> Result<Connection, Fault> {
    // No mutex: each connection belongs to one thread. No URI: the path is taken as it is.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Ok(Connection::open_with_flags(path, flags)?)
}

/// `cache` as SQLite takes it: negative KiB.
fn set_up(connection: &Connection, cache: i64) -> Result<(), Fault> {
    connection.busy_handler(Some(patience::wait))?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    // Or SQLite would plan a statement anew each time that its limit is bound.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    connection.pragma_update(None, "cache_size", cache)?;
    connection.pragma_update(None, "temp_store", "memory")?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(())
}

fn use_log(connection: &Connection, synchronous: Synchronous) -> Result<(), Fault> {
    let mode = until_free(|| {
        connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
    })?;
    if mode != "wal" {
        let what = format!("the file cannot use a write-ahead log (journal mode is {mode})");
        return Err(Fault::Refused(address(what)));
    }
    let level = match synchronous {
        Synchronous::Full => "full",
        Synchronous::Normal => "normal",
    };
    connection.pragma_update(None, "synchronous", level)?;
    // The writer does it itself, when its callers have been answered.
    connection.pragma_update_and_check(None, "wal_autocheckpoint", 0, |_| Ok(()))?;
    // The answer is the limit that was set.
    connection.pragma_update_and_check(None, "journal_size_limit", LOG_KEPT as i64, |_| Ok(()))?;
    Ok(())
}

/// SQLite does not call the busy handler while it switches to the log, because two that switch at once would
/// wait for each other.
fn until_free<T>(mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_busy(&error) && began.elapsed() < patience::PATIENCE => {
                thread::sleep(std::time::Duration::from_millis(fastrand::u64(1..10)));
            }
            other => return other,
        }
    }
}

/// Says which file a fault is about, where that is what matters.
fn explain(fault: Fault, path: &Path) -> StoreError {
    let shown = path.display();
    match fault {
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::NotADatabase) => {
            address(format!("{shown} is not an SQLite database: name another file"))
        }
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::CannotOpen) => {
            address(format!("cannot open {shown}: check that this user may read and write it ({error})"))
        }
        Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
            address(format!("cannot write to {shown}: the file or its directory is read-only"))
        }
        other => StoreError::from(other),
    }
}

fn check_version(number: i32, text: &str, guard: Guard) -> Result<(), StoreError> {
    if number >= SQLITE_MIN || guard == Guard::Allow {
        return Ok(());
    }
    Err(address(format!(
        "SQLite {text} can lose committed jobs, 3.51.3 or newer is needed: another crate of this program, such as \
         an older sqlx or rusqlite, holds libsqlite3-sys back; upgrade it (cargo tree -i libsqlite3-sys names it, \
         rusqlite 0.39 and sqlx 0.9 are new enough), or say old-sqlite=allow and risk it"
    )))
}

#[cfg(test)]
mod tests {
    use rusqlite::{StatementStatus, params};

    use super::*;

    #[test]
    fn an_old_sqlite_is_refused_and_the_way_out_is_named() {
        let error = check_version(3_046_000, "3.46.0", Guard::Refuse).unwrap_err().to_string();
        for part in ["3.46.0", "3.51.3", "sqlx", "rusqlite", "old-sqlite=allow"] {
            assert!(error.contains(part), "{part} is missing in: {error}");
        }
        check_version(3_046_000, "3.46.0", Guard::Allow).unwrap();
        check_version(3_051_003, "3.51.3", Guard::Refuse).unwrap();
    }

    #[test]
    fn a_statement_is_planned_once_whatever_is_bound() {
        let connection = Connection::open_in_memory().unwrap();
        set_up(&connection, -1_000).unwrap();
        migrate::run(&connection).unwrap();
        let sql = include_str!("../queries/jobs/ready.sql");
        for limit in [1, 100, 0] {
            let mut statement = connection.prepare_cached(sql).unwrap();
            assert!(statement.query(params!["q", "k", limit]).unwrap().next().unwrap().is_none());
            assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
        }
    }

    #[test]
    fn this_build_has_a_good_one() {
        check_version(rusqlite::version_number(), rusqlite::version(), Guard::Refuse).unwrap();
    }
}
