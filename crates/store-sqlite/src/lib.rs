//! The SQLite store of Windlass: durable jobs in one embedded file.
//!
//! One thread writes and commits whatever has gathered while the disk was busy; a few others read. Several
//! processes may open the same file. `sqlite::memory:` gives a store of the same kind that lives as long as
//! its handles.
//!
//! ```
//! # async fn example() -> Result<(), windlass_core::StoreError> {
//! use windlass_core::Store;
//! use windlass_store_sqlite::SqliteStore;
//!
//! let store = SqliteStore::open("sqlite://jobs.db").await?;
//! assert_eq!(store.about().durability.to_string(), "survives a power cut");
//! # Ok(())
//! # }
//! ```
//!
//! ## Parameters of the URL
//!
//! | parameter | values | meaning |
//! |---|---|---|
//! | `synchronous` | `full` (default), `normal` | whether each commit waits for the disk |
//! | `create` | `missing` (default), `never` | whether a missing file is made |
//! | `network` | `refuse` (default), `allow` | whether a network file system will do |
//! | `old-sqlite` | `refuse` (default), `allow` | whether an SQLite before 3.51.3 will do, which can lose commits |

mod accept;
mod aged;
mod checkup;
mod conditions;
mod connect;
mod counters;
mod error;
mod filesystem;
mod gates;
mod inspect;
mod jobs;
mod key_rates;
mod keys;
mod leases;
mod maintenance;
pub mod migrate;
mod moves;
mod options;
mod patience;
mod queues;
mod reader;
mod records;
mod row;
mod rules;
mod session;
mod tallies;
mod transaction;
mod wakeup;
mod within;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::Connection;
use windlass_core::StoreError;
use windlass_core::bell::Bell;
use windlass_core::clock::{Clock, Steps, Timestamp};
use windlass_core::store::{About, Checkup, Records, Sharing, Store, StoreResult, Tallies, Within};

pub use options::{Create, Guard, SqliteOptions, Synchronous};

use conditions::Conditions;
use connect::{Opened, StoreFile};
use error::Fault;
use gates::sweep::Place;
use reader::Readers;
use session::Session;
use wakeup::{Ringer, Watch};
use within::{Awaited, CommitWatch};
use writer::{Lane, Tools, Writer};

/// Threads that read.
const READERS: usize = 2;

/// A store in an SQLite file. Cheap to clone; the last handle that goes finishes what was handed in and closes
/// the file.
#[derive(Clone)]
pub struct SqliteStore {
    pub(crate) inner: Arc<Inner>,
}

/// What the handles share. Those that only look go first, so that the writer's connection is the last and leaves no log
/// behind.
pub(crate) struct Inner {
    commit_watch: OnceLock<Option<CommitWatch>>,
    readers: Option<Readers>,
    writer: Writer,
    clock: Arc<dyn Clock>,
    steps: Arc<Mutex<Steps>>,
    conditions: Arc<Conditions>,
    bell: Bell,
    file: Option<StoreFile>,
    ringer_owner: u64,
    watch: OnceLock<Option<Watch>>,
    /// How far gates have been compared with the rows.
    swept: Mutex<Place>,
    about: About,
}

/// What a store has done since it was opened, and how long its log is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauges {
    /// Transactions that were committed.
    pub commits: u64,
    /// Calls that were answered; those that share a commit are counted one by one.
    pub operations: u64,
    /// The length of the write-ahead log in bytes.
    pub log_bytes: u64,
}

impl SqliteStore {
    /// Opens the store that a URL names; see the crate's page for its parameters.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(SqliteOptions::parse(url)?).await
    }

    /// Opens a store by options.
    pub async fn open_with(options: SqliteOptions) -> Result<Self, StoreError> {
        let opening = tokio::task::spawn_blocking(move || {
            let opened = connect::open(&options, READERS)?;
            Self::start(opened, options.clock_or_system())
        });
        opening.await.unwrap_or_else(|error| Err(Fault::Defect(error.to_string()).into()))
    }

    fn start(opened: Opened, clock: Arc<dyn Clock>) -> Result<Self, StoreError> {
        let Opened { writer: connection, readers, file, durability, conditions } = opened;
        let conditions = Arc::new(conditions);
        let mut steps = Steps::default();
        steps.look(&*clock);
        let steps = Arc::new(Mutex::new(steps));
        let bell = Bell::new();
        let ringer = file.as_ref().map(|file| Ringer::new(Arc::clone(&file.bell)));
        let ringer_owner = ringer.as_ref().map_or(0, Ringer::owner);
        let place = file.as_ref().map_or_else(|| "memory".to_owned(), |file| file.path.display().to_string());
        let no_thread = |error: std::io::Error| StoreError::Unavailable {
            what: "cannot start a thread".to_owned(),
            source: Some(Box::new(error)),
        };
        let readers = match readers.is_empty() {
            true => None,
            false => Some(Readers::start(readers).map_err(no_thread)?),
        };
        let tools = Tools {
            connection,
            path: file.as_ref().map(|file| file.path.clone()),
            clock: Arc::clone(&clock),
            steps: Arc::clone(&steps),
            conditions: Arc::clone(&conditions),
            bell: bell.clone(),
            ringer,
        };
        let writer = Writer::start(tools).map_err(no_thread)?;
        let about = About { scheme: "sqlite", place, durability, sharing: Sharing::Store };
        let (commit_watch, watch) = (OnceLock::new(), OnceLock::new());
        let inner = Inner {
            commit_watch,
            readers,
            writer,
            clock,
            steps,
            conditions,
            bell,
            file,
            ringer_owner,
            watch,
            swept: Mutex::default(),
            about,
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What the store has done since it was opened.
    pub fn gauges(&self) -> Gauges {
        let tally = self.inner.writer.tally();
        let log = self.inner.file.as_ref().map(StoreFile::log);
        let length = |path: PathBuf| path.metadata().ok().map(|metadata| metadata.len());
        Gauges {
            commits: tally.commits.load(Ordering::Relaxed),
            operations: tally.operations.load(Ordering::Relaxed),
            log_bytes: log.and_then(length).unwrap_or(0),
        }
    }

    /// Runs an operation in a transaction; see [`Writer::call`].
    pub(crate) async fn write<T, F>(&self, rows: usize, operation: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Session<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.inner.writer.call(Lane::Normal, rows, operation).await
    }

    /// Runs an operation before all others that wait.
    pub(crate) async fn write_urgently<T, F>(&self, operation: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: FnMut(&Session<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.inner.writer.call(Lane::Urgent, 1, operation).await
    }

    /// Looks at what depends on the time that leases have left: a clock that was set is heeded first.
    pub(crate) async fn read_leases<T, F>(&self, look: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection, Timestamp) -> Result<T, Fault> + Send + 'static,
    {
        let has_news = {
            let steps = self.inner.steps.lock().unwrap_or_else(PoisonError::into_inner);
            steps.has_news(&*self.inner.clock)
        };
        if has_news {
            self.write(1, |_| Ok(())).await?;
        }
        self.read(look).await
    }

    /// Looks at one state of the store. A store in memory has one connection only, the writer's.
    pub(crate) async fn read<T, F>(&self, look: F) -> StoreResult<T>
    where
        T: Send + 'static,
        F: Fn(&Connection, Timestamp) -> Result<T, Fault> + Send + 'static,
    {
        match &self.inner.readers {
            Some(readers) => {
                let (clock, conditions) = (Arc::clone(&self.inner.clock), Arc::clone(&self.inner.conditions));
                let look = move |connection: &Connection| {
                    conditions.check(Some(connection))?;
                    look(connection, clock.now())
                };
                readers.call(look).await
            }
            None => {
                self.write(0, move |session| {
                    session.write_counters()?;
                    look(session.connection, session.now)
                })
                .await
            }
        }
    }
}

impl Inner {
    /// The bell, with an ear for other processes from now on.
    pub(crate) fn listen(&self) -> &Bell {
        self.watch.get_or_init(|| {
            let file = self.file.as_ref()?;
            Some(Watch::start(&file.bell_path, Arc::clone(&file.bell), self.ringer_owner, &self.bell))
        });
        &self.bell
    }

    /// Rings when this has been committed by the user, who does not tell.
    pub(crate) fn watch_commit(&self, awaited: Awaited) {
        let commit_watch = self.commit_watch.get_or_init(|| {
            let file = self.file.as_ref()?;
            let ringer = Ringer::of(self.ringer_owner, Arc::clone(&file.bell));
            match CommitWatch::start(&file.path, self.bell.clone(), ringer) {
                Ok(commit_watch) => Some(commit_watch),
                Err(error) => {
                    tracing::warn!(?error, "cannot wait for commits of others, polling has to do");
                    None
                }
            }
        });
        if let Some(commit_watch) = commit_watch {
            commit_watch.keep(awaited);
        }
    }
}

impl Store for SqliteStore {
    fn about(&self) -> About {
        self.inner.about.clone()
    }

    fn finishes_calls(&self) -> bool {
        true
    }

    fn within(&self) -> Option<&dyn Within> {
        Some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn tallies(&self) -> Option<&dyn Tallies> {
        Some(self)
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }
}

impl fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteStore").field("about", &self.inner.about).finish_non_exhaustive()
    }
}
