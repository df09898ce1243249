//! What only this store can say of its health: how its file is written, where it is, and how much room is left.

use std::path::Path;

use async_trait::async_trait;
use rusqlite::Connection;
use windlass_core::store::{Checkup, Depth, Durability, Finding, StoreResult};

use crate::SqliteStore;
use crate::filesystem::network_kind;

/// A log that is longer means that a reader or a backup keeps it from being written back.
const LOG_MAX: u64 = 256 << 20;
/// Below this much room jobs may soon be refused.
const FREE_MIN: u64 = 1 << 30;

#[async_trait]
impl Checkup for SqliteStore {
    async fn examine(&self, depth: Depth) -> StoreResult<Vec<Finding>> {
        let Some(file) = &self.inner.file else {
            return Ok(vec![Finding::ok("file", "it is in memory, and has none")]);
        };
        let path = file.path.clone();
        let journal = self.read(|connection, _| Ok(pragma(connection, "journal_mode")?)).await?;
        let mut findings = vec![journaled(&journal), synchronous(self.inner.about.durability)];
        findings.push(match path.parent().and_then(network_kind) {
            Some(kind) => Finding::problem(
                "file system",
                format!("the file is on {kind}, whose locks often do not hold between machines"),
                "move the file to a local disk, or use PostgreSQL",
            ),
            None => Finding::ok("file system", "the file is not on a known network file system"),
        });
        findings.extend(free(&path).map(room));
        findings.push(log(self.gauges().log_bytes));
        if depth == Depth::Deep {
            let said = self.read(|connection, _| Ok(pragma(connection, "quick_check(1)")?)).await?;
            findings.push(pages(&said));
        }
        Ok(findings)
    }
}

/// The first word of the answer.
fn pragma(connection: &Connection, name: &str) -> rusqlite::Result<String> {
    connection.query_row(&format!("PRAGMA {name}"), [], |row| row.get(0))
}

fn journaled(mode: &str) -> Finding {
    match mode {
        "wal" => Finding::ok("journal", "a write-ahead log (wal)"),
        _ => Finding::problem(
            "journal",
            format!("journal_mode is {mode}: readers and the writer wait for each other"),
            "let no other program set it; open the store again, which sets wal",
        ),
    }
}

fn synchronous(durability: Durability) -> Finding {
    match durability {
        Durability::PowerCut => Finding::ok("synchronous", "full: each commit is flushed"),
        _ => Finding::warning(
            "synchronous",
            "normal: a power cut may take the newest jobs",
            "leave synchronous=normal out of the URL where that matters",
        ),
    }
}

fn room(free: u64) -> Finding {
    let what = format!("{} MiB are free", free >> 20);
    match free < FREE_MIN {
        true => Finding::warning("disk", what, "make room: a full disk refuses new jobs"),
        false => Finding::ok("disk", what),
    }
}

fn log(bytes: u64) -> Finding {
    let what = format!("the log has {} KiB", bytes >> 10);
    match bytes > LOG_MAX {
        true => Finding::warning(
            "log",
            what,
            "end the program that holds a read transaction open: the log is written back when none is",
        ),
        false => Finding::ok("log", what),
    }
}

fn pages(said: &str) -> Finding {
    match said {
        "ok" => Finding::ok("pages", "every page reads"),
        _ => Finding::problem(
            "pages",
            format!("the file is damaged: {said}"),
            "stop all programs, copy the file, and restore a backup or try .recover of the sqlite3 shell",
        ),
    }
}

/// Bytes that are free on the disk of a file, where that can be known.
#[cfg(unix)]
fn free(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free(_path: &Path) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use windlass_core::store::Level;

    use super::*;

    #[test]
    fn only_what_is_unsafe_is_told() {
        assert_eq!((journaled("wal").level, journaled("delete").level), (Level::Ok, Level::Problem));
        assert_eq!(synchronous(Durability::Crash).level, Level::Warning);
        assert_eq!((room(FREE_MIN).level, room(FREE_MIN - 1).level), (Level::Ok, Level::Warning));
        assert_eq!((log(LOG_MAX).level, log(LOG_MAX + 1).level), (Level::Ok, Level::Warning));
        assert_eq!((pages("ok").level, pages("row 1 missing").level), (Level::Ok, Level::Problem));
    }

    #[tokio::test]
    async fn a_file_is_looked_at_and_memory_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}", folder.path().join("jobs.db").display());
        let store = SqliteStore::open(&url).await.unwrap();
        let quick = store.examine(Depth::Quick).await.unwrap();
        let deep = store.examine(Depth::Deep).await.unwrap();
        assert_eq!(quick.len() + 1, deep.len());
        assert!(deep.iter().all(|finding| finding.level != Level::Problem), "{deep:?}");
        let memory = SqliteStore::open("sqlite::memory:").await.unwrap();
        assert_eq!(memory.examine(Depth::Deep).await.unwrap().len(), 1);
    }
}
