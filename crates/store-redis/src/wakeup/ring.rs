//! Tells other processes, at once when it is quiet and every few milliseconds when it is not.
//!
//! A note wakes every process that listens, so a large fleet at work would be busy with notes alone: the more of them
//! there are, the longer the next one waits.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use windlass_core::bell::{Bell, Note, Owed, Rings};

use super::send;
use crate::connect::{Call, Connections as _, Server, Servers};

/// How long after a note the next one may follow: doubled with each that had to wait.
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// How long a note may take before it is given up.
const DEADLINE: Duration = Duration::from_secs(5);

/// Rings the bell of this process, and those of the others through the server.
pub(super) struct Ringer {
    server: Server,
    bell: Bell,
    teller: Arc<Teller>,
}

/// What is on the way to the others. It has no [`Server`], so that the store that is dropped meanwhile is dropped by
/// its user, who then waits a moment for it.
struct Teller {
    shared: Arc<Servers>,
    channel: Bytes,
    owner: u64,
    /// What others were not told yet.
    owed: Owed,
    told: Mutex<Told>,
}

/// When the last note went out, and how long the next one waits after it.
#[derive(Clone, Copy)]
struct Told {
    at: Option<Instant>,
    pause: Duration,
}

impl Ringer {
    pub(super) fn new(server: Server, bell: Bell, channel: Bytes) -> Self {
        let (shared, owner) = (Arc::clone(server.connections()), fastrand::u64(..));
        let told = Mutex::new(Told { at: None, pause: PAUSE_MIN });
        let teller = Teller { shared, channel, owner, owed: Owed::default(), told };
        Self { server, bell, teller: Arc::new(teller) }
    }

    /// The name that its notes carry.
    pub(super) fn owner(&self) -> u64 {
        self.teller.owner
    }

    /// Rings here, and soon elsewhere. Never fails and never waits: polling is the truth.
    pub(super) fn ring(&self, rings: Rings) {
        rings.ring(&self.bell);
        if self.teller.owed.add(rings) {
            let teller = Arc::clone(&self.teller);
            self.server.spawn(async move { teller.tell().await });
        }
    }
}

impl Teller {
    async fn tell(&self) {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let next = told.at.map(|at| at + told.pause).filter(|&next| next > Instant::now());
        let pause = match next {
            Some(next) => {
                sleep_until(next).await;
                (told.pause * 2).min(PAUSE_MAX)
            }
            None => PAUSE_MIN,
        };
        let note = Note::Rings { owner: self.owner, rings: self.owed.take() };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Told { at: Some(Instant::now()), pause };
        let tell = |session| send(note, session, self.channel.clone());
        if let Err(fault) = self.shared.run(Call::WRITE.within(DEADLINE), tell).await {
            tracing::debug!(?fault, "cannot ring for other processes");
        }
    }
}
