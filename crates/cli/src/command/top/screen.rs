//! The terminal: drawn on, and read from on a thread of its own, since reading keys blocks.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyEvent, KeyEventKind};
use ratatui::{DefaultTerminal, Frame};
use tokio::sync::mpsc;

/// How soon the thread ends after the screen was closed.
const POLL: Duration = Duration::from_millis(100);
/// Keys that wait; more than a person types during one look.
const KEYS_MAX: usize = 64;

/// A terminal that is given back as it was when this is dropped, and when the program panics.
pub(super) struct Screen {
    terminal: DefaultTerminal,
    keys: mpsc::Receiver<Option<KeyEvent>>,
    is_over: Arc<AtomicBool>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let terminal = ratatui::try_init()?;
        let (typed, keys) = mpsc::channel(KEYS_MAX);
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        thread::Builder::new().name("keys".to_owned()).spawn(move || read(&typed, &over))?;
        Ok(Self { terminal, keys, is_over })
    }

    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw).map(drop)
    }

    /// The next key; nothing when the terminal is gone. A change of size is a key that means nothing. May be dropped and
    /// called again.
    pub(super) async fn key(&mut self) -> Option<KeyEvent> {
        self.keys.recv().await.flatten()
    }

    /// Waits until a key is there to be read.
    pub(super) async fn waits(&self) {
        while self.keys.is_empty() && !self.keys.is_closed() {
            tokio::time::sleep(POLL / 4).await;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        ratatui::restore();
    }
}

fn read(typed: &mpsc::Sender<Option<KeyEvent>>, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Relaxed) {
        let key = match event::poll(POLL)
            .and_then(|is_there| if is_there { event::read().map(Some) } else { Ok(None) })
        {
            Ok(Some(Event::Key(key))) if key.kind != KeyEventKind::Release => Some(key),
            Ok(Some(Event::Resize(..))) => Some(KeyEvent::from(event::KeyCode::Null)),
            Ok(_) => continue,
            Err(_) => None,
        };
        // A screen that is closed reads no more.
        if typed.blocking_send(key).is_err() || key.is_none() {
            return;
        }
    }
}
