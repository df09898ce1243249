//! Hears the notes of other processes, on a connection of its own.
//!
//! A pooler or proxy may take the subscription and never hand anything on. So the listener sends itself a word by
//! another connection, and says so if it does not come.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout, timeout_at};
use windlass_core::bell::{Bell, Note, WakeMode, WakeModeCell};

use crate::backoff::pause;

/// How long the word to oneself may take.
const TEST_WAIT: Duration = Duration::from_secs(2);

/// How often it is tried again where nothing comes through.
const DEAF_PAUSE: Duration = Duration::from_secs(300);

/// How a store hears notes.
pub trait Ear: Send + Sync {
    /// The connection that listens.
    type Line: Send;

    /// After so long without a word the server is asked whether it is there.
    const PING: Duration;

    /// What to do where nothing comes through.
    const ADVICE: &str;

    /// Connects and subscribes.
    fn open(&self) -> impl Future<Output = Result<Self::Line, End>> + Send;

    /// The text of the next note. Nothing is lost when this is dropped before.
    fn hear(&self, line: &mut Self::Line) -> impl Future<Output = Result<String, End>> + Send;

    /// Whether the server is there.
    fn ping(&self, line: &mut Self::Line) -> impl Future<Output = Result<(), End>> + Send;

    /// Sends a note to everybody, by another connection.
    fn say(&self, note: Note) -> impl Future<Output = Result<(), End>> + Send;

    /// Nothing comes by this connection; takes the subscription back.
    fn part(&self, line: Self::Line) -> impl Future<Output = ()> + Send;
}

/// Why nothing is heard.
#[derive(Debug)]
pub enum End {
    /// The connection is gone or cannot be had.
    Lost(String),
    /// Nothing will come before somebody changes something.
    Deaf(String),
}

impl End {
    /// The other side has gone.
    pub fn broken() -> Self {
        Self::Lost("the connection broke".to_owned())
    }
}

/// Rings a bell for the rings of others as long as the store lives.
#[derive(Debug)]
pub struct Listener<E> {
    ear: E,
    bell: Bell,
    mode: Arc<WakeModeCell>,
    owner: u64,
}

impl<E: Ear> Listener<E> {
    /// `owner` is the name that notes of this process carry, which are not heard again.
    pub fn new(ear: E, bell: Bell, mode: Arc<WakeModeCell>, owner: u64) -> Self {
        Self { ear, bell, mode, owner }
    }

    /// Goes on until it is dropped.
    pub async fn run(self) {
        let (mut failures, mut has_warned) = (0_u32, false);
        loop {
            let end = self.listen().await;
            let has_listened = self.mode.get() == WakeMode::Listening;
            self.mode.set(WakeMode::Polling);
            let pause = match end {
                End::Lost(why) => {
                    tracing::debug!(why, "cannot listen for other processes at present");
                    failures = if has_listened { 0 } else { failures.saturating_add(1) };
                    pause(failures)
                }
                End::Deaf(why) => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!("no wake-up comes through, so workers poll: {why}. {}", E::ADVICE);
                    }
                    DEAF_PAUSE
                }
            };
            sleep(pause).await;
        }
    }

    async fn listen(&self) -> End {
        let mut line = match self.ear.open().await {
            Ok(line) => line,
            Err(end) => return end,
        };
        let Err(end) = self.follow(&mut line).await;
        if let End::Deaf(_) = end {
            self.ear.part(line).await;
        }
        end
    }

    async fn follow(&self, line: &mut E::Line) -> Result<Infallible, End> {
        // What was rung before now was not heard.
        self.bell.ring_all();
        self.test(line).await?;
        self.mode.set(WakeMode::Listening);
        loop {
            match timeout(E::PING, self.ear.hear(line)).await {
                Ok(text) => self.ring(&text?),
                // A socket whose other end vanished without a word looks like a quiet one, and so does a pooler that
                // hands nothing on any more.
                Err(_) => {
                    self.ear.ping(line).await?;
                    self.test(line).await?;
                }
            }
        }
    }

    /// Whether a word by another connection comes back by this one.
    async fn test(&self, line: &mut E::Line) -> Result<(), End> {
        let nonce = fastrand::u64(..);
        self.ear.say(Note::Test { nonce }).await?;
        let until = Instant::now() + TEST_WAIT;
        loop {
            match timeout_at(until, self.ear.hear(line)).await {
                Ok(text) => match text? {
                    text if Note::read(&text) == Some(Note::Test { nonce }) => return Ok(()),
                    text => self.ring(&text),
                },
                Err(_) => return Err(End::Deaf("a word to oneself does not come back".to_owned())),
            }
        }
    }

    fn ring(&self, text: &str) {
        match Note::read(text) {
            Some(Note::Rings { owner, .. }) if owner == self.owner => {}
            Some(Note::Rings { rings, .. }) => rings.ring(&self.bell),
            Some(Note::Test { .. }) => {}
            None => self.bell.ring_all(),
        }
    }
}

#[cfg(test)]
mod tests;
