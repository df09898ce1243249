//! What is measured: a store at a durability level, fresh each time.

use std::path::PathBuf;

use anyhow::Result;
use tempfile::TempDir;
use windlass::Client;

/// A store at a durability level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    Memory,
    SqliteFull,
    SqliteNormal,
}

impl Subject {
    pub(crate) const ALL: [Self; 3] = [Self::Memory, Self::SqliteFull, Self::SqliteNormal];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::SqliteFull => "sqlite full",
            Self::SqliteNormal => "sqlite normal",
        }
    }

    /// The value of SQLite's `synchronous`, for those that have one.
    pub(crate) fn synchronous(self) -> &'static str {
        match self {
            Self::SqliteNormal => "normal",
            Self::Memory | Self::SqliteFull => "full",
        }
    }

    /// A fresh, empty place.
    pub(crate) fn place(self) -> Result<Place> {
        // Beside the build, not in a temporary folder that may be held in memory.
        let base =
            std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        std::fs::create_dir_all(&base)?;
        Ok(Place { subject: self, folder: tempfile::tempdir_in(base)? })
    }
}

/// A fresh place for a store; removed when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) subject: Subject,
    folder: TempDir,
}

impl Place {
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("jobs.db")
    }

    /// Opens the store through the front door.
    pub(crate) async fn client(&self) -> Result<Client> {
        let url = match self.subject {
            Subject::Memory => "memory:".to_owned(),
            _ => format!("sqlite://{}?synchronous={}", self.path().display(), self.subject.synchronous()),
        };
        Ok(Client::open(url).await?)
    }

    /// Bytes on disk.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for entry in std::fs::read_dir(self.folder.path())? {
            bytes += entry?.metadata()?.len();
        }
        Ok(bytes)
    }
}
