//! How this store tells other processes and hears them: by notifications, which a connection listens for that never has a
//! transaction.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::bell::{Note, Peer, Peers};
use windlass_store_server::listen::{Ear, End};
use windlass_store_server::tell::{To, Voice};

use crate::connect::{Call, Connections as _, Pools};
use crate::error::{Fault, Unreachable, chain};
use crate::functions::NOTIFY;
use crate::row::at;
use crate::session::Session;

/// How long an answer may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// How long notifications may take before they are given up.
const NOTIFY_WAIT: Duration = Duration::from_secs(5);

/// The most workers that are known of.
const PEERS_MAX: i64 = 1_000;

/// The channels of a schema. It has no [`Server`](crate::connect::Server), so that the store that is dropped meanwhile is
/// dropped by its user, who then waits a moment for it.
pub(super) struct Channel {
    shared: Arc<Pools>,
}

/// The connection that listens.
pub(super) struct Subscription {
    client: Client,
    notes: mpsc::UnboundedReceiver<String>,
    channels: [String; 2],
}

impl Channel {
    pub(super) fn new(shared: Arc<Pools>) -> Self {
        Self { shared }
    }

    fn of(&self, to: To) -> String {
        name(&self.shared.options.schema, to)
    }

    /// Sends notes over a session that is in use. A lost one is not noticed.
    pub(super) async fn send_over(&self, notes: Vec<(To, Note)>, session: Session) {
        let _ = timeout(NOTIFY_WAIT, self.send(notes, session)).await;
    }

    async fn send(&self, notes: Vec<(To, Note)>, session: Session) -> Result<(), Fault> {
        if notes.is_empty() {
            return Ok(());
        }
        let channels: Vec<String> = notes.iter().map(|(to, _)| self.of(*to)).collect();
        let texts: Vec<String> = notes.iter().map(|(_, note)| note.to_string()).collect();
        session.call(&NOTIFY, &[&channels, &texts]).await.map(drop)
    }
}

/// The name of a channel: of a schema, or of one process, whose number is like no other.
pub(super) fn name(schema: &str, to: To) -> String {
    match to {
        To::Everyone => format!("windlass_{schema}"),
        To::Process(number) => format!("windlass_process_{number:016x}"),
    }
}

impl Voice for Channel {
    /// A notification takes a lock of the whole server, so there are at most 20 per second and process when many are
    /// sent.
    const PAUSE_MAX: Duration = Duration::from_millis(50);

    async fn say(&self, notes: impl FnOnce() -> Vec<(To, Note)> + Send) -> Result<(), End> {
        let said = self.shared.run(Call::WRITE.within(NOTIFY_WAIT), |session| self.send(notes(), session));
        said.await.map_err(|fault| End::Lost(format!("{fault:?}")))
    }

    async fn peers(&self) -> Result<Peers, End> {
        let schema = self.shared.options.schema_quoted();
        let sql = format!(
            "SELECT serves FROM {schema}.leases WHERE expires_at > {schema}.clock_micros() ORDER BY key DESC LIMIT $1"
        );
        let read = |session: Session| async move {
            let rows = session.query(&sql, &[(&PEERS_MAX, Type::INT8)]).await?;
            rows.iter().map(|row| Ok(Peer::read(at(row, 0)?))).collect::<Result<Peers, Fault>>()
        };
        let read = self.shared.run(Call::READ.within(ANSWER_WAIT), read);
        read.await.map_err(|fault| End::Lost(format!("{fault:?}")))
    }
}

impl Ear for Channel {
    type Line = Subscription;

    const QUIET: Duration = Duration::from_secs(30);

    const ADVICE: &str = "This seems to be a pooler that lends connections by transaction: connect to the server itself \
        or to a pool by session, or say listen=never in the URL";

    async fn open(&self, owner: u64) -> Result<Subscription, End> {
        let lost = |why: Unreachable| End::Lost(format!("{}: {}", why.what, why.cause.unwrap_or_default()));
        let connector = &self.shared.connector;
        let (client, mut connection) = connector.connect_undriven().await.map_err(lost)?;
        let (heard, notes) = mpsc::unbounded_channel();
        connector.drive(async move {
            while let Some(Ok(event)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(note) = event {
                    // It is not heard when the listener gave the connection up; the end comes by itself then.
                    let _ = heard.send(note.payload().to_owned());
                }
            }
        });
        let channels = [To::Everyone, To::Process(owner)].map(|to| self.of(to));
        let [all, own] = &channels;
        answer(client.batch_execute(&format!("LISTEN \"{all}\"; LISTEN \"{own}\""))).await?;
        Ok(Subscription { client, notes, channels })
    }

    async fn hear(&self, line: &mut Subscription) -> Result<String, End> {
        line.notes.recv().await.ok_or_else(End::broken)
    }

    /// Whichever connection of the pooler listens now should not go on for ever.
    async fn part(&self, line: Subscription) {
        let [all, own] = &line.channels;
        let _ = answer(line.client.batch_execute(&format!("UNLISTEN \"{all}\"; UNLISTEN \"{own}\""))).await;
    }
}

async fn answer(request: impl Future<Output = Result<(), tokio_postgres::Error>>) -> Result<(), End> {
    match timeout(ANSWER_WAIT, request).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(End::Lost(chain(&error))),
        Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
    }
}
