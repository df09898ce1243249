//! Tells other processes, at once when it is quiet and every few milliseconds when it is not.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep_until};
use windlass_core::bell::{Bell, Note, Owed, Rings};

use super::send;
use crate::connect::{Lane, Server, Shared};

/// A note wakes every process that listens, so there are at most 200 per second and process.
const INTERVAL: Duration = Duration::from_millis(5);

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
    shared: Arc<Shared>,
    channel: Bytes,
    owner: u64,
    /// What others were not told yet.
    owed: Owed,
    told: Mutex<Option<Instant>>,
}

impl Ringer {
    pub(super) fn new(server: Server, bell: Bell, channel: Bytes) -> Self {
        let (shared, owner) = (Arc::clone(server.shared()), fastrand::u64(..));
        let teller = Teller { shared, channel, owner, owed: Owed::default(), told: Mutex::new(None) };
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
        if let Some(told) = told {
            sleep_until(told + INTERVAL).await;
        }
        let note = Note::Rings { owner: self.owner, rings: self.owed.take() };
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        let tell = |session| send(note, session, self.channel.clone());
        if let Err(fault) = self.shared.run(DEADLINE, Lane::Work, tell).await {
            tracing::debug!(?fault, "cannot ring for other processes");
        }
    }
}
