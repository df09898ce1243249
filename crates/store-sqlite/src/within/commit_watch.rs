//! Waiting for a user's commit, of which the store is not told: a thread looks for what was written inside
//! the transaction until others can see it, then rings. It looks often at first and ever less often, and
//! gives up after a while, for the transaction may have been rolled back. Polling finds the rest.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};
use windlass_core::bell::{Bell, Rings, Topic};
use windlass_core::{Fence, JobId};

use crate::error::Fault;
use crate::wakeup::Ringer;
use crate::{connect, row};

const IS_THERE: &str = include_str!("../../queries/within/is_there.sql");
const IS_OVER: &str = include_str!("../../queries/within/is_over.sql");
const VERSION: &str = "PRAGMA data_version";

/// The shortest and the longest pause between two looks.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(250);
/// A pause is this part of the time waited so far, so a commit is heard of late by no more than that.
const PAUSE_PART: u32 = 8;
/// How long a commit is waited for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How many are waited for at once; beyond it, polling has to do.
const AWAITED_MAX: usize = 1_024;

/// What becomes visible when the user commits.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Awaited {
    /// A job that was not there.
    Enqueue { id: JobId },
    /// The end of an attempt, in a queue that may have room for another one by that.
    End { id: JobId, fence: Fence, makes_room: bool },
}

/// The handle of the thread. Dropping it ends it.
pub(crate) struct CommitWatch {
    sender: Option<SyncSender<Awaited>>,
    thread: Option<JoinHandle<()>>,
}

impl CommitWatch {
    pub(crate) fn start(path: &Path, bell: Bell, ringer: Ringer) -> Result<Self, Fault> {
        let connection = connect::reader(path)?;
        let (sender, receiver) = mpsc::sync_channel(AWAITED_MAX);
        let mut watcher = Watcher { connection, bell, ringer, version: 0, awaited: Vec::new() };
        let thread = thread::Builder::new()
            .name("windlass-sqlite-commit-watch".to_owned())
            .spawn(move || watcher.run(&receiver))
            .map_err(|error| Fault::Defect(format!("cannot start a thread: {error}")))?;
        Ok(Self { sender: Some(sender), thread: Some(thread) })
    }

    pub(crate) fn keep(&self, awaited: Awaited) {
        if let Some(sender) = &self.sender {
            // A full channel means that more than enough is waited for already.
            let _ = sender.try_send(awaited);
        }
    }
}

impl Drop for CommitWatch {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that waits for commits of others ended in a panic");
        }
    }
}

struct Watcher {
    connection: Connection,
    bell: Bell,
    ringer: Ringer,
    /// Changes with every commit of another connection.
    version: i64,
    awaited: Vec<(Awaited, Instant)>,
}

impl Watcher {
    fn run(&mut self, receiver: &Receiver<Awaited>) {
        loop {
            let next = match self.pause() {
                None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(pause) => receiver.recv_timeout(pause),
            };
            match next {
                Ok(awaited) => self.add(awaited),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if let Err(error) = self.look() {
                // Waiters poll as well.
                tracing::debug!(?error, "cannot look for commits of others");
                self.awaited.clear();
            }
        }
    }

    fn add(&mut self, awaited: Awaited) {
        if self.awaited.len() < AWAITED_MAX {
            self.awaited.push((awaited, Instant::now()));
            // It may have been committed before this.
            self.version = -1;
        }
    }

    /// How long to wait until the next look; for ever while there is nothing to look for.
    fn pause(&self) -> Option<Duration> {
        let youngest = self.awaited.iter().map(|(_, since)| since.elapsed()).min()?;
        Some((youngest / PAUSE_PART).clamp(PAUSE_MIN, PAUSE_MAX))
    }

    fn look(&mut self) -> Result<(), Fault> {
        let version = self.connection.prepare_cached(VERSION)?.query_row([], |row| row.get(0))?;
        let mut rings = Rings::default();
        if version != self.version {
            self.version = version;
            let mut left = Vec::with_capacity(self.awaited.len());
            for (awaited, since) in std::mem::take(&mut self.awaited) {
                if self.has_come(awaited)? {
                    rings = rings.and(awaited.rings());
                } else {
                    left.push((awaited, since));
                }
            }
            self.awaited = left;
        }
        self.awaited.retain(|(_, since)| since.elapsed() < WAIT_MAX);
        let left = rings.ring(&self.bell);
        self.ringer.ring(&left);
        Ok(())
    }

    fn has_come(&self, awaited: Awaited) -> Result<bool, Fault> {
        let came = match awaited {
            Awaited::Enqueue { id } => {
                self.connection.prepare_cached(IS_THERE)?.query_row([id.as_bytes()], |row| row.get(0))?
            }
            Awaited::End { id, fence, .. } => {
                let right = params![id.as_bytes(), row::to_stored(fence.number), row::to_stored(fence.nonce)];
                self.connection.prepare_cached(IS_OVER)?.query_row(right, |row| row.get(0))?
            }
        };
        Ok(came)
    }
}

impl Awaited {
    fn rings(self) -> Rings {
        match self {
            Self::Enqueue { .. } => Rings::about(Topic::Work),
            Self::End { makes_room: false, .. } => Rings::about(Topic::Finish),
            Self::End { makes_room: true, .. } => Rings::about(Topic::Finish).and(Rings::about(Topic::Work)),
        }
    }
}
