//! Whether a path still leads to the file that was opened under it. Only its entry is looked at: opening and
//! closing the file would give up the locks that SQLite holds on it.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A file as it was when the store was opened.
#[derive(Debug)]
pub(crate) struct Identity {
    path: PathBuf,
    /// None where it is not known; any file will do then.
    number: Option<(u64, u64)>,
}

impl Identity {
    pub(crate) fn of(path: PathBuf) -> Self {
        let number = fs::metadata(&path).ok().as_ref().and_then(number);
        Self { path, number }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// False only if it is known to be deleted or replaced.
    pub(crate) fn is_in_place(&self) -> bool {
        let Some(before) = self.number else { return true };
        match fs::metadata(&self.path) {
            Ok(found) => number(&found) == Some(before),
            Err(error) => !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
        }
    }
}

/// Device and file, as long as anyone has it open.
#[cfg(unix)]
fn number(metadata: &fs::Metadata) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;

    Some((metadata.dev(), metadata.ino()))
}

/// Where an open file cannot be deleted or replaced, there is nothing to notice.
#[cfg(not(unix))]
fn number(_metadata: &fs::Metadata) -> Option<(u64, u64)> {
    None
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_deleted_replaced_or_put_back_is_told_apart() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jobs.db");
        fs::write(&path, "first").unwrap();
        let identity = Identity::of(path.clone());
        assert!(identity.is_in_place());
        fs::write(&path, "longer than before").unwrap();
        assert!(identity.is_in_place(), "writing to it does not replace it");
        let aside = directory.path().join("aside");
        fs::rename(&path, &aside).unwrap();
        assert!(!identity.is_in_place());
        fs::write(&path, "second").unwrap();
        assert!(!identity.is_in_place(), "another file is under the path");
        fs::rename(&aside, &path).unwrap();
        assert!(identity.is_in_place());
    }
}
