//! What SQLite can answer, sorted into what a caller can do about it.
//!
//! Inside the store everything is a [`Fault`]: either a refusal, which left nothing behind and concerns one
//! caller only, or a failure, after which the transaction is rolled back.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use rusqlite::{Error as SqliteError, ErrorCode};
use windlass_core::StoreError;
use windlass_core::job::Unreadable;

/// Why an operation has no result.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The caller's to fix. The operation wrote nothing, so its neighbours in the transaction go on.
    Refused(StoreError),
    /// What is stored does not make sense.
    Corrupt(String),
    /// A part of a job does not read, or only to a newer program.
    Unreadable(Unreadable),
    /// SQLite failed.
    Sqlite(SqliteError),
    /// A defect of this crate.
    Defect(String),
}

impl Fault {
    /// What it says of the job whose row was read.
    pub(crate) fn of_row(&self) -> Unreadable {
        match self {
            Self::Unreadable(why) => why.clone(),
            other => Unreadable::Broken(other.to_string()),
        }
    }

    /// Whether it is about what is stored in one row, so that others may be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        match self {
            Self::Corrupt(_) | Self::Unreadable(_) => true,
            Self::Sqlite(error) => is_conversion(error),
            Self::Refused(_) | Self::Defect(_) => false,
        }
    }

    /// Whether others can be written when what it is about is undone.
    pub(crate) fn leaves_others(&self) -> bool {
        matches!(self, Self::Refused(_)) || self.is_unreadable()
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(error) => error.fmt(f),
            Self::Corrupt(what) | Self::Defect(what) => f.write_str(what),
            Self::Unreadable(why) => why.fmt(f),
            Self::Sqlite(error) => error.fmt(f),
        }
    }
}

impl From<SqliteError> for Fault {
    fn from(error: SqliteError) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Refused(error) => error,
            Fault::Corrupt(what) => Self::Corrupt(what),
            Fault::Unreadable(why) => Self::Corrupt(why.to_string()),
            Fault::Sqlite(error) => failed(&Arc::new(error)),
            Fault::Defect(what) => Self::Internal { what, source: None },
        }
    }
}

/// What a failure of SQLite means to a caller whose transaction did not take effect.
pub(crate) fn failed(error: &Arc<SqliteError>) -> StoreError {
    let source: Option<Box<dyn StdError + Send + Sync>> = Some(Box::new(Arc::clone(error)));
    let away = |what: &str| what.to_owned();
    let because = |what: &str| StoreError::Unavailable { what: format!("{what}: {error}"), source: None };
    let what = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            away("another process has held the file's write lock for too long")
        }
        Some(ErrorCode::DiskFull) => away("the disk is full"),
        Some(ErrorCode::ReadOnly) => away("the file or its file system is read-only"),
        // Which file, and what the system says of it, is in the error's own text.
        Some(ErrorCode::SystemIoFailure) => return because("the file cannot be read or written"),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
            return because("the file cannot be opened");
        }
        Some(ErrorCode::OutOfMemory | ErrorCode::FileLockingProtocolFailed) => {
            away("SQLite cannot go on now")
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            return StoreError::Corrupt(error.to_string());
        }
        _ if is_conversion(error) => return StoreError::Corrupt(error.to_string()),
        _ => return StoreError::Internal { what: format!("SQLite: {error}"), source },
    };
    StoreError::Unavailable { what, source }
}

/// The answer to everyone whose transaction was written but not confirmed.
pub(crate) fn unknown(error: &Arc<SqliteError>) -> StoreError {
    StoreError::Unknown {
        what: "the commit was not confirmed by the disk".to_owned(),
        source: Some(Box::new(Arc::clone(error))),
    }
}

/// Whether a failed `COMMIT` may have taken effect: its frames may stand in the log although the disk did not
/// confirm them, or although there was no memory left to note where they stand. Every other failure comes
/// before the commit mark is written.
pub(crate) fn is_unknown_commit(error: &SqliteError) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::SystemIoFailure | ErrorCode::OutOfMemory))
}

/// Whether there was no room on the disk.
pub(crate) fn is_full(fault: &Fault) -> bool {
    matches!(fault, Fault::Sqlite(error) if error.sqlite_error_code() == Some(ErrorCode::DiskFull))
}

pub(crate) fn is_busy(error: &SqliteError) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// The store is closing and took no part in the call.
pub(crate) fn closed() -> StoreError {
    StoreError::Unavailable { what: "the store is closed".to_owned(), source: None }
}

fn is_conversion(error: &SqliteError) -> bool {
    matches!(
        error,
        SqliteError::FromSqlConversionFailure(..)
            | SqliteError::IntegralValueOutOfRange(..)
            | SqliteError::InvalidColumnType(..)
            | SqliteError::Utf8Error(..)
    )
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;
    use windlass_core::StoreErrorKind;

    use super::*;

    fn kind(code: i32) -> StoreErrorKind {
        failed(&Arc::new(SqliteError::SqliteFailure(ffi::Error::new(code), None))).kind()
    }

    #[test]
    fn what_passes_is_unavailable_and_what_stays_is_fatal() {
        for code in
            [ffi::SQLITE_BUSY, ffi::SQLITE_LOCKED, ffi::SQLITE_FULL, ffi::SQLITE_READONLY, ffi::SQLITE_IOERR]
        {
            assert_eq!(kind(code), StoreErrorKind::Unavailable, "{code}");
        }
        for code in [ffi::SQLITE_CORRUPT, ffi::SQLITE_NOTADB, ffi::SQLITE_MISUSE] {
            assert_eq!(kind(code), StoreErrorKind::Fatal, "{code}");
        }
    }

    #[test]
    fn only_what_comes_after_the_commit_mark_leaves_a_commit_unknown() {
        let commit = |code| is_unknown_commit(&SqliteError::SqliteFailure(ffi::Error::new(code), None));
        assert!(
            commit(ffi::SQLITE_IOERR_FSYNC) && commit(ffi::SQLITE_IOERR_WRITE) && commit(ffi::SQLITE_NOMEM)
        );
        assert!(!commit(ffi::SQLITE_FULL) && !commit(ffi::SQLITE_BUSY));
    }
}
