//! Keeping the write-ahead log short: its pages are copied into the file now and then, after the callers have
//! their answers, and the log starts over.
//!
//! A log starts over only when nobody reads from it. Readers that follow each other without a gap, here or in
//! other processes, would let it grow for ever; beyond a limit the writer therefore holds back new writes
//! until those who read now are done. Readers are never held back.

use std::time::Duration;

use rusqlite::Connection;

use crate::patience;

/// Pages in the log before they are copied: about 16 MiB. Fewer would copy the same pages over and over.
const PAGES: i64 = 4_000;
/// Pages in the log before writers wait for readers: about 32 MiB.
const PAGES_MAX: i64 = 8_000;
/// How long they wait. A reader that takes longer, such as a backup, is left alone for a while.
const WAIT: Duration = Duration::from_millis(250);
/// The log is measured after this many rows, or this many commits.
const ROWS: usize = 256;
const COMMITS: u32 = 16;

/// When the log was last measured, and at what length to wait for readers.
#[derive(Debug, Default)]
pub(crate) struct Checkpoint {
    rows: usize,
    commits: u32,
    /// More than [`PAGES_MAX`] after a wait that was in vain.
    wait_at: i64,
}

impl Checkpoint {
    /// Called after a commit of about so many rows, when its callers have been answered.
    pub(crate) fn after_commit(&mut self, connection: &Connection, rows: usize) {
        self.rows = self.rows.saturating_add(rows);
        self.commits += 1;
        if self.rows >= ROWS || self.commits >= COMMITS {
            (self.rows, self.commits) = (0, 0);
            if let Err(error) = self.shorten(connection) {
                // Nothing is lost: the log is longer than it should be until this succeeds.
                tracing::warn!(%error, "cannot copy the write-ahead log into its file");
            }
        }
    }

    fn shorten(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        if run(connection, "PRAGMA wal_checkpoint(NOOP)")?.pages < PAGES {
            return Ok(());
        }
        let copied = run(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
        if copied.pages < PAGES_MAX.max(self.wait_at) {
            return Ok(());
        }
        let cut = patience::at_most(WAIT, || run(connection, "PRAGMA wal_checkpoint(TRUNCATE)"))?;
        self.wait_at = if cut.is_busy { copied.pages + PAGES } else { 0 };
        Ok(())
    }
}

struct Outcome {
    is_busy: bool,
    pages: i64,
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<Outcome> {
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row([], |row| Ok(Outcome { is_busy: row.get(0)?, pages: row.get(1)? }))
}
