//! Copying a long log beside the writer. A reader that stayed for long leaves a log whose copying takes a second or
//! more; in the writer's thread every call would wait for it. The thread begins with the first log that is so long.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};

use crate::connect;
use crate::error::Fault;

const IDLE: u8 = 0;
const BUSY: u8 = 1;
const DONE: u8 = 2;

/// The handle of the thread. Dropping it ends the thread.
pub(crate) struct Copier {
    path: PathBuf,
    state: Arc<AtomicU8>,
    thread: Option<(SyncSender<()>, JoinHandle<()>)>,
}

impl Copier {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, state: Arc::default(), thread: None }
    }

    /// Lets the thread copy, unless it has just done so and the rest is the writer's: `is_writers_turn` says whether
    /// the log has grown enough for that. True while the thread copies.
    pub(crate) fn copies(&mut self, is_writers_turn: bool) -> bool {
        match self.state.load(Ordering::Acquire) {
            BUSY => true,
            DONE if is_writers_turn => {
                self.state.store(IDLE, Ordering::Release);
                false
            }
            _ => self.begin(),
        }
    }

    fn begin(&mut self) -> bool {
        if self.thread.is_none() {
            match start(self.path.clone(), Arc::clone(&self.state)) {
                Ok(thread) => self.thread = Some(thread),
                Err(fault) => tracing::warn!(%fault, "cannot copy a long log beside the writer"),
            }
        }
        let Some((sender, _)) = &self.thread else { return false };
        self.state.store(BUSY, Ordering::Release);
        // A thread that ended by a panic copies nothing; the writer does it instead.
        let is_begun = sender.try_send(()).is_ok();
        if !is_begun {
            self.state.store(IDLE, Ordering::Release);
        }
        is_begun
    }
}

impl Drop for Copier {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.thread.take() {
            drop(sender);
            if thread.join().is_err() {
                tracing::error!("the thread that copies the log ended in a panic");
            }
        }
    }
}

fn start(path: PathBuf, state: Arc<AtomicU8>) -> Result<(SyncSender<()>, JoinHandle<()>), Fault> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let connection = connect::reader(&path)?;
    let body = move || run(&connection, &receiver, &state);
    let thread = thread::Builder::new()
        .name("windlass-sqlite-copier".to_owned())
        .spawn(body)
        .map_err(|error| Fault::Defect(format!("cannot start a thread: {error}")))?;
    Ok((sender, thread))
}

fn run(connection: &rusqlite::Connection, receiver: &Receiver<()>, state: &AtomicU8) {
    while receiver.recv().is_ok() {
        if let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())) {
            // The writer tries next, and says so.
            tracing::debug!(%error, "cannot copy a long log");
        }
        state.store(DONE, Ordering::Release);
    }
}
