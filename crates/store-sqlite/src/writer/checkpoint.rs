//! Keeping the write-ahead log short: its pages are copied into the file now and then, after the callers have
//! their answers, and the log starts over.
//!
//! A log starts over only when no connection reads from it. Readers that follow each other without a gap, here or in
//! other processes, would let it grow for ever; beyond a limit the writer therefore holds back new writes
//! until those who read now are done. Readers are never held back.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::copier::Copier;
use crate::conditions::Conditions;
use crate::patience;

/// Pages in the log before they are copied: about 16 MiB. Fewer would copy the same pages over and over.
const PAGES: i64 = 4_000;
/// The most pages in the log while there is little room on the disk.
const PAGES_SHORT: i64 = 1_000;
/// Pages in the log before writers wait for readers: about 32 MiB.
const PAGES_MAX: i64 = 8_000;
/// How long they wait. A reader that takes longer, such as a backup, is left alone for a while.
const WAIT: Duration = Duration::from_millis(250);
/// The log is measured after this many rows, or this many commits.
const ROWS: usize = 256;
const COMMITS: u32 = 16;
/// The fewest pages to copy at once.
const PAGES_MIN: i64 = 64;
/// How often the log of a full disk is cut.
const CUT_EVERY: Duration = Duration::from_millis(500);

/// When the log was last measured, and at what length to wait for readers.
pub(crate) struct Checkpoint {
    rows: usize,
    commits: u32,
    /// More than [`PAGES_MAX`] after a wait that was in vain.
    wait_at: i64,
    page_bytes: i64,
    cut: Option<Instant>,
    copier: Option<Copier>,
}

impl Checkpoint {
    pub(crate) fn new(connection: &Connection, copier: Option<Copier>) -> Self {
        let page_bytes = connection.pragma_query_value(None, "page_size", |row| row.get(0)).unwrap_or(4_096);
        Self { rows: 0, commits: 0, wait_at: 0, page_bytes, cut: None, copier }
    }

    /// Called after a commit of about so many rows, when its callers have been answered.
    pub(crate) fn after_commit(&mut self, connection: &Connection, rows: usize, conditions: &Conditions) {
        self.rows = self.rows.saturating_add(rows);
        self.commits += 1;
        let short = conditions.log_limit().map(|bytes| {
            let pages = i64::try_from(bytes).unwrap_or(i64::MAX) / self.page_bytes;
            pages.clamp(PAGES_MIN, PAGES_SHORT)
        });
        // Where there is little room, a few large commits are too much already.
        if short.is_some() || self.rows >= ROWS || self.commits >= COMMITS {
            (self.rows, self.commits) = (0, 0);
            if let Err(error) = self.shorten(connection, short.unwrap_or(PAGES)) {
                // Nothing is lost: the log is longer than it should be until this succeeds.
                tracing::warn!(%error, "cannot copy the write-ahead log into its file");
            }
        }
        if conditions.is_full() {
            self.cut(connection);
        }
    }

    /// The disk is full: copies the log, so that it starts over in the room that it has. True if there was
    /// something to copy, so that another attempt may succeed.
    pub(crate) fn make_room(&mut self, connection: &Connection) -> bool {
        let copy = || {
            let before = run(connection, "PRAGMA wal_checkpoint(NOOP)")?;
            let after = run(connection, "PRAGMA wal_checkpoint(PASSIVE)")?;
            Ok::<_, rusqlite::Error>(after.copied > before.copied && after.copied == after.pages)
        };
        let has_copied = copy().unwrap_or_else(|error| {
            tracing::debug!(%error, "cannot copy the log of a full disk");
            false
        });
        self.cut(connection);
        has_copied
    }

    /// Gives the room that the log takes up to the disk. Not more often than now and then, for it may wait for
    /// readers.
    fn cut(&mut self, connection: &Connection) {
        if self.cut.is_some_and(|cut| cut.elapsed() < CUT_EVERY) {
            return;
        }
        self.cut = Some(Instant::now());
        let cut = patience::at_most(WAIT, || run(connection, "PRAGMA wal_checkpoint(TRUNCATE)"));
        tracing::debug!(is_cut = cut.is_ok_and(|cut| !cut.is_busy), "cutting the log of a full disk");
    }

    fn shorten(&mut self, connection: &Connection, pages: i64) -> rusqlite::Result<()> {
        let log = run(connection, "PRAGMA wal_checkpoint(NOOP)")?;
        if log.pages < pages {
            return Ok(());
        }
        let is_writers_turn = log.pages >= PAGES_MAX.max(self.wait_at);
        if log.pages - log.copied > PAGES_MAX
            && let Some(copier) = &mut self.copier
            && copier.copies(is_writers_turn)
        {
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
    /// In the log.
    pages: i64,
    /// Those of them that are in the file as well.
    copied: i64,
}

fn run(connection: &Connection, sql: &str) -> rusqlite::Result<Outcome> {
    let mut statement = connection.prepare_cached(sql)?;
    statement
        .query_row([], |row| Ok(Outcome { is_busy: row.get(0)?, pages: row.get(1)?, copied: row.get(2)? }))
}
