//! Watching the bell file for other processes.

use std::fs::File;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use windlass_core::bell::Bell;

use super::Board;

/// How often the file is looked at where the operating system does not tell of changes.
const POLL: Duration = Duration::from_millis(250);

/// Rings a bell for the rings of others as long as it lives.
pub(crate) struct Watch {
    _how: How,
}

enum How {
    Told { _watcher: RecommendedWatcher },
    Polling { stop: Option<mpsc::Sender<()>>, thread: Option<JoinHandle<()>> },
}

impl Watch {
    pub(crate) fn start(path: &Path, file: Arc<File>, own: u64, bell: &Bell) -> Self {
        let ear = Arc::new(Ear::new(file, own, bell.clone()));
        let how = told(path, &ear).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %path.display(), "cannot watch for other processes, looking every 250 ms");
            polling(ear)
        });
        Self { _how: how }
    }

    #[cfg(test)]
    fn start_polling(file: Arc<File>, own: u64, bell: &Bell) -> Self {
        Self { _how: polling(Arc::new(Ear::new(file, own, bell.clone()))) }
    }
}

fn told(path: &Path, ear: &Arc<Ear>) -> notify::Result<How> {
    let told = Arc::clone(ear);
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        // Reading does not change the file, so an access is not a ring.
        if event.is_ok_and(|event| !event.kind.is_access()) {
            told.look();
        }
    })?;
    watcher.watch(path, RecursiveMode::NonRecursive)?;
    Ok(How::Told { _watcher: watcher })
}

fn polling(ear: Arc<Ear>) -> How {
    let (stop, stopped) = mpsc::channel();
    let body = move || {
        while stopped.recv_timeout(POLL) == Err(RecvTimeoutError::Timeout) {
            ear.look();
        }
    };
    let thread = thread::Builder::new().name("windlass-sqlite-bell".to_owned()).spawn(body);
    // Without a thread there are no wake-ups from others; workers poll anyway.
    How::Polling { stop: Some(stop), thread: thread.ok() }
}

impl Drop for How {
    fn drop(&mut self) {
        if let Self::Polling { stop, thread } = self {
            *stop = None;
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

/// Hears what has changed in the file since the last look.
struct Ear {
    file: Arc<File>,
    /// The name that the store's own rings carry.
    own: u64,
    bell: Bell,
    seen: Mutex<Option<Board>>,
}

impl Ear {
    fn new(file: Arc<File>, own: u64, bell: Bell) -> Self {
        let seen = Mutex::new(Board::read(&file).ok());
        Self { file, own, bell, seen }
    }

    fn look(&self) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Board::read(&self.file).ok();
        match (&now, &*seen) {
            (Some(now), Some(before)) => {
                // The others hear it by themselves.
                let _ = now.news(before, self.own).ring(&self.bell);
            }
            // Something changed, and it is not known what.
            _ => self.bell.ring_all(),
        }
        *seen = now;
    }
}

#[cfg(test)]
mod tests {
    use windlass_core::bell::{Rings, Topic};

    use super::*;
    use crate::wakeup::Ringer;

    #[tokio::test]
    async fn polling_hears_others_too() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let bell = Bell::new();
        let mut listener = bell.listen(Topic::Finish);
        let _watch = Watch::start_polling(Arc::clone(&file), 0, &bell);
        let mut other = Ringer { slot: 3, ..Ringer::new(file) };
        other.ring(&Rings::about(Topic::Finish));
        tokio::time::timeout(Duration::from_secs(10), listener.rung()).await.expect("the bell rings");
    }
}
