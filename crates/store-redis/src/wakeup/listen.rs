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
use crate::connect::{Call, Connection, Connections as _, Servers};
use crate::error::{Fault, Meaning, Remedy, Unreachable, chain};

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// Subscribes to the channel of a namespace.
pub(super) struct Subscriber {
    shared: Arc<Servers>,
    channel: Bytes,
}

/// The connection that listens, as long as its handle lives.
pub(super) struct Subscription {
    _connection: Connection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
}

impl Subscriber {
    pub(super) fn new(shared: Arc<Servers>, channel: Bytes) -> Self {
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
        let end = |why: Unreachable| {
            let text = format!("{}: {}", why.what, why.cause.unwrap_or_default());
            if why.remedy == Remedy::Change { End::Deaf(text) } else { End::Lost(text) }
        };
        let targets = self.shared.router.targets().await.map_err(end)?;
        let target = fastrand::choice(&targets).ok_or_else(|| End::Lost("there is no server".to_owned()))?;
        let (heard, pushes) = mpsc::unbounded_channel();
        let connection = self.shared.connector.connect_listening(target, heard).await.map_err(end)?;
        let mut subscribing = connection.multiplexed.clone();
        match timeout(ANSWER_WAIT, subscribing.subscribe(&self.channel[..])).await {
            Ok(Ok(())) => Ok(Subscription { _connection: connection, pushes }),
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
        let said = self
            .shared
            .run(Call::WRITE.within(ANSWER_WAIT), |session| send(note, session, self.channel.clone()));
        said.await.map_err(|fault| match fault {
            Fault::Server(error) if matches!(error.meaning, Meaning::Lasting(_)) => {
                End::Deaf(error.to_string())
            }
            fault => End::Lost(format!("{fault:?}")),
        })
    }

    /// It ends with the connection.
    async fn part(&self, _line: Subscription) {}
}
