//! How this store tells other processes and hears them: by publishing, and a subscription.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use redis::{PushInfo, PushKind, Value};
use tokio::sync::mpsc;
use tokio::time::timeout;
use windlass_core::bell::{Note, Peers};
use windlass_store_server::listen::{Ear, End};
use windlass_store_server::tell::{To, Voice};

use crate::connect::{Call, Connection, Connections as _, Servers};
use crate::error::{Fault, Meaning, Remedy, Unreachable, chain};
use crate::keys::Keys;
use crate::leases;
use crate::session::Session;

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// The channels of a namespace. It has no [`Server`](crate::connect::Server), so that the store that is dropped meanwhile
/// is dropped by its user, who then waits a moment for it.
pub(super) struct Channel {
    shared: Arc<Servers>,
    keys: Keys,
}

/// The connection that listens, as long as its handle lives.
pub(super) struct Subscription {
    _connection: Connection,
    pushes: mpsc::UnboundedReceiver<PushInfo>,
    channels: [Bytes; 2],
}

impl Channel {
    pub(super) fn new(shared: Arc<Servers>) -> Self {
        let keys = Keys::new(&shared.options.namespace);
        Self { shared, keys }
    }

    pub(super) fn of(&self, to: To) -> Bytes {
        match to {
            To::Everyone => self.keys.bell(),
            To::Process(number) => self.keys.process(number),
        }
    }

    async fn send(&self, notes: Vec<(To, Note)>, session: &Session) -> Result<(), Fault> {
        let publish = notes.into_iter().map(|(to, note)| {
            let command = redis::cmd("PUBLISH").arg(&self.of(to)[..]).arg(note.to_string()).to_owned();
            session.command(command)
        });
        try_join_all(publish).await.map(drop)
    }
}

impl Subscription {
    /// The text of a note, if it is one.
    fn note(&self, push: PushInfo) -> Result<Option<String>, End> {
        match (push.kind, &push.data[..]) {
            (PushKind::Disconnection, _) => Err(End::broken()),
            (PushKind::Message, [Value::BulkString(channel), Value::BulkString(text)])
                if self.channels.iter().any(|known| known[..] == channel[..]) =>
            {
                Ok(Some(String::from_utf8_lossy(text).into_owned()))
            }
            _ => Ok(None),
        }
    }
}

impl Voice for Channel {
    const PAUSE_MAX: Duration = Duration::from_millis(20);

    async fn say(&self, notes: impl FnOnce() -> Vec<(To, Note)> + Send) -> Result<(), End> {
        let said = self.shared.run(Call::WRITE.within(ANSWER_WAIT), |session: Session| async move {
            self.send(notes(), &session).await
        });
        said.await.map_err(|fault| match fault {
            Fault::Server(error) if matches!(error.meaning, Meaning::Lasting(_)) => {
                End::Deaf(error.to_string())
            }
            fault => End::Lost(format!("{fault:?}")),
        })
    }

    async fn peers(&self) -> Result<Peers, End> {
        let clock = self.shared.options.clock.as_deref();
        let read = self.shared.run(Call::READ.within(ANSWER_WAIT), |session: Session| async move {
            leases::peers(&self.keys, clock, &session).await
        });
        read.await.map_err(|fault| End::Lost(format!("{fault:?}")))
    }
}

impl Ear for Channel {
    type Line = Subscription;

    const QUIET: Duration = Duration::from_secs(10);

    const ADVICE: &str = "Let the user subscribe (+subscribe +publish &wl:*), connect to the server itself, or say \
        listen=never in the URL";

    async fn open(&self, owner: u64) -> Result<Subscription, End> {
        let end = |why: Unreachable| {
            let text = format!("{}: {}", why.what, why.cause.unwrap_or_default());
            if why.remedy == Remedy::Change { End::Deaf(text) } else { End::Lost(text) }
        };
        let targets = self.shared.router.targets().await.map_err(end)?;
        let target = fastrand::choice(&targets).ok_or_else(|| End::Lost("there is no server".to_owned()))?;
        let (heard, pushes) = mpsc::unbounded_channel();
        let connection = self.shared.connector.connect_listening(target, heard).await.map_err(end)?;
        let channels = [To::Everyone, To::Process(owner)].map(|to| self.of(to));
        let mut subscribing = connection.multiplexed.clone();
        let names: Vec<&[u8]> = channels.iter().map(|channel| &channel[..]).collect();
        match timeout(ANSWER_WAIT, subscribing.subscribe(&names)).await {
            Ok(Ok(())) => Ok(Subscription { _connection: connection, pushes, channels }),
            Ok(Err(error)) if error.code() == Some("NOPERM") => Err(End::Deaf(chain(&error))),
            Ok(Err(error)) => Err(End::Lost(chain(&error))),
            Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
        }
    }

    async fn hear(&self, line: &mut Subscription) -> Result<String, End> {
        loop {
            let push = line.pushes.recv().await.ok_or_else(End::broken)?;
            if let Some(text) = line.note(push)? {
                return Ok(text);
            }
        }
    }

    /// It ends with the connection.
    async fn part(&self, _line: Subscription) {}
}
