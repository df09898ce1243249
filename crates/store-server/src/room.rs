//! A room of processes in memory, for tests: it hands notes on, or not.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::Name;
use windlass_core::bell::{Bell, Note, Peer, Peers, Rings, Topic, Waiter, WakeMode, WakeModeCell, Word};

use crate::listen::{Ear, End, Listener};
use crate::tell::{Teller, To, Voice};

/// A server that hands notes on, or not.
#[derive(Default)]
pub(crate) struct Room {
    pub(crate) lines: Mutex<Vec<(u64, mpsc::UnboundedSender<String>)>>,
    /// What leases say.
    pub(crate) served: Mutex<Vec<String>>,
    pub(crate) is_deaf: AtomicBool,
    pub(crate) is_mute: AtomicBool,
    pub(crate) opened: AtomicU32,
    pub(crate) parted: AtomicU32,
    /// All that was said.
    pub(crate) said: Mutex<Vec<(To, Note)>>,
    /// How often it was read who is there.
    pub(crate) looked: AtomicU32,
}

impl Room {
    pub(crate) fn hand_on(&self, to: To, note: &Note) {
        if !self.is_deaf.load(Ordering::Relaxed) {
            let is_meant = |owner| matches!(to, To::Everyone) || to == To::Process(owner);
            let text = note.to_string();
            let mut lines = self.lines.lock().unwrap();
            lines.retain(|(owner, line)| !is_meant(*owner) || line.send(text.clone()).is_ok());
        }
    }

    /// How many notes were said that are like this.
    pub(crate) fn count(&self, is_it: impl Fn(&Word) -> bool) -> usize {
        self.said.lock().unwrap().iter().filter(|(_, note)| is_it(&note.word)).count()
    }
}

impl Voice for Arc<Room> {
    const PAUSE_MAX: Duration = Duration::from_millis(50);

    async fn say(&self, notes: impl FnOnce() -> Vec<(To, Note)> + Send) -> Result<(), End> {
        if self.is_mute.load(Ordering::Relaxed) {
            return Err(End::Lost("it is not passed on".to_owned()));
        }
        for (to, note) in notes() {
            self.hand_on(to, &note);
            self.said.lock().unwrap().push((to, note));
        }
        Ok(())
    }

    async fn peers(&self) -> Result<Peers, End> {
        self.looked.fetch_add(1, Ordering::Relaxed);
        Ok(self.served.lock().unwrap().iter().map(|served| Peer::read(served)).collect())
    }
}

impl Ear for Arc<Room> {
    type Line = mpsc::UnboundedReceiver<String>;

    const QUIET: Duration = Duration::from_secs(10);
    const ADVICE: &str = "Shout";

    async fn open(&self, owner: u64) -> Result<Self::Line, End> {
        let (line, heard) = mpsc::unbounded_channel();
        self.lines.lock().unwrap().push((owner, line));
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(heard)
    }

    async fn hear(&self, line: &mut Self::Line) -> Result<String, End> {
        line.recv().await.ok_or_else(End::broken)
    }

    async fn part(&self, _line: Self::Line) {
        self.parted.fetch_add(1, Ordering::Relaxed);
    }
}

/// A process in the room.
#[derive(Clone)]
pub(crate) struct Member {
    pub(crate) teller: Arc<Teller<Arc<Room>>>,
}

impl Member {
    /// One that tells and does not listen.
    pub(crate) fn new(room: &Arc<Room>) -> Self {
        let mode = Arc::new(WakeModeCell::new(WakeMode::Starting));
        Self { teller: Arc::new(Teller::new(Arc::clone(room), Bell::new(), mode)) }
    }

    /// One that listens as well.
    pub(crate) fn listening(room: &Arc<Room>) -> Self {
        let member = Self::new(room);
        tokio::spawn(Listener::new(Arc::clone(&member.teller)).run());
        member
    }

    pub(crate) fn bell(&self) -> &Bell {
        self.teller.bell()
    }

    pub(crate) fn mode(&self) -> WakeMode {
        self.teller.mode().get()
    }

    /// Rings as a store does.
    pub(crate) fn ring(&self, rings: Rings) {
        if self.teller.ring(rings) {
            let teller = Arc::clone(&self.teller);
            tokio::spawn(async move { teller.tell().await });
        }
    }
}

/// A worker that counts how often it is woken.
#[derive(Default)]
pub(crate) struct CountingWaiter {
    pub(crate) room: AtomicU32,
    pub(crate) woken: AtomicU32,
}

impl Waiter for CountingWaiter {
    fn room(&self, _queue: &Name) -> u32 {
        self.room.load(Ordering::Relaxed)
    }

    fn wake(&self, _queue: Option<&Name>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
    }
}

/// Waits, in steps of the paused clock.
pub(crate) async fn until(what: impl Fn() -> bool) {
    while !what() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// About a topic, as a third process says it.
pub(crate) fn said_by(owner: u64, topic: Topic) -> Note {
    let word = match topic {
        Topic::Work => Word::Work { work: windlass_core::bell::Named::Any, hops: 0 },
        Topic::Cancel => Word::Cancel(windlass_core::bell::Named::Any),
        Topic::Finish => Word::Finish,
    };
    Note { owner, word }
}
