//! What processes tell each other so that they wake: the text that a store's server carries, and whether it does.

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{Rings, Topic};

/// How a store hears of the writes of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeMode {
    /// Not known yet, or there is no listener.
    Starting,
    /// By notifications of the server.
    Listening,
    /// By looking again and again: notifications do not come through at present, or are not wanted.
    Polling,
}

impl fmt::Display for WakeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Listening => "listening",
            Self::Polling => "polling",
        })
    }
}

/// A [`WakeMode`] that one sets and many read.
#[derive(Debug)]
pub struct WakeModeCell(AtomicU8);

impl WakeModeCell {
    /// Begins with a mode.
    pub fn new(mode: WakeMode) -> Self {
        Self(AtomicU8::new(mode as u8))
    }

    /// The mode now.
    pub fn get(&self) -> WakeMode {
        let all = [WakeMode::Starting, WakeMode::Listening, WakeMode::Polling];
        all[usize::from(self.0.load(Ordering::Relaxed))]
    }

    /// Changes it.
    pub fn set(&self, mode: WakeMode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}

/// What a notification says: who sent it, and about what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Note {
    /// A ring of a process.
    Rings {
        /// Whose: it has rung for itself already.
        owner: u64,
        /// About what.
        rings: Rings,
    },
    /// A listener's word to itself.
    Test {
        /// Tells it from others.
        nonce: u64,
    },
}

/// The letter of each topic, at the place that is its number.
const LETTERS: [char; 3] = ['w', 'c', 'f'];

impl Note {
    /// Reads the text of a notification. One that is not ours says nothing about what it is about.
    pub fn read(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(' ')?;
        let number = u64::from_str_radix(name, 16).ok()?;
        if rest == "?" {
            return Some(Self::Test { nonce: number });
        }
        let topic = |letter| LETTERS.iter().position(|&known| known == letter).map(|at| Topic::ALL[at]);
        let rings = rest.chars().map(topic).collect::<Option<Rings>>()?;
        Some(Self::Rings { owner: number, rings })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test { nonce } => write!(f, "{nonce:016x} ?"),
            Self::Rings { owner, rings } => {
                let letters: String = rings.topics().map(|topic| LETTERS[topic as usize]).collect();
                write!(f, "{owner:016x} {letters}")
            }
        }
    }
}

/// Topics that other processes have not been told of yet. While there are some, a sender runs.
#[derive(Debug, Default)]
pub struct Owed(AtomicU8);

impl Owed {
    /// Adds topics. True if no sender runs, so that the caller must start one.
    #[must_use]
    pub fn add(&self, rings: Rings) -> bool {
        let bits = rings.topics().fold(0, |bits, topic| bits | 1 << topic as u8);
        bits != 0 && self.0.fetch_or(bits, Ordering::AcqRel) == 0
    }

    /// Takes them all, at the last moment before they are told, or to forget them.
    pub fn take(&self) -> Rings {
        let bits = self.0.swap(0, Ordering::AcqRel);
        Topic::ALL.into_iter().filter(|&topic| bits & (1 << topic as u8) != 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_survives_its_text() {
        let rings = Rings::about(Topic::Work).and(Rings::about(Topic::Finish));
        for note in [Note::Rings { owner: 7, rings }, Note::Test { nonce: u64::MAX }] {
            assert_eq!(Note::read(&note.to_string()), Some(note));
        }
        assert_eq!(Note::Rings { owner: 10, rings }.to_string(), "000000000000000a wf");
        for foreign in ["", "x", "0a", "0a x", "zz w"] {
            assert_eq!(Note::read(foreign), None, "{foreign:?}");
        }
    }

    #[test]
    fn one_is_sent_for_all_that_is_owed() {
        let (owed, work) = (Owed::default(), Rings::about(Topic::Work));
        assert!(!owed.add(Rings::NONE), "there is nothing to tell");
        assert!(owed.add(work) && !owed.add(work) && !owed.add(Rings::about(Topic::Cancel)));
        assert_eq!(owed.take(), work.and(Rings::about(Topic::Cancel)));
        assert!(owed.take().is_empty() && owed.add(work));
    }

    #[test]
    fn every_mode_is_kept() {
        let cell = WakeModeCell::new(WakeMode::Starting);
        for mode in [WakeMode::Polling, WakeMode::Listening, WakeMode::Starting] {
            cell.set(mode);
            assert_eq!(cell.get(), mode);
        }
    }
}
