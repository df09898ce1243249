//! Hears the notes of other processes by a subscription.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;
use windlass_core::bell::Note;
use windlass_store_server::listen::{Ear, End};

use super::send;
use crate::connect::{Lane, Shared, Wire};
use crate::error::{Away, Fault, Verdict, chain};

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Subscribes to the channel of a namespace.
pub(super) struct Subscriber {
    shared: Arc<Shared>,
    channel: Bytes,
}

/// The connection that listens, as long as its handle lives.
pub(super) struct Subscription {
    _wire: Wire,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

impl Subscriber {
    pub(super) fn new(shared: Arc<Shared>, channel: Bytes) -> Self {
        Self { shared, channel }
    }

    /// The text of a note, if it is one.
    fn note(&self, push: PushInfo) -> Result<Option<String>, End> {
        match (push.kind, &push.data[..]) {
            (PushKind::Disconnection, _) => Err(End::broken()),
            (PushKind::Message, [Value::BulkString(channel), Value::BulkString(text)])
                if channel[..] == self.channel[..] =>
            {
                Ok(Some(String::from_utf8_lossy(text).into_owned()))
            }
            _ => Ok(None),
        }
    }
}

impl Ear for Subscriber {
    type Line = Subscription;

    const QUIET: Duration = Duration::from_secs(10);

    const ADVICE: &str = "Let the user subscribe (+subscribe +publish &wl:*), connect to the server itself, or say \
        listen=never in the URL";

    async fn open(&self) -> Result<Subscription, End> {
        let away = |away: Away| {
            let why = format!("{}: {}", away.what, away.cause.unwrap_or_default());
            if away.is_lasting { End::Deaf(why) } else { End::Lost(why) }
        };
        let targets = self.shared.router.targets().await.map_err(away)?;
        let target = fastrand::choice(&targets).ok_or_else(|| End::Lost("there is no server".to_owned()))?;
        let (heard, pushes) = mpsc::unbounded_channel();
        let wire = self.shared.connector.connect_listening(target, heard).await.map_err(away)?;
        let mut connection = wire.connection.clone();
        match timeout(ANSWER_WAIT, connection.subscribe(&self.channel[..])).await {
            Ok(Ok(())) => Ok(Subscription { _wire: wire, pushes }),
            Ok(Err(error)) if error.code() == Some("NOPERM") => Err(End::Deaf(chain(&error))),
            Ok(Err(error)) => Err(End::Lost(chain(&error))),
            Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
        }
    }

    async fn hear(&self, line: &mut Subscription) -> Result<String, End> {
        loop {
            let push = line.pushes.recv().await.ok_or_else(End::broken)?;
            if let Some(text) = self.note(push)? {
                return Ok(text);
            }
        }
    }

    async fn say(&self, note: Note) -> Result<(), End> {
        let said =
            self.shared.run(ANSWER_WAIT, Lane::Work, |session| send(note, session, self.channel.clone()));
        said.await.map_err(|fault| match fault {
            Fault::Said(said) if matches!(said.verdict(), Verdict::Address(_)) => End::Deaf(said.to_string()),
            fault => End::Lost(format!("{fault:?}")),
        })
    }

    /// It ends with the connection.
    async fn part(&self, _line: Subscription) {}
}
