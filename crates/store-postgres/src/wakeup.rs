//! Wake-ups: the bell of this process, and the server's notifications through which processes wake each other.
//!
//! One channel per schema. A notification is a statement of its own after a commit, never part of one, and a few
//! dozen per second at most; a connection of its own hears those of others. A lost one only delays a worker until
//! it polls.

mod commit;
mod listen;
mod ring;

use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_postgres::types::{ToSql, Type};
use windlass_core::bell::{Bell, Rings, Topic};

use crate::connect::Server;
use crate::error::Fault;
use crate::options::Listen;
use crate::session::Session;
use commit::CommitWatch;
use listen::Listener;
use ring::Ringer;

/// Everything about wake-ups that a store has.
pub(crate) struct Wakeups {
    server: Server,
    bell: Bell,
    ringer: Ringer,
    commits: CommitWatch,
    mode: Arc<Mode>,
    listener: OnceLock<()>,
}

impl Wakeups {
    /// Nothing is heard until somebody asks for the [`bell`](Self::bell).
    pub(crate) fn new(server: &Server) -> Self {
        let bell = Bell::new();
        let ringer = Ringer::new(server.clone(), bell.clone());
        let commits = CommitWatch::new(server.clone(), &ringer);
        let mode = Arc::new(Mode::new(match server.shared().options.listen {
            Listen::Auto => WakeMode::Starting,
            Listen::Never => WakeMode::Polling,
        }));
        Self { server: server.clone(), bell, ringer, commits, mode, listener: OnceLock::new() }
    }

    /// The bell of this process. The first call begins to listen for other processes: a store that nobody listens to
    /// has no connection for it.
    pub(crate) fn bell(&self) -> &Bell {
        self.listener.get_or_init(|| {
            let shared = Arc::clone(self.server.shared());
            if shared.options.listen == Listen::Auto {
                let (bell, mode) = (self.bell.clone(), Arc::clone(&self.mode));
                let listener = Listener::new(shared, bell, mode, self.ringer.owner());
                self.server.spawn_background(listener.run());
            }
        });
        &self.bell
    }

    /// To be called after a write has taken effect: rings here at once, and soon at the others.
    pub(crate) fn ring(&self, rings: Rings) {
        self.ringer.ring(rings);
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

/// How a store hears of the writes of other processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WakeMode {
    /// Not known yet, or nobody listens.
    Starting,
    /// By notifications of the server.
    Listening,
    /// By looking again and again: notifications do not come through at present, or are not wanted.
    Polling,
}

impl fmt::Display for WakeMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Listening => "listening",
            Self::Polling => "polling",
        })
    }
}

#[derive(Debug)]
struct Mode(AtomicU8);

impl Mode {
    fn new(mode: WakeMode) -> Self {
        Self(AtomicU8::new(mode as u8))
    }

    fn get(&self) -> WakeMode {
        let all = [WakeMode::Starting, WakeMode::Listening, WakeMode::Polling];
        all[usize::from(self.0.load(Ordering::Relaxed))]
    }

    fn set(&self, mode: WakeMode) {
        self.0.store(mode as u8, Ordering::Relaxed);
    }
}

/// What a notification says: who sent it, and about what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Note {
    /// A ring of a process.
    Rings { owner: u64, rings: Rings },
    /// A listener's word to itself.
    Test { nonce: u64 },
}

/// The letter of each topic, at the place that is its number.
const LETTERS: [char; 3] = ['w', 'c', 'f'];

impl Note {
    /// Reads the text of a notification. One that is not ours says nothing about what it is about.
    fn read(text: &str) -> Option<Self> {
        let (name, rest) = text.split_once(' ')?;
        let number = u64::from_str_radix(name, 16).ok()?;
        if rest == "?" {
            return Some(Self::Test { nonce: number });
        }
        let topic = |letter| LETTERS.iter().position(|&known| known == letter).map(|at| Topic::ALL[at]);
        let rings = rest.chars().map(topic).collect::<Option<Rings>>()?;
        Some(Self::Rings { owner: number, rings })
    }

    /// Sends it to everyone who listens, as a statement of its own.
    async fn send(self, session: Session, channel: String) -> Result<(), Fault> {
        let text = self.to_string();
        let parameters: [(&(dyn ToSql + Sync), Type); 2] = [(&channel, Type::TEXT), (&text, Type::TEXT)];
        session.query("SELECT pg_notify($1, $2)", &parameters).await.map(drop)
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Test { nonce } => write!(f, "{nonce:016x} ?"),
            Self::Rings { owner, rings } => {
                let letters: String = rings.topics().map(|topic| LETTERS[topic as usize]).collect();
                write!(f, "{owner:016x} {letters}")
            }
        }
    }
}

/// The channel of a schema.
fn channel(schema: &str) -> String {
    format!("windlass_{schema}")
}

#[cfg(test)]
mod tests;
