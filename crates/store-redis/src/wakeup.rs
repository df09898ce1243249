//! Wake-ups: the bell of this process, and the channel through which processes wake each other.
//!
//! One channel per namespace. A note is published after a write, never by its script, and a few hundred times per
//! second at most; a connection of its own hears those of others. On a Cluster the nodes pass notes on among
//! themselves. A lost one only delays a worker until it polls.

mod listen;
mod ring;

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use windlass_core::bell::{Bell, Note, Rings, WakeMode, WakeModeCell};
use windlass_store_server::listen::Listener;

use crate::connect::Server;
use crate::error::Fault;
use crate::keys::Keys;
use crate::options::Listen;
use crate::session::Session;
use listen::Subscriber;
use ring::Ringer;

/// Everything about wake-ups that a store has.
pub(crate) struct Wakeups {
    server: Server,
    bell: Bell,
    ringer: Ringer,
    channel: Bytes,
    mode: Arc<WakeModeCell>,
    listener: OnceLock<()>,
}

impl Wakeups {
    /// Nothing is heard until somebody asks for the [`bell`](Self::bell).
    pub(crate) fn new(server: &Server) -> Self {
        let options = &server.connections().options;
        let (bell, channel) = (Bell::new(), Keys::new(&options.namespace).bell());
        let ringer = Ringer::new(server.clone(), bell.clone(), channel.clone());
        let mode = Arc::new(WakeModeCell::new(match options.listen {
            Listen::Auto => WakeMode::Starting,
            Listen::Never => WakeMode::Polling,
        }));
        Self { server: server.clone(), bell, ringer, channel, mode, listener: OnceLock::new() }
    }

    /// The bell of this process. The first call begins to listen for other processes: a store that nobody listens to
    /// has no connection for it.
    pub(crate) fn bell(&self) -> &Bell {
        self.listener.get_or_init(|| {
            let shared = Arc::clone(self.server.connections());
            if shared.options.listen == Listen::Auto {
                let (bell, mode) = (self.bell.clone(), Arc::clone(&self.mode));
                let ear = Subscriber::new(shared, self.channel.clone());
                let listener = Listener::new(ear, bell, mode, self.ringer.owner());
                self.server.spawn_background(listener.run());
            }
        });
        &self.bell
    }

    /// To be called after a write has taken effect: rings here at once, and soon at the others.
    pub(crate) fn ring(&self, rings: Rings) {
        self.ringer.ring(rings);
    }

    /// How this process hears of others.
    pub(crate) fn mode(&self) -> WakeMode {
        self.mode.get()
    }
}

/// Sends a note to everyone who listens.
async fn send(note: Note, session: Session, channel: Bytes) -> Result<(), Fault> {
    let command = redis::cmd("PUBLISH").arg(&channel[..]).arg(note.to_string()).to_owned();
    session.command(command).await.map(drop)
}

#[cfg(test)]
mod tests;
