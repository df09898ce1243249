//! Hears the notifications of other processes, on a connection of its own that never has a transaction.
//!
//! Behind a pooler that lends connections by transaction, listening seems to work and nothing is ever heard. So the
//! listener sends itself a word by another connection, and says so if it does not come.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::bell::{Bell, Note, WakeMode, WakeModeCell};
use windlass_store_server::backoff::pause;

use super::{channel, send};
use crate::connect::{Lane, Shared};
use crate::error::{Away, chain};

/// How long the word to oneself may take.
const TEST_WAIT: Duration = Duration::from_secs(2);

/// How long an answer of the listening connection may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// After so long without a word the server is asked whether it is there.
const PING: Duration = Duration::from_secs(30);

/// How often it is tried again where nothing comes through.
const DEAF_PAUSE: Duration = Duration::from_secs(300);

/// Rings a bell for the rings of others as long as the store lives.
pub(super) struct Listener {
    shared: Arc<Shared>,
    bell: Bell,
    mode: Arc<WakeModeCell>,
    owner: u64,
    channel: String,
}

/// Why nothing is heard.
enum End {
    /// The connection is gone or cannot be had.
    Lost(String),
    /// The connection is there, and nothing comes.
    Deaf,
}

/// The connection that listens.
struct Ear {
    client: Client,
    notes: mpsc::UnboundedReceiver<String>,
}

impl Listener {
    pub(super) fn new(shared: Arc<Shared>, bell: Bell, mode: Arc<WakeModeCell>, owner: u64) -> Self {
        let channel = channel(&shared.options.schema);
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
                End::Deaf => {
                    if !std::mem::replace(&mut has_warned, true) {
                        tracing::warn!(
                            "no notification comes through, so workers poll: this seems to be a pooler that lends \
                             connections by transaction. Connect to the server itself or to a pool by session, or \
                             say listen=never in the URL"
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
                Ok(Some(note)) => self.ring(&note),
                Ok(None) => return Err(End::Lost("the connection broke".to_owned())),
                // A socket whose other end vanished without a word looks like a quiet one.
                Err(_) => answer(ear.client.batch_execute("SELECT 1")).await?,
            }
            ping_at = Instant::now() + PING;
        }
    }

    async fn open(&self) -> Result<Ear, End> {
        let away = |away: Away| End::Lost(format!("{}: {}", away.what, away.cause.unwrap_or_default()));
        let connector = &self.shared.connector;
        let (client, mut connection) = connector.connect_undriven().await.map_err(away)?;
        let (heard, notes) = mpsc::unbounded_channel();
        connector.drive(async move {
            while let Some(Ok(event)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(note) = event {
                    // Nobody hears it when the listener gave the connection up; the end comes by itself then.
                    let _ = heard.send(note.payload().to_owned());
                }
            }
        });
        answer(client.batch_execute(&format!("LISTEN \"{}\"", self.channel))).await?;
        Ok(Ear { client, notes })
    }

    /// Whether a word by another connection comes back by this one.
    async fn test(&self, ear: &mut Ear) -> Result<(), End> {
        let nonce = fastrand::u64(..);
        let test = |session| send(Note::Test { nonce }, session, self.channel.clone());
        let sent = self.shared.run(ANSWER_WAIT, Lane::Work, test).await;
        sent.map_err(|fault| End::Lost(format!("{fault:?}")))?;
        let until = Instant::now() + TEST_WAIT;
        loop {
            match timeout_at(until, ear.notes.recv()).await {
                Ok(Some(text)) if Note::read(&text) == Some(Note::Test { nonce }) => return Ok(()),
                Ok(Some(text)) => self.ring(&text),
                Ok(None) => return Err(End::Lost("the connection broke".to_owned())),
                Err(_) => {
                    // Whichever connection of the pooler listens now should not go on for ever.
                    let _ = answer(ear.client.batch_execute(&format!("UNLISTEN \"{}\"", self.channel))).await;
                    return Err(End::Deaf);
                }
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

async fn answer(request: impl Future<Output = Result<(), tokio_postgres::Error>>) -> Result<(), End> {
    match timeout(ANSWER_WAIT, request).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(End::Lost(chain(&error))),
        Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
    }
}
