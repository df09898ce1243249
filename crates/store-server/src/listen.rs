//! Hears the notes of other processes, on a connection of its own.
//!
//! A pooler or proxy may take the subscription and never hand anything on. So the listener sends itself a word by
//! another connection, and says so if it does not come.

use std::convert::Infallible;
use std::future::pending;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until, timeout};
use windlass_core::bell::{Bell, Note, WakeMode, WakeModeCell};

use crate::backoff::pause;

/// How long the word to oneself may take.
const TEST_WAIT: Duration = Duration::from_secs(2);

const MISSING: &str = "a word to oneself does not come back";

/// How often it is tried again where nothing comes through.
const DEAF_PAUSE: Duration = Duration::from_secs(300);

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
            if has_listened {
                (failures, has_warned) = (0, false);
            }
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
        match self.test(line).await? {
            Word::Back => self.mode.set(WakeMode::Listening),
            Word::Unsent(end) => return Err(end),
            Word::Missing => return Err(End::Deaf(MISSING.to_owned())),
        }
        loop {
            // All who listen hear the same last note. The first of them to test spares the others the trouble.
            let quiet = E::QUIET.mul_f64(1.0 + fastrand::f64());
            match timeout(quiet, self.ear.hear(line)).await {
                Ok(text) => self.ring(&text?),
                // A socket whose other end vanished without a word looks like a quiet one.
                Err(_) => match self.test(line).await? {
                    // A word that cannot be sent says nothing about this line.
                    Word::Back | Word::Unsent(_) => {}
                    // It has worked, so another line may.
                    Word::Missing => return Err(End::Lost(MISSING.to_owned())),
                },
            }
        }
    }

    /// Whether a word by another connection comes back by this one. What others say meanwhile is heard.
    async fn test(&self, line: &mut E::Line) -> Result<Word, End> {
        let nonce = fastrand::u64(..);
        let mut said = pin!(self.ear.say(Note::Test { nonce }));
        let mut until = None;
        loop {
            let missing = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                text = self.ear.hear(line) => match text? {
                    text if Note::read(&text) == Some(Note::Test { nonce }) => return Ok(Word::Back),
                    text => self.ring(&text),
                },
                sent = &mut said, if until.is_none() => match sent {
                    Ok(()) => until = Some(Instant::now() + TEST_WAIT),
                    Err(end) => return Ok(Word::Unsent(end)),
                },
                () = missing => return Ok(Word::Missing),
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

/// What became of a word to oneself.
enum Word {
    Back,
    Unsent(End),
    Missing,
}

/// How a store hears notes.
pub trait Ear: Send + Sync {
    /// The connection that listens.
    type Line: Send;

    /// After so long without a note, or up to twice that, the line is tested.
    const QUIET: Duration;

    /// What to do where nothing comes through.
    const ADVICE: &str;

    /// Connects and subscribes.
    fn open(&self) -> impl Future<Output = Result<Self::Line, End>> + Send;

    /// The text of the next note. This may be dropped while it waits, and no note goes with it.
    fn hear(&self, line: &mut Self::Line) -> impl Future<Output = Result<String, End>> + Send;

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

#[cfg(test)]
mod tests;
