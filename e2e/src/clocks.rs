//! Wall clocks of worker processes that are off, by libfaketime.

use std::path::{Path, PathBuf};

/// What puts another clock before programs that are linked dynamically.
fn faketime() -> PathBuf {
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path());
    let folders = ["/usr/lib", "/usr/lib64", "/usr/local/lib"].into_iter().map(PathBuf::from).chain(entries);
    folders
        .map(|folder| folder.join("faketime/libfaketimeMT.so.1"))
        .find(|path| path.is_file())
        .expect("libfaketime is needed: cargo xtask test installs it, or apt-get install libfaketime")
}

/// Processes whose wall clock is off by what a file says. Their monotonic clock is left alone, as by any step.
#[derive(Debug)]
pub struct Clocks {
    control: PathBuf,
}

impl Clocks {
    /// Clocks that are right; the file, of this name, is in a folder.
    pub fn new(folder: &Path, name: &str) -> Self {
        let clocks = Self { control: folder.join(name) };
        clocks.set(0);
        clocks
    }

    /// Sets them by so many seconds.
    pub fn set(&self, offset_seconds: i64) {
        // In one step, since a process may read at any moment.
        let fresh = self.control.with_extension("fresh");
        std::fs::write(&fresh, format!("{offset_seconds:+}\n")).expect("a writable folder");
        std::fs::rename(fresh, &self.control).expect("a writable folder");
    }

    /// Variables of the environment of such a process.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        vec![
            ("LD_PRELOAD", faketime()),
            ("FAKETIME_TIMESTAMP_FILE", self.control.clone()),
            ("FAKETIME_NO_CACHE", "1".into()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1".into()),
        ]
    }
}
