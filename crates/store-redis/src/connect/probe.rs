//! What kind of server this is.

use windlass_core::store::{Durability, StoreResult};

use super::Server;

/// What a server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    /// What an accepted job survives.
    pub(crate) durability: Durability,
}

impl Server {
    /// Asks the servers.
    pub(crate) async fn probe(&self) -> StoreResult<Probe> {
        Ok(Probe { durability: Durability::Crash })
    }
}
