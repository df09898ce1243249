//! Hears the notifications of other processes, by a connection that never has a transaction.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_postgres::{AsyncMessage, Client};
use windlass_core::bell::Note;
use windlass_store_server::listen::{Ear, End};

use super::{channel, send};
use crate::connect::{Call, Connections as _, Pools};
use crate::error::{Unreachable, chain};

/// How long an answer of the listening connection may take.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// Listens to the channel of a schema.
pub(super) struct Subscriber {
    shared: Arc<Pools>,
    channel: String,
}

/// The connection that listens.
pub(super) struct Subscription {
    client: Client,
    notes: mpsc::UnboundedReceiver<String>,
}

impl Subscriber {
    pub(super) fn new(shared: Arc<Pools>) -> Self {
        let channel = channel(&shared.options.schema);
        Self { shared, channel }
    }
}

impl Ear for Subscriber {
    type Line = Subscription;

    const QUIET: Duration = Duration::from_secs(30);

    const ADVICE: &str = "This seems to be a pooler that lends connections by transaction: connect to the server itself \
        or to a pool by session, or say listen=never in the URL";

    async fn open(&self) -> Result<Subscription, End> {
        let lost = |why: Unreachable| End::Lost(format!("{}: {}", why.what, why.cause.unwrap_or_default()));
        let connector = &self.shared.connector;
        let (client, mut connection) = connector.connect_undriven().await.map_err(lost)?;
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
        Ok(Subscription { client, notes })
    }

    async fn hear(&self, line: &mut Subscription) -> Result<String, End> {
        line.notes.recv().await.ok_or_else(End::broken)
    }

    async fn say(&self, note: Note) -> Result<(), End> {
        let said = self
            .shared
            .run(Call::WRITE.within(ANSWER_WAIT), |session| send(note, session, self.channel.clone()));
        said.await.map_err(|fault| End::Lost(format!("{fault:?}")))
    }

    /// Whichever connection of the pooler listens now should not go on for ever.
    async fn part(&self, line: Subscription) {
        let _ = answer(line.client.batch_execute(&format!("UNLISTEN \"{}\"", self.channel))).await;
    }
}

async fn answer(request: impl Future<Output = Result<(), tokio_postgres::Error>>) -> Result<(), End> {
    match timeout(ANSWER_WAIT, request).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(End::Lost(chain(&error))),
        Err(_) => Err(End::Lost(format!("no answer within {ANSWER_WAIT:?}"))),
    }
}
