//! Tells other processes, at once when it is quiet and a few times per second when it is not.

use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use windlass_core::bell::{Bell, Note, Owed, Rings};

use super::{channel, send};
use crate::connect::{Call, Connections as _, Pools, Server};

/// A notification takes a lock of the whole server, so there are at most 20 per second and process.
const INTERVAL: Duration = Duration::from_millis(50);

/// How long a notification may take before it is given up.
const DEADLINE: Duration = Duration::from_secs(5);

/// Rings the bell of this process, and those of the others through the server.
pub(crate) struct Ringer(Arc<Core>);

/// As a [`Ringer`], without keeping the store open.
pub(super) struct WeakRinger(Weak<Core>);

struct Core {
    server: Server,
    bell: Bell,
    teller: Arc<Teller>,
}

/// What is on the way to the others. It has no [`Server`], so that the store that is dropped meanwhile is dropped by
/// its user, who then waits a moment for it.
struct Teller {
    shared: Arc<Pools>,
    owner: u64,
    /// What others were not told yet.
    owed: Owed,
    told: Mutex<Option<Instant>>,
}

impl Ringer {
    pub(super) fn new(server: Server, bell: Bell) -> Self {
        let (shared, owner, owed) = (Arc::clone(server.connections()), fastrand::u64(..), Owed::default());
        let teller = Arc::new(Teller { shared, owner, owed, told: Mutex::new(None) });
        Self(Arc::new(Core { server, bell, teller }))
    }

    /// The name that its notifications carry.
    pub(super) fn owner(&self) -> u64 {
        self.0.teller.owner
    }

    pub(super) fn downgrade(&self) -> WeakRinger {
        WeakRinger(Arc::downgrade(&self.0))
    }

    /// Rings here, and soon elsewhere. Never fails and never waits: polling is the truth.
    pub(crate) fn ring(&self, rings: Rings) {
        rings.ring(&self.0.bell);
        self.ring_elsewhere(rings);
    }

    /// Rings soon at the others, where nobody here needs to be told.
    pub(crate) fn ring_elsewhere(&self, rings: Rings) {
        if self.0.teller.owed.add(rings) {
            let teller = Arc::clone(&self.0.teller);
            self.0.server.spawn(async move { teller.tell().await });
        }
    }
}

impl WeakRinger {
    pub(super) fn ring(&self, rings: Rings) {
        if let Some(core) = self.0.upgrade() {
            Ringer(core).ring(rings);
        }
    }
}

impl Teller {
    async fn tell(&self) {
        let told = *self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(told) = told {
            sleep_until(told + INTERVAL).await;
        }
        let sent = self.shared.run(Call::WRITE.within(DEADLINE), |session| {
            // Taken at the last moment: what was rung while all connections were busy goes along.
            let note = Note::Rings { owner: self.owner, rings: self.owed.take() };
            *self.told.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            send(note, session, channel(&self.shared.options.schema))
        });
        if let Err(fault) = sent.await {
            tracing::debug!(?fault, "cannot ring for other processes");
            // Nobody is on the way any more, so that the next ring sends somebody.
            let _ = self.owed.take();
        }
    }
}
