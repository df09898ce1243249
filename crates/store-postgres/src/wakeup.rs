//! Wake-ups: the bell of this process, and the server's notifications through which processes wake each other.
//!
//! One channel per schema, and one per process. A notification is a statement of its own after a commit, never part of
//! one, and a few dozen per second at most; a connection of its own hears those of others. A lost one only delays a
//! worker until it polls. Whom notes go to is decided in `store-server/src/tell.rs`.

mod channel;
mod commit;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_core::bell::{Address, Bell, Rings, Topic, WakeMode, WakeModeCell};
use windlass_store_server::listen::Listener;
use windlass_store_server::tell::Teller;

use crate::connect::Server;
use crate::options::Listen;
use crate::session::Session;
use channel::Channel;
use commit::CommitWatch;

/// How old a worker's idea of how many serve its queues may become.
const PEERS_OLD: Duration = Duration::from_secs(30);

/// Everything about wake-ups that a store has.
pub(crate) struct Wakeups {
    ringer: Arc<Ringer>,
    commits: CommitWatch,
    listener: OnceLock<()>,
}

/// Rings the bell of this process, and those of the others through the server.
struct Ringer {
    server: Server,
    teller: Arc<Teller<Channel>>,
}

impl Ringer {
    /// Rings here, and soon elsewhere. Never fails and never waits: polling is the truth.
    fn ring(&self, rings: Rings) {
        if self.teller.ring(rings) {
            self.tell();
        }
    }

    /// Has others told what they are owed.
    fn tell(&self) {
        let teller = Arc::clone(&self.teller);
        self.server.spawn(async move { teller.tell().await });
    }
}

impl Wakeups {
    /// Nothing is heard until the [`bell`](Self::bell) is asked for.
    pub(crate) fn new(server: &Server) -> Self {
        let connections = server.connections();
        let mode = Arc::new(WakeModeCell::new(match connections.options.listen {
            Listen::Auto => WakeMode::Starting,
            Listen::Never => WakeMode::Polling,
        }));
        let teller = Arc::new(Teller::new(Channel::new(Arc::clone(connections)), Bell::new(), mode));
        let ringer = Arc::new(Ringer { server: server.clone(), teller });
        let commits = CommitWatch::new(server.clone(), Arc::downgrade(&ringer));
        Self { ringer, commits, listener: OnceLock::new() }
    }

    /// The bell of this process. The first call begins to listen for other processes: a store that is not listened to
    /// has no connection for it.
    pub(crate) fn bell(&self) -> &Bell {
        let Ringer { server, teller } = &*self.ringer;
        self.listener.get_or_init(|| {
            if server.connections().options.listen == Listen::Auto {
                server.spawn_background(Listener::new(Arc::clone(teller)).run());
            }
        });
        teller.bell()
    }

    /// To be called after a write has taken effect: rings here at once, and soon at the others.
    pub(crate) fn ring(&self, rings: Rings) {
        self.ringer.ring(rings);
    }

    /// Tells others of a write that is about to be sent on this connection: right behind it, so that they need not wait until
    /// its answer has come here. Whether that is done; else the caller rings when the write has taken effect.
    pub(crate) fn ring_behind(&self, session: &Session, rings: Rings) -> bool {
        if !self.ringer.teller.tells_along(rings) {
            return false;
        }
        let (teller, session) = (Arc::clone(&self.ringer.teller), session.clone());
        // Begins when the caller has sent the write and waits.
        self.ringer.server.spawn(async move {
            teller.voice().send_over(teller.notes(), session).await;
            teller.gone().await;
        });
        true
    }

    /// Whether there is a listener here for a topic.
    pub(crate) fn is_heard(&self, topic: Topic) -> bool {
        self.ringer.teller.bell().is_heard(topic)
    }

    /// Rings here only, before a write that claims wait for, whatever becomes of it.
    pub(crate) fn ring_here(&self, rings: Rings) {
        let _ = rings.ring(self.ringer.teller.bell());
    }

    /// Rings at the others only, for a write that those here know of.
    pub(crate) fn ring_elsewhere(&self, rings: Rings) {
        if self.ringer.teller.ring_elsewhere(rings) {
            self.ringer.tell();
        }
    }

    /// Rings so when this transaction of another program has been committed; `xid` as by
    /// `pg_current_xact_id()::text`.
    pub(crate) fn watch(&self, xid: String, rings: Rings) {
        self.commits.watch(xid, rings);
    }

    /// How this process hears of others.
    pub(crate) fn mode(&self) -> WakeMode {
        self.ringer.teller.mode().get()
    }

    /// Where this process hears what it alone is told.
    pub(crate) fn address(&self) -> Address {
        match self.ringer.server.connections().options.listen {
            Listen::Auto => Address::Process(self.ringer.teller.owner()),
            Listen::Never => Address::Deaf,
        }
    }

    /// A worker lives here: now and then it looks how many others do.
    pub(crate) fn refresh_peers(&self) {
        let Ringer { server, teller } = &*self.ringer;
        if self.mode() == WakeMode::Listening && teller.peers_are_older_than(PEERS_OLD) {
            let teller = Arc::clone(teller);
            server.spawn_background(async move { teller.read_peers().await });
        }
    }
}

#[cfg(test)]
mod tests;
