//! What must hold for the store to work: its file is still under its path, its schema is one that this program
//! knows, and its disk has room. The writer asks before each transaction and the readers before each look; what is
//! answered in between is at most [`EVERY`] old.

mod identity;
mod reserve;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use windlass_core::StoreError;

use crate::error::Fault;
use crate::migrate;
use identity::Identity;
use reserve::Reserve;

/// How often to look.
const EVERY: Duration = Duration::from_millis(250);
/// Below so much free space the log is kept shorter, in bytes: what the log and its file may grow by otherwise.
const SHORT: u64 = 64 << 20;

/// The conditions of one store, shared by its threads.
pub(crate) struct Conditions {
    /// None for a store in memory, which has neither a path nor a disk.
    place: Option<Place>,
    began: Instant,
    /// When to look next, in microseconds since the beginning.
    next: AtomicU64,
    is_broken: AtomicBool,
    broken: Mutex<Option<Refusal>>,
    is_full: AtomicBool,
    is_short: AtomicBool,
}

struct Place {
    file: Identity,
    log: Identity,
    reserve: Reserve,
}

/// Why the store does not do what it is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The file under its path is not the one that is open.
    Gone(PathBuf),
    /// A newer program has changed the schema.
    TooNew {
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// There is no room for more jobs.
    Full,
}

impl Conditions {
    /// The conditions of a store in memory.
    pub(crate) fn of_memory() -> Self {
        Self {
            place: None,
            began: Instant::now(),
            next: AtomicU64::new(0),
            is_broken: AtomicBool::new(false),
            broken: Mutex::new(None),
            is_full: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
        }
    }

    /// The conditions of a store whose file and log are open.
    pub(crate) fn of_file(file: PathBuf, log: PathBuf, reserve: PathBuf) -> Self {
        let place =
            Place { file: Identity::of(file), log: Identity::of(log), reserve: Reserve::new(reserve) };
        let conditions = Self { place: Some(place), ..Self::of_memory() };
        conditions.look(None);
        conditions
    }

    /// Fails if the store must not be used any more.
    pub(crate) fn check(&self, connection: Option<&Connection>) -> Result<(), Refusal> {
        self.look_if_it_is_time(connection);
        if !self.is_broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        broken.clone().map_or(Ok(()), Err)
    }

    /// Fails if there is no room for more jobs.
    pub(crate) fn check_room(&self) -> Result<(), Refusal> {
        if self.is_full() { Err(Refusal::Full) } else { Ok(()) }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Relaxed)
    }

    /// Whether the log should be kept shorter than usual, and by how many bytes it may be long then.
    pub(crate) fn log_limit(&self) -> Option<u64> {
        let place = self.place.as_ref()?;
        let is_short = self.is_full() || self.is_short.load(Ordering::Relaxed);
        is_short.then(|| place.reserve.bytes() / 2)
    }

    /// The disk is full: gives the reserve to what has been accepted, and refuses more jobs. True if that makes
    /// another attempt worth while.
    pub(crate) fn make_room(&self) -> bool {
        let Some(place) = &self.place else { return false };
        if self.is_full.swap(true, Ordering::Relaxed) {
            return false;
        }
        tracing::warn!(
            reserve = %place.reserve,
            "the disk is full: its reserve is given up, and enqueues are refused until there is room again"
        );
        place.reserve.give_up();
        true
    }

    #[cfg(test)]
    pub(crate) fn look_now(&self) {
        self.look(None);
    }

    fn look_if_it_is_time(&self, connection: Option<&Connection>) {
        let passed = micros(self.began.elapsed());
        let next = self.next.load(Ordering::Relaxed);
        let after = passed + micros(EVERY);
        let is_ours =
            || self.next.compare_exchange(next, after, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if passed >= next && is_ours() {
            self.look(connection);
        }
    }

    fn look(&self, connection: Option<&Connection>) {
        let Some(place) = &self.place else { return };
        let broken = place.broken(connection);
        let is_gone = matches!(broken, Some(Refusal::Gone(_)));
        {
            let mut known = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
            // A schema that was too new stays so for a look that has no connection to read it.
            let stays =
                broken.is_none() && connection.is_none() && matches!(*known, Some(Refusal::TooNew { .. }));
            if !stays && *known != broken {
                if let Some(refusal) = broken.clone() {
                    tracing::error!("{}", StoreError::from(refusal));
                }
                self.is_broken.store(broken.is_some(), Ordering::Release);
                *known = broken;
            }
        }
        if is_gone {
            return;
        }
        let free = place.reserve.free();
        self.is_short.store(free.is_some_and(|free| free < SHORT), Ordering::Relaxed);
        let has_room = place.reserve.has_room(free, connection);
        if self.is_full.swap(!has_room, Ordering::Relaxed) && has_room {
            tracing::info!("there is room on the disk again, enqueues are accepted");
        }
    }
}

impl Place {
    fn broken(&self, connection: Option<&Connection>) -> Option<Refusal> {
        for part in [&self.file, &self.log] {
            if !part.is_in_place() {
                return Some(Refusal::Gone(part.path().to_owned()));
            }
        }
        // What cannot be read now is read at the next look.
        let found = connection.and_then(|connection| migrate::version(connection).ok())?;
        let known = migrate::known();
        (found > known).then_some(Refusal::TooNew { found, known })
    }
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Gone(path) => Self::Address(format!(
                "{} was deleted or replaced while this program had it open, nothing that is written reaches it: put \
                 the file back in its place, or restart the program to use the one that is there now",
                path.display()
            )),
            Refusal::TooNew { found, known } => Self::SchemaTooNew { found, known },
            Refusal::Full => Self::Unavailable {
                what: "the disk is full: no more jobs are taken until there is room, those that are stored go on"
                    .to_owned(),
                source: None,
            },
        }
    }
}

impl From<Refusal> for Fault {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal.into())
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
