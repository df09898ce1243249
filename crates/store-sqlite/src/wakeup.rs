//! Wake-ups: the bell of this process, and the file through which processes on one store wake each other.
//!
//! Beside the database lies a small file. Each open store has a slot in it with one counter per topic, and
//! counts up after a commit that is of interest; every store that is listened to watches the file and rings
//! its own bell when another has changed a slot. A lost change only delays a worker until it polls.

mod watch;

use std::fs::File;
use std::io;
use std::sync::Arc;

use windlass_core::bell::{Bell, Rings, Topic};
use windlass_core::store::Wakeup;

use crate::SqliteStore;
pub(crate) use watch::Watch;

impl Wakeup for SqliteStore {
    /// The first call begins to watch for other processes: a store without listeners has no watcher.
    fn bell(&self) -> &Bell {
        self.inner.listen()
    }
}

const SLOTS: u64 = 128;
const SLOT_BYTES: u64 = 32;
const COUNTERS: usize = Topic::ALL.len();

/// What one slot holds: the counters, and who wrote them last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Slot {
    counters: [u64; COUNTERS],
    owner: u64,
}

/// Tells other processes. Belongs to the writer thread.
pub(crate) struct Ringer {
    file: Arc<File>,
    slot: u64,
    content: Slot,
}

impl Ringer {
    /// Takes a slot by chance, and a name that tells its own rings from those of another in the same slot. Two
    /// such miss a ring only if both ring before either looks.
    pub(crate) fn new(file: Arc<File>) -> Self {
        let counters = [(); COUNTERS].map(|()| fastrand::u64(..));
        Self { file, slot: fastrand::u64(..SLOTS), content: Slot { counters, owner: fastrand::u64(1..) } }
    }

    /// Another ringer of the same store, whose rings the store does not take for those of others.
    pub(crate) fn of(owner: u64, file: Arc<File>) -> Self {
        let mut ringer = Self::new(file);
        ringer.content.owner = owner;
        ringer
    }

    /// The name that its rings carry.
    pub(crate) fn owner(&self) -> u64 {
        self.content.owner
    }

    pub(crate) fn file(&self) -> Arc<File> {
        Arc::clone(&self.file)
    }

    pub(crate) fn ring(&mut self, rings: &Rings) {
        if rings.is_empty() {
            return;
        }
        let Slot { counters, owner } = &mut self.content;
        for topic in rings.topics() {
            let counter = &mut counters[topic as usize];
            *counter = counter.wrapping_add(1);
        }
        let bytes: Vec<u8> =
            counters.iter().chain([&*owner]).flat_map(|number| number.to_le_bytes()).collect();
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
            let number = |index: usize| {
                let mut number = [0; 8];
                number.copy_from_slice(&bytes[index * 8..index * 8 + 8]);
                u64::from_le_bytes(number)
            };
            Slot { counters: std::array::from_fn(number), owner: number(COUNTERS) }
        };
        Ok(Self(bytes.chunks_exact(SLOT_BYTES as usize).map(slot).collect()))
    }

    /// What others than `own` have rung about since `before`.
    fn news(&self, before: &Self, own: u64) -> Rings {
        let others = self.0.iter().zip(&before.0).filter(|(now, _)| now.owner != own);
        let rung = others.flat_map(|(now, before)| {
            let has_changed =
                |&topic: &Topic| now.counters[topic as usize] != before.counters[topic as usize];
            Topic::ALL.into_iter().filter(has_changed)
        });
        rung.collect()
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
        own.ring(&Rings::about(Topic::Work));
        other.ring(&Rings::about(Topic::Work));
        let before = Board::read(&file).unwrap();
        own.ring(&Rings::about(Topic::Work));
        assert_eq!(Board::read(&file).unwrap().news(&before, own.owner()), Rings::NONE);
        other.ring(&Rings::about(Topic::Finish));
        assert_eq!(Board::read(&file).unwrap().news(&before, own.owner()), Rings::about(Topic::Finish));
    }

    #[test]
    fn two_in_one_slot_hear_each_other() {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let mut ringers = [(); 2].map(|()| Ringer { slot: 3, ..Ringer::new(Arc::clone(&file)) });
        for turn in 0..6 {
            let before = Board::read(&file).unwrap();
            ringers[turn % 2].ring(&Rings::about(Topic::Work));
            let now = Board::read(&file).unwrap();
            assert_eq!(now.news(&before, ringers[turn % 2].owner()), Rings::NONE);
            let heard = now.news(&before, ringers[(turn + 1) % 2].owner());
            assert!(heard.has(Topic::Work), "turn {turn}");
        }
    }
}
