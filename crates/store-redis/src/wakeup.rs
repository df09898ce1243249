//! Wake-ups: the bell of this process, and the channels through which processes wake each other.
//!
//! One channel per namespace, and one per process. A note is published after a write, never by its script, and a few
//! hundred times per second at most; a connection of its own hears those of others. On a Cluster the nodes pass notes on
//! among themselves. A lost one only delays a worker until it polls. Whom notes go to is decided in
//! `store-server/src/tell.rs`.

mod channel;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use windlass_core::bell::{Address, Bell, Rings, WakeMode, WakeModeCell};
use windlass_store_server::listen::Listener;
use windlass_store_server::tell::Teller;

use crate::connect::Server;
use crate::options::Listen;
use channel::Channel;

/// How old a worker's idea of how many serve its queues may become.
const PEERS_OLD: Duration = Duration::from_secs(30);

/// Everything about wake-ups that a store has.
pub(crate) struct Wakeups {
    server: Server,
    teller: Arc<Teller<Channel>>,
    listener: OnceLock<()>,
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
        Self { server: server.clone(), teller, listener: OnceLock::new() }
    }

    /// The bell of this process. The first call begins to listen for other processes: a store that is not listened to
    /// has no connection for it.
    pub(crate) fn bell(&self) -> &Bell {
        self.listener.get_or_init(|| {
            if self.server.connections().options.listen == Listen::Auto {
                self.server.spawn_background(Listener::new(Arc::clone(&self.teller)).run());
            }
        });
        self.teller.bell()
    }

    /// To be called after a write has taken effect: rings here at once, and soon at the others. Never fails and never
    /// waits: polling is the truth.
    pub(crate) fn ring(&self, rings: Rings) {
        if self.teller.ring(rings) {
            let teller = Arc::clone(&self.teller);
            self.server.spawn(async move { teller.tell().await });
        }
    }

    /// How this process hears of others.
    pub(crate) fn mode(&self) -> WakeMode {
        self.teller.mode().get()
    }

    /// Where this process hears what it alone is told.
    pub(crate) fn address(&self) -> Address {
        match self.server.connections().options.listen {
            Listen::Auto => Address::Process(self.teller.owner()),
            Listen::Never => Address::Deaf,
        }
    }

    /// A worker lives here: now and then it looks how many others do.
    pub(crate) fn refresh_peers(&self) {
        if self.mode() == WakeMode::Listening && self.teller.peers_are_older_than(PEERS_OLD) {
            let teller = Arc::clone(&self.teller);
            self.server.spawn_background(async move { teller.read_peers().await });
        }
    }
}

#[cfg(test)]
mod tests;
