//! Hears the notes of other processes, on a connection of its own.
//!
//! A proxy may take the subscription and never hand anything on. So the listener sends itself a word by another
//! connection, and says so if it does not come.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use windlass_core::bell::{Bell, Note, WakeMode, WakeModeCell};
use windlass_store_server::backoff::pause;

use super::send;
use crate::connect::{Lane, Shared, Wire};
use crate::error::{Away, Fault, Verdict, chain};

/// How long the word to oneself may take.
const TEST_WAIT: Duration = Duration::from_secs(2);

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// After so long without a word the server is asked whether it is there.
const PING: Duration = Duration::from_secs(10);

/// How often it is tried again where nothing comes through.
const DEAF_PAUSE: Duration = Duration::from_secs(300);

/// Rings a bell for the rings of others as long as the store lives.
pub(super) struct Listener {
    shared: Arc<Shared>,
    bell: Bell,
    mode: Arc<WakeModeCell>,
    owner: u64,
    channel: Bytes,
}

/// Why nothing is heard.
enum End {
    /// The connection is gone or cannot be had.
    Lost(String),
    /// Nothing will come before somebody changes something.
    Deaf(String),
}

/// The connection that listens.
struct Ear {
    wire: Wire,
    notes: mpsc::UnboundedReceiver<PushInfo>,
}

impl Listener {
    pub(super) fn new(
        shared: Arc<Shared>,
        bell: Bell,
        mode: Arc<WakeModeCell>,
        owner: u64,
        channel: Bytes,
    ) -> Self {
        Self { shared, bell, mode, owner, channel }
    }

    /// Goes on until it is dropped.
    pub(super) async fn run(self) {
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
                        tracing::warn!(
                            "no wake-up comes through, so workers poll: {why}. Let the user subscribe (+subscribe \
                             +publish &wl:*), connect to the server itself, or say listen=never in the URL"
                        );
                    }
                    DEAF_PAUSE
                }
            };
            sleep(pause).await;
        }
    }

    async fn listen(&self) -> End {
        match self.hear().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn hear(&self) -> Result<std::convert::Infallible, End> {
        let mut ear = self.open().await?;
        // What was rung before now was not heard.
        self.bell.ring_all();
        self.test(&mut ear).await?;
        self.mode.set(WakeMode::Listening);
        let mut ping_at = Instant::now() + PING;
        loop {
            match timeout_at(ping_at, ear.notes.recv()).await {
                Ok(Some(push)) => {
                    if let Some(text) = self.note(push)? {
                        self.ring(&text);
                    }
                }
                Ok(None) => return Err(End::Lost("the connection broke".to_owned())),
                // A socket whose other end vanished without a word looks like a quiet one.
                Err(_) => answer(&ear.wire, &redis::cmd("PING")).await?,
            }
            ping_at = Instant::now() + PING;
        }
    }

    async fn open(&self) -> Result<Ear, End> {
        let away = |away: Away| {
            let why = format!("{}: {}", away.what, away.cause.unwrap_or_default());
            if away.is_lasting { End::Deaf(why) } else { End::Lost(why) }
        };
        let targets = self.shared.roads.targets().await.map_err(away)?;
        let target = fastrand::choice(&targets).ok_or_else(|| End::Lost("there is no server".to_owned()))?;
        let (heard, notes) = mpsc::unbounded_channel();
        let wire = self.shared.connector.connect_listening(target, heard).await.map_err(away)?;
        let mut connection = wire.connection.clone();
        match timeout(ANSWER_WAIT, connection.subscribe(&self.channel[..])).await {
            Ok(Ok(())) => Ok(Ear { wire, notes }),
            Ok(Err(error)) if error.code() == Some("NOPERM") => Err(End::Deaf(chain(&error))),
            Ok(Err(error)) => Err(End::Lost(chain(&error))),
            Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
        }
    }

    /// Whether a word by another connection comes back by this one.
    async fn test(&self, ear: &mut Ear) -> Result<(), End> {
        let nonce = fastrand::u64(..);
        let test = |session| send(Note::Test { nonce }, session, self.channel.clone());
        let sent = self.shared.run(ANSWER_WAIT, Lane::Work, test).await;
        sent.map_err(|fault| match fault {
            Fault::Said(said) if matches!(said.verdict(), Verdict::Address(_)) => End::Deaf(said.to_string()),
            fault => End::Lost(format!("{fault:?}")),
        })?;
        let until = Instant::now() + TEST_WAIT;
        loop {
            match timeout_at(until, ear.notes.recv()).await {
                Ok(Some(push)) => match self.note(push)? {
                    Some(text) if Note::read(&text) == Some(Note::Test { nonce }) => return Ok(()),
                    Some(text) => self.ring(&text),
                    None => {}
                },
                Ok(None) => return Err(End::Lost("the connection broke".to_owned())),
                Err(_) => return Err(End::Deaf("a word to oneself does not come back".to_owned())),
            }
        }
    }

    /// The text of a note, if it is one.
    fn note(&self, push: PushInfo) -> Result<Option<String>, End> {
        match (push.kind, &push.data[..]) {
            (PushKind::Disconnection, _) => Err(End::Lost("the connection broke".to_owned())),
            (PushKind::Message, [Value::BulkString(channel), Value::BulkString(text)])
                if channel[..] == self.channel[..] =>
            {
                Ok(Some(String::from_utf8_lossy(text).into_owned()))
            }
            _ => Ok(None),
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

async fn answer(wire: &Wire, question: &redis::Cmd) -> Result<(), End> {
    match timeout(ANSWER_WAIT, wire.connection.clone().send_packed_command(question)).await {
        Ok(Ok(Value::ServerError(error))) => Err(End::Lost(error.to_string())),
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(End::Lost(chain(&error))),
        Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
    }
}
