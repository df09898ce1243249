//! Against a room of listeners in memory, which hands notes on or not.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tokio::sync::mpsc;
use windlass_core::bell::{Rings, Topic};

use super::*;

/// A server that hands notes on, or not.
#[derive(Default)]
struct Room {
    lines: Mutex<Vec<mpsc::UnboundedSender<String>>>,
    is_deaf: AtomicBool,
    opened: AtomicU32,
    parted: AtomicU32,
    said: AtomicU32,
    is_mute: AtomicBool,
}

impl Room {
    fn tell(&self, note: &Note) {
        if !self.is_deaf.load(Ordering::Relaxed) {
            self.lines.lock().unwrap().retain(|line| line.send(note.to_string()).is_ok());
        }
    }
}

impl Ear for Arc<Room> {
    type Line = mpsc::UnboundedReceiver<String>;

    const QUIET: Duration = Duration::from_secs(10);
    const ADVICE: &str = "Shout";

    async fn open(&self) -> Result<Self::Line, End> {
        let (line, heard) = mpsc::unbounded_channel();
        self.lines.lock().unwrap().push(line);
        self.opened.fetch_add(1, Ordering::Relaxed);
        Ok(heard)
    }

    async fn hear(&self, line: &mut Self::Line) -> Result<String, End> {
        line.recv().await.ok_or_else(End::broken)
    }

    async fn say(&self, note: Note) -> Result<(), End> {
        if self.is_mute.load(Ordering::Relaxed) {
            return Err(End::Lost("nobody passes it on".to_owned()));
        }
        self.said.fetch_add(1, Ordering::Relaxed);
        self.tell(&note);
        Ok(())
    }

    async fn part(&self, _line: Self::Line) {
        self.parted.fetch_add(1, Ordering::Relaxed);
    }
}

const OWNER: u64 = 7;

fn listen(room: &Arc<Room>) -> (Bell, Arc<WakeModeCell>) {
    let (bell, mode) = (Bell::new(), Arc::new(WakeModeCell::new(WakeMode::Starting)));
    let listener = Listener::new(Arc::clone(room), bell.clone(), Arc::clone(&mode), OWNER);
    tokio::spawn(listener.run());
    (bell, mode)
}

async fn until(what: impl Fn() -> bool) {
    while !what() {
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_rings_of_others_are_heard_and_ones_own_are_not() {
    let room = Arc::new(Room::default());
    let (bell, mode) = listen(&room);
    until(|| mode.get() == WakeMode::Listening).await;
    let mut work = bell.listen(Topic::Work);
    let note = |owner| Note::Rings { owner, rings: Rings::about(Topic::Work) };
    room.tell(&note(OWNER));
    assert!(timeout(Duration::from_secs(1), work.rung()).await.is_err(), "it was rung here already");
    room.tell(&note(OWNER + 1));
    work.rung().await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_is_made_again_soon() {
    let room = Arc::new(Room::default());
    let (_bell, mode) = listen(&room);
    until(|| mode.get() == WakeMode::Listening).await;
    room.lines.lock().unwrap().clear();
    let begun = Instant::now();
    until(|| room.opened.load(Ordering::Relaxed) == 2 && mode.get() == WakeMode::Listening).await;
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_hears_nothing_says_so_and_tries_again_much_later() {
    let room = Arc::new(Room::default());
    room.is_deaf.store(true, Ordering::Relaxed);
    let (_bell, mode) = listen(&room);
    until(|| mode.get() == WakeMode::Polling).await;
    assert_eq!(room.parted.load(Ordering::Relaxed), 1);
    room.is_deaf.store(false, Ordering::Relaxed);
    let begun = Instant::now();
    until(|| mode.get() == WakeMode::Listening).await;
    assert!(begun.elapsed() >= DEAF_PAUSE - Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn who_grows_deaf_while_it_is_quiet_finds_out_and_hears_by_another_line() {
    let room = Arc::new(Room::default());
    let (_bell, mode) = listen(&room);
    until(|| mode.get() == WakeMode::Listening).await;
    // This line is forgotten, without being closed.
    let forgotten = std::mem::take(&mut *room.lines.lock().unwrap());
    let begun = Instant::now();
    until(|| room.opened.load(Ordering::Relaxed) == 2 && mode.get() == WakeMode::Listening).await;
    assert!(begun.elapsed() < <Arc<Room> as Ear>::QUIET * 2 + TEST_WAIT * 2, "{:?}", begun.elapsed());
    assert_eq!(room.parted.load(Ordering::Relaxed), 0, "it is no pooler that hands nothing on");
    drop(forgotten);
}

#[tokio::test(start_paused = true)]
async fn a_word_that_cannot_be_sent_says_nothing_about_the_line() {
    let room = Arc::new(Room::default());
    let (_bell, mode) = listen(&room);
    until(|| mode.get() == WakeMode::Listening).await;
    room.is_mute.store(true, Ordering::Relaxed);
    sleep(<Arc<Room> as Ear>::QUIET * 10).await;
    assert_eq!((mode.get(), room.opened.load(Ordering::Relaxed)), (WakeMode::Listening, 1));
}

#[tokio::test(start_paused = true)]
async fn of_many_that_listen_few_test_for_all() {
    let room = Arc::new(Room::default());
    let all: Vec<_> = (0..50).map(|_| listen(&room)).collect();
    until(|| all.iter().all(|(_, mode)| mode.get() == WakeMode::Listening)).await;
    let before = room.said.load(Ordering::Relaxed);
    sleep(<Arc<Room> as Ear>::QUIET * 20).await;
    let said = room.said.load(Ordering::Relaxed) - before;
    assert!((10..=100).contains(&said), "{said} tests in twenty times of quiet");
    assert!(all.iter().all(|(_, mode)| mode.get() == WakeMode::Listening));
}
