//! Where the store is and how it is kept: the URL and its parameters, or the same by hand.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_core::StoreError;
use windlass_core::clock::{Clock, SystemClock};

/// How to open a store.
///
/// ```
/// use windlass_store_sqlite::{SqliteOptions, Synchronous};
///
/// let options = SqliteOptions::parse("sqlite://jobs.db?synchronous=normal").unwrap();
/// assert_eq!(options, SqliteOptions::file("jobs.db").synchronous(Synchronous::Normal));
/// let error = SqliteOptions::parse("sqlite://jobs.db?sync=off").unwrap_err();
/// assert!(error.to_string().contains("synchronous, create, network, old-sqlite"));
/// ```
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    pub(crate) place: Place,
    pub(crate) synchronous: Synchronous,
    pub(crate) create: Create,
    pub(crate) network: Guard,
    pub(crate) old_sqlite: Guard,
    pub(crate) clock: Option<Arc<dyn Clock>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    File(PathBuf),
    Memory,
}

/// When SQLite waits for the disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Synchronous {
    /// At every commit: an accepted job survives a power cut.
    #[default]
    Full,
    /// At checkpoints only: faster, and a power cut may take the newest jobs. A crash of the process or of
    /// any other takes nothing.
    Normal,
}

/// Whether a missing file is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Create {
    /// It is.
    #[default]
    Missing,
    /// It is not; opening fails.
    Never,
}

/// What to do about a place or a library that is known to lose jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Guard {
    /// Do not open.
    #[default]
    Refuse,
    /// Open all the same.
    Allow,
}

const KNOWN: &str = "synchronous, create, network, old-sqlite";

impl SqliteOptions {
    /// A store in a file.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self::at(Place::File(path.as_ref().to_owned()))
    }

    /// A store that lives as long as its handles.
    pub fn memory() -> Self {
        Self::at(Place::Memory)
    }

    fn at(place: Place) -> Self {
        Self {
            place,
            synchronous: Synchronous::default(),
            create: Create::default(),
            network: Guard::default(),
            old_sqlite: Guard::default(),
            clock: None,
        }
    }

    /// Reads a URL: `sqlite://path`, `sqlite:///absolute/path`, `sqlite:path` or `sqlite::memory:`. The path
    /// is taken as it is written, up to a `?`; parameters follow as `name=value`, joined by `&`.
    pub fn parse(url: &str) -> Result<Self, StoreError> {
        let rest = url.strip_prefix("sqlite:").ok_or_else(|| {
            address(format!("{url:?} is not an SQLite URL: use sqlite://path/to/file.db or sqlite::memory:"))
        })?;
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, parameters) = rest.split_once('?').unwrap_or((rest, ""));
        let mut options = match path {
            "" => return Err(address(format!("{url:?} names no file: use sqlite://path/to/file.db"))),
            ":memory:" => Self::memory(),
            path => Self::file(path),
        };
        for parameter in parameters.split('&').filter(|parameter| !parameter.is_empty()) {
            options.set(parameter)?;
        }
        Ok(options)
    }

    fn set(&mut self, parameter: &str) -> Result<(), StoreError> {
        let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let bad = |right: &str| address(format!("parameter {name}={value}: use {right}"));
        match name {
            "synchronous" => {
                self.synchronous = match value {
                    "full" => Synchronous::Full,
                    "normal" => Synchronous::Normal,
                    _ => return Err(bad("synchronous=full or synchronous=normal")),
                }
            }
            "create" => {
                self.create = match value {
                    "missing" => Create::Missing,
                    "never" => Create::Never,
                    _ => return Err(bad("create=missing or create=never")),
                }
            }
            "network" => self.network = guard(value).ok_or_else(|| bad("network=allow or network=refuse"))?,
            "old-sqlite" => {
                self.old_sqlite = guard(value).ok_or_else(|| bad("old-sqlite=allow or old-sqlite=refuse"))?;
            }
            _ => return Err(address(format!("unknown parameter {name:?}: use one of {KNOWN}"))),
        }
        Ok(())
    }

    /// When SQLite waits for the disk.
    #[must_use]
    pub fn synchronous(mut self, synchronous: Synchronous) -> Self {
        self.synchronous = synchronous;
        self
    }

    /// Whether a missing file is made.
    #[must_use]
    pub fn create(mut self, create: Create) -> Self {
        self.create = create;
        self
    }

    /// What to do about a network file system, where SQLite's locks do not hold.
    #[must_use]
    pub fn network(mut self, network: Guard) -> Self {
        self.network = network;
        self
    }

    /// What to do about an SQLite before 3.51.3, which can lose commits when two connections checkpoint.
    #[must_use]
    pub fn old_sqlite(mut self, old_sqlite: Guard) -> Self {
        self.old_sqlite = old_sqlite;
        self
    }

    /// The clock of the store; that of the operating system by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    pub(crate) fn clock_or_system(&self) -> Arc<dyn Clock> {
        self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock::default()))
    }
}

/// Options are the same when they open the same store in the same way; the clock is left out.
impl PartialEq for SqliteOptions {
    fn eq(&self, other: &Self) -> bool {
        self.place == other.place
            && self.synchronous == other.synchronous
            && self.create == other.create
            && self.network == other.network
            && self.old_sqlite == other.old_sqlite
    }
}

fn guard(value: &str) -> Option<Guard> {
    match value {
        "allow" => Some(Guard::Allow),
        "refuse" => Some(Guard::Refuse),
        _ => None,
    }
}

pub(crate) fn address(text: String) -> StoreError {
    StoreError::Address(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_url_names_its_place() {
        let place = |url| SqliteOptions::parse(url).unwrap().place;
        assert_eq!(place("sqlite://jobs.db"), Place::File("jobs.db".into()));
        assert_eq!(place("sqlite:jobs.db"), Place::File("jobs.db".into()));
        assert_eq!(place("sqlite://var/jobs.db"), Place::File("var/jobs.db".into()));
        assert_eq!(place("sqlite:///var/jobs.db?create=never"), Place::File("/var/jobs.db".into()));
        assert_eq!(place("sqlite::memory:"), Place::Memory);
        assert_eq!(place("sqlite://:memory:?synchronous=full"), Place::Memory);
    }

    #[test]
    fn a_bad_url_says_what_would_be_right() {
        for (url, right) in [
            ("postgres://x", "sqlite://path/to/file.db"),
            ("sqlite://", "names no file"),
            ("sqlite:a?synchronous=off", "synchronous=full or synchronous=normal"),
            ("sqlite:a?network", "network=allow"),
            ("sqlite:a?mode=ro", "unknown parameter \"mode\": use one of synchronous, create"),
        ] {
            let error = SqliteOptions::parse(url).unwrap_err().to_string();
            assert!(error.contains(right), "{url}: {error}");
        }
    }
}
