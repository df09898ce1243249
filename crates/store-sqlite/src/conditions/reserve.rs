//! Room that is kept for the jobs that were accepted: a file of some length beside the store. When the disk is full
//! it is cut to nothing, and what it held is there for leases, claims and outcomes. More jobs are refused until the
//! reserve could be made again.

use std::fmt;
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use rusqlite::Connection;

use crate::connect::private;

/// The length of a reserve, in bytes: a sixteenth of the disk within these bounds.
const BYTES_MIN: u64 = 1 << 20;
const BYTES_MAX: u64 = 16 << 20;

/// The reserve of one store. Every process that has the store open uses the same one.
#[derive(Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
    bytes: u64,
}

impl Reserve {
    pub(crate) fn new(path: PathBuf) -> Self {
        let total = space(&path).map_or(u64::MAX, |space| space.total);
        Self { bytes: (total / 16).clamp(BYTES_MIN, BYTES_MAX), path }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Bytes that are free on the disk, where that can be known.
    pub(crate) fn free(&self) -> Option<u64> {
        space(&self.path).map(|space| space.free)
    }

    /// Whether the reserve is there, or could be made just now, or the store's own file has as much room inside. A
    /// disk that is just not full must not swing to and fro, so making it takes twice its length.
    pub(crate) fn has_room(&self, free: Option<u64>, connection: Option<&Connection>) -> bool {
        if self.path.metadata().is_ok_and(|found| found.len() >= self.bytes) {
            return true;
        }
        if free.is_none_or(|free| free >= 2 * self.bytes) {
            match self.make() {
                Ok(()) => return true,
                Err(error) if error.kind() == ErrorKind::StorageFull => {}
                Err(error) => {
                    // Whatever it is, it does not say that the disk is full.
                    tracing::debug!(%error, reserve = %self, "cannot keep a reserve");
                    return true;
                }
            }
        }
        connection.is_some_and(|connection| unused(connection).is_ok_and(|unused| unused >= self.bytes))
    }

    pub(crate) fn give_up(&self) {
        let cut = private().open(&self.path).and_then(|file| file.set_len(0));
        if let Err(error) = cut
            && error.kind() != ErrorKind::NotFound
        {
            tracing::warn!(%error, reserve = %self, "cannot give up the reserve");
        }
    }

    fn make(&self) -> io::Result<()> {
        let file = private().open(&self.path)?;
        let made = fill(&file, self.bytes);
        if made.is_err() {
            file.set_len(0)?;
        }
        made
    }
}

impl fmt::Display for Reserve {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} KiB)", self.path.display(), self.bytes >> 10)
    }
}

/// Bytes inside the store's file that hold nothing.
fn unused(connection: &Connection) -> rusqlite::Result<u64> {
    let number = |pragma: &str| connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0));
    Ok((number("freelist_count")? * number("page_size")?).unsigned_abs())
}

/// Gives a file its length with blocks of the disk under it.
fn fill(file: &File, bytes: u64) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};

        match fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {}
            done => return done.map_err(io::Error::from),
        }
    }
    write(file, bytes)
}

/// Not zeros: some file systems keep no blocks for those.
fn write(mut file: &File, bytes: u64) -> io::Result<()> {
    let mut chunk = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 {
        fastrand::fill(&mut chunk);
        let length = chunk.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.write_all(&chunk[..length])?;
        left -= length as u64;
    }
    Ok(())
}

struct Space {
    total: u64,
    free: u64,
}

#[cfg(unix)]
fn space(path: &Path) -> Option<Space> {
    let found = rustix::fs::statvfs(path.parent()?).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Space { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
}

#[cfg(not(unix))]
fn space(_path: &Path) -> Option<Space> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserve(directory: &tempfile::TempDir) -> Reserve {
        Reserve { path: directory.path().join("jobs.db-reserve"), bytes: BYTES_MIN }
    }

    fn length(reserve: &Reserve) -> u64 {
        reserve.path.metadata().map_or(0, |found| found.len())
    }

    #[test]
    fn it_is_made_given_up_and_made_again_when_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = reserve(&directory);
        assert!(reserve.has_room(None, None));
        assert_eq!(length(&reserve), BYTES_MIN);
        reserve.give_up();
        assert_eq!(length(&reserve), 0);
        assert!(!reserve.has_room(Some(2 * BYTES_MIN - 1), None), "just enough for the reserve is not room");
        assert!(reserve.has_room(Some(2 * BYTES_MIN), None));
        assert!(reserve.has_room(Some(0), None), "a reserve that is there is room");
    }

    #[test]
    fn pages_that_hold_nothing_are_room_too() {
        let directory = tempfile::tempdir().unwrap();
        let reserve = reserve(&directory);
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE notes (note BLOB)").unwrap();
        connection.execute("INSERT INTO notes VALUES (zeroblob(?1))", [2 * BYTES_MIN as i64]).unwrap();
        assert!(!reserve.has_room(Some(0), Some(&connection)));
        connection.execute("DELETE FROM notes", []).unwrap();
        assert!(reserve.has_room(Some(0), Some(&connection)));
    }

    #[test]
    fn where_the_file_system_cannot_keep_blocks_they_are_written() {
        let file = tempfile::tempfile().unwrap();
        write(&file, BYTES_MIN + 5).unwrap();
        assert_eq!(file.metadata().unwrap().len(), BYTES_MIN + 5);
    }
}
