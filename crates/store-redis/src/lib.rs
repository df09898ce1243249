//! The Redis store of Windlass: jobs on a Redis server or Cluster, for one process or a fleet.
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_core::StoreError> {
//! use windlass_core::Store;
//! use windlass_store_redis::RedisStore;
//!
//! let store = RedisStore::open("redis://localhost").await?;
//! println!("{}", store.about().durability);
//! # Ok(())
//! # }
//! ```
//!
//! ## URLs
//!
//! | URL | leads to |
//! |---|---|
//! | `redis://user:password@host:port/database` | a server, or a Cluster that this server is a node of |
//! | `rediss://…` | the same with TLS |
//! | `redis+unix:///path?db=database` | a server by its local socket |
//! | `redis-cluster://host:port,host:port` | a Cluster; any of its nodes that answers will do |
//! | `redis-sentinel://host:port,host:port/primary/database` | the primary that Sentinels know by this name |
//! | `rediss-cluster://…`, `rediss-sentinel://…` | the same with TLS |
//!
//! Servers are Redis 6.2 or newer with `maxmemory-policy noeviction`. A user of its own needs
//! `~wl:* &wl:* +@all -@dangerous +info`, and on a Cluster `+cluster|slots`.
//!
//! ## What an accepted job survives
//!
//! | server | an accepted job |
//! |---|---|
//! | `appendonly yes`, `appendfsync always` | survives a power cut |
//! | `appendonly yes`, otherwise | survives its clients, a crash of the server may take the newest jobs |
//! | snapshots or nothing | survives its clients, is lost when the server ends |
//!
//! A replica that takes over for a lost primary may not have the newest writes: jobs that were accepted may then be
//! missing, and jobs that were finished may come again. `wait` makes that less likely for jobs as they are accepted.
//! When a server's memory is full nothing is accepted any more, and what was accepted goes on.
//!
//! ## Parameters of the URL
//!
//! | parameter | values | meaning |
//! |---|---|---|
//! | `namespace` | a name without `:` (`windlass`) | what all keys are under |
//! | `timeout` | a span (`15s`) | how long a call waits for an answer |
//! | `connect_timeout` | a span (`3s`) | how long connecting may take |
//! | `wait` | 0 (default) to 100 | replicas that must have a job before it is accepted |
//! | `wait_timeout` | a span (`1s`) | how long to wait for them |
//! | `eviction` | `refuse` (default), `allow` | whether a server that may throw keys away will do |
//! | `listen` | `auto` (default), `never` | whether to hear of other processes by pub/sub |
//! | `ca_file` | a path | certificates to trust instead of the system's, with TLS |

mod agenda;
mod answer;
mod connect;
mod definitions;
mod error;
mod format;
mod ids;
mod inspect;
mod jobs;
mod keys;
mod layout;
mod leases;
mod maintenance;
mod options;
mod pauses;
mod queue_cache;
mod queues;
mod records;
mod registry;
mod row;
mod script;
mod scripts;
mod session;
mod spread;
mod tls;
mod transfers;
mod wakeup;
mod walk;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use windlass_core::StoreError;
use windlass_core::bell::{Address, Bell, Rings};
use windlass_core::clock::Clock;
use windlass_core::store::{About, Records, Sharing, Store, Wakeup};
use windlass_store_server::remote::Admit;

pub use options::{Eviction, Listen, RedisOptions};
pub use windlass_core::bell::WakeMode;

use agenda::Agenda;
use connect::{Call, Connections as _, Remote, Servers};
use definitions::Definitions;
use error::Fault;
use keys::Keys;
use leases::{Holders, Served};
use maintenance::Senders;
use pauses::Pauses;
use queue_cache::QueueCache;
use registry::Registry;
use session::Session;
use wakeup::Wakeups;

/// A store on a Redis server or Cluster. Cheap to clone; the last handle that goes closes its connections when what
/// was handed in is finished.
#[derive(Clone)]
pub struct RedisStore {
    remote: Remote<Servers, Tools>,
    about: Arc<About>,
}

/// What every call needs.
pub(crate) struct Tools {
    pub(crate) keys: Keys,
    pub(crate) registry: Registry,
    pub(crate) queue_cache: QueueCache,
    pub(crate) holders: Holders,
    pub(crate) served: Served,
    pub(crate) definitions: Definitions,
    pub(crate) pauses: Pauses,
    pub(crate) senders: Senders,
    pub(crate) agenda: Agenda,
    wakeups: Wakeups,
    clock: Option<Arc<dyn Clock>>,
    opened: Instant,
}

impl Tools {
    /// Rings when a write has taken effect.
    pub(crate) fn ring(&self, rings: Rings) {
        if !rings.is_empty() {
            self.wakeups.ring(rings);
        }
    }

    /// Looks at the layout of the namespace.
    async fn look(&self, session: &Session) -> Result<(), Fault> {
        self.registry.layout.look(session, &self.keys).await
    }

    /// Where this process hears what it alone is told.
    pub(crate) fn address(&self) -> Address {
        self.wakeups.address()
    }

    /// The first argument of every script: empty for the server's clock, or the microseconds of a test's.
    pub(crate) fn clock(&self) -> Bytes {
        match &self.clock {
            Some(clock) => Bytes::from(clock.now().as_micros().to_string()),
            None => Bytes::new(),
        }
    }

    /// The time by which this process counts spans: since it opened the store, or that of a test.
    pub(crate) fn time(&self) -> Duration {
        match &self.clock {
            Some(clock) => Duration::from_micros(clock.now().as_micros().unsigned_abs()),
            None => self.opened.elapsed(),
        }
    }
}

impl Admit<Session> for Tools {
    /// As far as is known. When a look is due it is taken beside the call, which does not wait for it: it costs no caller a
    /// round trip.
    async fn admit(self: &Arc<Self>, session: &Session) -> Result<(), Fault> {
        let layout = &self.registry.layout;
        if layout.is_due() {
            let (tools, servers) = (Arc::clone(self), Arc::clone(session.servers()));
            tokio::spawn(async move {
                let look = |session: Session| async move { tools.look(&session).await };
                if let Err(fault) = servers.run(Call::READ, look).await {
                    tracing::warn!(?fault, "the layout of the namespace is not known, or not this program's");
                }
            });
        }
        Ok(layout.check()?)
    }
}

impl RedisStore {
    /// Opens the store that a URL names; see the crate's page for its parameters.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(RedisOptions::parse(url)?).await
    }

    /// Opens a store by options.
    pub async fn open_with(options: RedisOptions) -> Result<Self, StoreError> {
        let server = connect::start(&options).await?;
        let probe = connect::probe(&server).await?;
        let about = About {
            scheme: "redis",
            place: options.place(),
            durability: probe.durability,
            sharing: Sharing::Queue,
        };
        let tools = Tools {
            keys: Keys::new(&options.namespace),
            registry: Registry::default(),
            queue_cache: QueueCache::default(),
            holders: Holders::default(),
            served: Served::default(),
            definitions: Definitions::default(),
            pauses: Pauses::default(),
            senders: Senders::default(),
            agenda: Agenda::default(),
            wakeups: Wakeups::new(&server),
            clock: options.clock.clone(),
            opened: Instant::now(),
        };
        let remote = server.with(tools);
        let look = async |tools: Arc<Tools>, session| tools.look(&session).await;
        match remote.call(Call::READ.for_all(), look).await {
            // The server that has the number may be away, and the others there.
            Err(error) if error.is_transient() => {}
            looked => looked?,
        }
        Ok(Self { remote, about: Arc::new(about) })
    }

    /// How this store hears of the writes of other processes.
    pub fn wake_mode(&self) -> WakeMode {
        self.remote.tools().wakeups.mode()
    }
}

impl Store for RedisStore {
    fn about(&self) -> About {
        (*self.about).clone()
    }

    /// Each runs on the store's own thread.
    fn finishes_calls(&self) -> bool {
        true
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }
}

impl Wakeup for RedisStore {
    fn bell(&self) -> &Bell {
        self.remote.tools().wakeups.bell()
    }
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisStore").field("about", &self.about).finish_non_exhaustive()
    }
}
