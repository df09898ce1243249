//! Wake-ups: the bell of this process, and the server's notifications through which processes wake each other.
//!
//! One channel per schema. A notification is a statement of its own after a commit, never part of one, and a few
//! dozen per second at most; a connection of its own hears those of others. A lost one only delays a worker until
//! it polls.

mod commit;
mod listen;
mod ring;

use std::sync::{Arc, OnceLock};

use tokio_postgres::types::{ToSql, Type};
use windlass_core::bell::{Bell, Note, Rings, Topic, WakeMode, WakeModeCell};
use windlass_store_server::listen::Listener;

use crate::connect::Server;
use crate::error::Fault;
use crate::options::Listen;
use crate::session::Session;
use commit::CommitWatch;
use listen::Subscriber;
use ring::Ringer;

/// Everything about wake-ups that a store has.
pub(crate) struct Wakeups {
    server: Server,
    bell: Bell,
    ringer: Ringer,
    commits: CommitWatch,
    mode: Arc<WakeModeCell>,
    listener: OnceLock<()>,
}

impl Wakeups {
    /// Nothing is heard until somebody asks for the [`bell`](Self::bell).
    pub(crate) fn new(server: &Server) -> Self {
        let bell = Bell::new();
        let ringer = Ringer::new(server.clone(), bell.clone());
        let commits = CommitWatch::new(server.clone(), &ringer);
        let mode = Arc::new(WakeModeCell::new(match server.connections().options.listen {
            Listen::Auto => WakeMode::Starting,
            Listen::Never => WakeMode::Polling,
        }));
        Self { server: server.clone(), bell, ringer, commits, mode, listener: OnceLock::new() }
    }

    /// The bell of this process. The first call begins to listen for other processes: a store that nobody listens to
    /// has no connection for it.
    pub(crate) fn bell(&self) -> &Bell {
        self.listener.get_or_init(|| {
            let shared = Arc::clone(self.server.connections());
            if shared.options.listen == Listen::Auto {
                let (bell, mode) = (self.bell.clone(), Arc::clone(&self.mode));
                let listener = Listener::new(Subscriber::new(shared), bell, mode, self.ringer.owner());
                self.server.spawn_background(listener.run());
            }
        });
        &self.bell
    }

    /// To be called after a write has taken effect: rings here at once, and soon at the others.
    pub(crate) fn ring(&self, rings: Rings) {
        self.ringer.ring(rings);
    }

    /// Whether anybody here listens for a topic.
    pub(crate) fn is_heard(&self, topic: Topic) -> bool {
        self.bell.is_heard(topic)
    }

    /// Rings here only, before a write that claims wait for, whatever becomes of it.
    pub(crate) fn ring_here(&self, rings: Rings) {
        rings.ring(&self.bell);
    }

    /// Rings at the others only, for a write that those here know of.
    pub(crate) fn ring_elsewhere(&self, rings: Rings) {
        self.ringer.ring_elsewhere(rings);
    }

    /// Rings so when this transaction of somebody else has been committed; `xid` as by
    /// `pg_current_xact_id()::text`.
    pub(crate) fn watch(&self, xid: String, rings: Rings) {
        self.commits.watch(xid, rings);
    }

    /// How this process hears of others.
    pub(crate) fn mode(&self) -> WakeMode {
        self.mode.get()
    }
}

/// Sends a note to everyone who listens, as a statement of its own.
async fn send(note: Note, session: Session, channel: String) -> Result<(), Fault> {
    let text = note.to_string();
    let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&text, Type::TEXT)];
    session.query("SELECT pg_notify($1, $2)", &parameters).await.map(drop)
}

/// The channel of a schema.
fn channel(schema: &str) -> String {
    format!("windlass_{schema}")
}

#[cfg(test)]
mod tests;
