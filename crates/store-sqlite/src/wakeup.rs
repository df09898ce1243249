//! Wake-ups: the bell of this process, and the file through which processes on one store wake each other.
//!
//! Beside the database lies a small file. Each open store has a slot in it with one counter per topic, and
//! counts up after a commit that is of interest; every store that is listened to watches the file and rings
//! its own bell when another's slot has changed. A lost change only delays a worker until it polls.

mod watch;

use std::fs::File;
use std::io;
use std::sync::Arc;

use windlass_core::State;
use windlass_core::bell::{Bell, Topic};
use windlass_core::store::Wakeup;

use crate::SqliteStore;
pub(crate) use watch::Watch;

impl Wakeup for SqliteStore {
    /// The first call begins to watch for other processes: a store that nobody listens to has no watcher.
    fn bell(&self) -> &Bell {
        self.inner.listen()
    }
}

const TOPICS: [Topic; 3] = [Topic::Work, Topic::Cancel, Topic::Finish];
const SLOTS: u64 = 128;
const SLOT_BYTES: u64 = 32;
const COUNTERS: usize = TOPICS.len();

/// What a commit has to ring about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rings([bool; COUNTERS]);

impl Rings {
    pub(crate) fn about(topic: Topic) -> Self {
        let mut rings = Self::default();
        rings.0[topic as usize] = true;
        rings
    }

    /// A job came into this state.
    pub(crate) fn entered(state: State) -> Self {
        match state {
            State::Ready | State::Scheduled => Self::about(Topic::Work),
            state if state.is_terminal() => Self::about(Topic::Finish),
            _ => Self::default(),
        }
    }

    pub(crate) fn and(self, more: Self) -> Self {
        Self(std::array::from_fn(|topic| self.0[topic] || more.0[topic]))
    }

    pub(crate) fn ring(self, bell: &Bell) {
        TOPICS.into_iter().filter(|&topic| self.0[topic as usize]).for_each(|topic| bell.ring(topic));
    }
}

/// The counters of one slot.
type Slot = [u64; COUNTERS];

/// Tells other processes. Belongs to the writer thread.
pub(crate) struct Ringer {
    file: Arc<File>,
    slot: u64,
    counters: Slot,
}

impl Ringer {
    /// Takes a slot by chance. Two stores in one slot may miss a ring of each other now and then.
    pub(crate) fn new(file: Arc<File>) -> Self {
        Self { file, slot: fastrand::u64(..SLOTS), counters: [(); COUNTERS].map(|()| fastrand::u64(..)) }
    }

    pub(crate) fn slot(&self) -> u64 {
        self.slot
    }

    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub(crate) fn ring(&mut self, rings: Rings) {
        if rings == Rings::default() {
            return;
        }
        for (counter, rung) in self.counters.iter_mut().zip(rings.0) {
            *counter = counter.wrapping_add(u64::from(rung));
        }
        let bytes: Vec<u8> = self.counters.iter().flat_map(|counter| counter.to_le_bytes()).collect();
        if let Err(error) = write_at(&self.file, &bytes, self.slot * SLOT_BYTES) {
            // Polling is the truth; other processes only hear of it later.
            tracing::debug!(%error, "cannot ring for other processes");
        }
    }
}

/// All slots as they were last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Board(Vec<Slot>);

impl Board {
    fn read(file: &File) -> io::Result<Self> {
        let mut bytes = [0; (SLOTS * SLOT_BYTES) as usize];
        read_at(file, &mut bytes, 0)?;
        let slot = |bytes: &[u8]| {
            std::array::from_fn(|topic| {
                let mut counter = [0; 8];
                counter.copy_from_slice(&bytes[topic * 8..topic * 8 + 8]);
                u64::from_le_bytes(counter)
            })
        };
        Ok(Self(bytes.chunks_exact(SLOT_BYTES as usize).map(slot).collect()))
    }

    /// What others have rung about since `before`.
    fn news(&self, before: &Self, own: u64) -> Rings {
        let others = self.0.iter().zip(&before.0).enumerate().filter(|(slot, _)| *slot as u64 != own);
        others.fold(Rings::default(), |rings, (_, (now, before))| {
            rings.and(Rings(std::array::from_fn(|topic| now[topic] != before[topic])))
        })
    }
}

#[cfg(unix)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Reads what is there; a file that ends earlier leaves the rest as it was.
#[cfg(unix)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, bytes, offset)
}

#[cfg(windows)]
pub(crate) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::windows::fs::FileExt::seek_write(file, bytes, offset).map(drop)
}

#[cfg(windows)]
pub(crate) fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    std::os::windows::fs::FileExt::seek_read(file, bytes, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_heard_by_topic_and_oneself_is_not() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut other = Ringer { slot: 3, ..Ringer::new(Arc::clone(&file)) };
        let mut own = Ringer { slot: 4, ..Ringer::new(Arc::clone(&file)) };
        own.ring(Rings::about(Topic::Work));
        other.ring(Rings::about(Topic::Work));
        let before = Board::read(&file).unwrap();
        own.ring(Rings::about(Topic::Work));
        assert_eq!(Board::read(&file).unwrap().news(&before, 4), Rings::default());
        other.ring(Rings::about(Topic::Finish));
        assert_eq!(Board::read(&file).unwrap().news(&before, 4), Rings::about(Topic::Finish));
    }

    #[test]
    fn only_states_of_interest_ring() {
        assert_eq!(Rings::entered(State::Scheduled), Rings::about(Topic::Work));
        assert_eq!(Rings::entered(State::Dead), Rings::about(Topic::Finish));
        assert_eq!(Rings::entered(State::Running), Rings::default());
    }
}
