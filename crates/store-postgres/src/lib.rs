//! The PostgreSQL store of Windlass: jobs beside the rest of an application's content, for one process or a fleet.
//!
//! ```no_run
//! # async fn example() -> Result<(), windlass_core::StoreError> {
//! use windlass_core::Store;
//! use windlass_store_postgres::PostgresStore;
//!
//! let store = PostgresStore::open("postgres://app@localhost/app").await?;
//! assert_eq!(store.about().durability.to_string(), "survives a power cut");
//! # Ok(())
//! # }
//! ```
//!
//! ## Parameters of the URL
//!
//! Besides those of libpq (`sslmode`, `sslrootcert`, `application_name`, `connect_timeout`,
//! `target_session_attrs`):
//!
//! | parameter | values | meaning |
//! |---|---|---|
//! | `schema` | a name (`windlass`) | where tables and functions live |
//! | `pool` | 2 to 1000 (8) | connections for work; leases have two more, and one listens |
//! | `statement_timeout` | a span (`15s`) | after which the server gives up on a call |
//! | `lock_timeout` | a span (`5s`) | after which it gives up on waiting for a lock |
//! | `synchronous_commit` | `on` (default), `off` | whether an accepted job waits for the disk |
//! | `listen` | `auto` (default), `never` | whether to hear of other processes by notifications |
//! | `migrate` | `auto` (default), `never` | whether opening brings the schema up to date |

mod checkup;
mod connect;
mod definitions;
mod error;
mod functions;
mod guard;
mod inspect;
mod jobs;
mod leases;
mod maintenance;
pub mod migrate;
mod options;
mod queues;
mod records;
mod row;
mod session;
mod statement;
mod tallies;
mod tls;
mod wakeup;
mod within;

use std::fmt;
use std::sync::{Arc, Mutex};

use windlass_core::StoreError;
use windlass_core::bell::{Bell, Rings};
use windlass_core::store::{About, Checkup, Records, Sharing, Store, Tallies, Wakeup, Within};

pub use options::{Listen, Migrate, PostgresOptions, SslMode, SynchronousCommit};
pub use windlass_core::bell::WakeMode;

use connect::{Pools, Remote};
use definitions::Definitions;
use guard::Guard;
use jobs::claim::Floors;
use jobs::handover::Handover;
use maintenance::{Folding, Forgetting, Mending};
use wakeup::Wakeups;
use within::place::Identity;

/// A store in a PostgreSQL database. Cheap to clone; the last handle that goes closes its connections when what
/// was handed in is finished.
#[derive(Clone)]
pub struct PostgresStore {
    remote: Remote<Pools, Tools>,
    about: Arc<About>,
    /// As it was when last asked for.
    identity: Arc<Mutex<Option<Identity>>>,
}

/// What every call needs.
pub(crate) struct Tools {
    guard: Guard,
    definitions: Definitions,
    floors: Floors,
    handover: Handover,
    folding: Folding,
    forgetting: Forgetting,
    mending: Mending,
    wakeups: Wakeups,
}

impl Tools {
    /// Rings when a write has taken effect.
    fn ring(&self, rings: Rings) {
        if !rings.is_empty() {
            self.wakeups.ring(rings);
        }
    }
}

impl PostgresStore {
    /// Opens the store that a URL names; see the crate's page for its parameters.
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        Self::open_with(PostgresOptions::parse(url)?).await
    }

    /// Opens a store by options. Its schema is made or brought up to date, unless the options say otherwise.
    pub async fn open_with(options: PostgresOptions) -> Result<Self, StoreError> {
        let server = connect::start(&options).await?;
        let probe = connect::probe(&server).await?;
        match options.migrate {
            Migrate::Auto => drop(migrate::apply(&server).await?),
            Migrate::Never => migrate::check(&server).await?,
        }
        let about = About {
            scheme: "postgres",
            place: options.place(),
            durability: probe.durability,
            sharing: Sharing::Store,
        };
        let tools = Tools {
            guard: Guard::new(options.schema_quoted()),
            definitions: Definitions::default(),
            floors: Floors::default(),
            handover: Handover::default(),
            folding: Folding::default(),
            forgetting: Forgetting::default(),
            mending: Mending::default(),
            wakeups: Wakeups::new(&server),
        };
        Ok(Self { remote: server.with(tools), about: Arc::new(about), identity: Arc::default() })
    }

    /// How this store hears of the writes of other processes.
    pub fn wake_mode(&self) -> WakeMode {
        self.remote.tools().wakeups.mode()
    }
}

impl Store for PostgresStore {
    fn about(&self) -> About {
        (*self.about).clone()
    }

    /// Each runs on the store's own thread.
    fn finishes_calls(&self) -> bool {
        true
    }

    fn within(&self) -> Option<&dyn Within> {
        Some(self)
    }

    fn records(&self) -> Option<&dyn Records> {
        Some(self)
    }

    fn tallies(&self) -> Option<&dyn Tallies> {
        Some(self)
    }

    fn checkup(&self) -> Option<&dyn Checkup> {
        Some(self)
    }
}

impl Wakeup for PostgresStore {
    fn bell(&self) -> &Bell {
        self.remote.tools().wakeups.bell()
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("about", &self.about).finish_non_exhaustive()
    }
}
