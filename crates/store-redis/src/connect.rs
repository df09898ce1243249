//! The way to the servers: one connection per purpose and server, driven by a thread of their own.
//!
//! Renewals have connections of their own and never wait behind work.

mod connector;
mod endpoint;
mod probe;
mod router;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use windlass_core::store::StoreResult;
pub(crate) use windlass_store_server::remote::{Call, Connections, Purpose, Remote};

use crate::RedisOptions;
use crate::error::Unreachable;
use crate::session::Session;
pub(crate) use connector::{Connection, Connector};
pub(crate) use endpoint::Endpoint;
pub(crate) use probe::probe;
pub(crate) use router::Router;
pub(crate) use slots::{redirection, slot_of};

/// A server or a Cluster, for everything in the store.
pub(crate) type Server = Remote<Servers>;

/// What calls and the store's own background work share.
pub(crate) struct Servers {
    pub(crate) options: RedisOptions,
    pub(crate) connector: Arc<Connector>,
    pub(crate) router: Router,
}

/// Starts the thread. Nothing is connected yet: a server that is away is found by the first call.
pub(crate) async fn start(options: &RedisOptions) -> StoreResult<Server> {
    let options = options.clone();
    // Connections end with the runtime; the server has answered all that was asked by then.
    let part = async |_: &Servers| {};
    Remote::start("windlass-redis", || Servers::new(options), part).await
}

impl Servers {
    fn new(options: RedisOptions) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let router = Router::new(Arc::clone(&connector), &options);
        Ok(Self { options, connector, router })
    }
}

impl Connections for Servers {
    type Session = Session;

    fn timeout(&self) -> Duration {
        self.options.timeout
    }

    /// Nothing is lent: requests of all sessions share connections.
    async fn lend(self: &Arc<Self>, purpose: Purpose, deadline: Duration) -> Result<Session, Unreachable> {
        Ok(Session::new(Arc::clone(self), purpose, deadline))
    }
}

#[cfg(test)]
pub(crate) mod tests;
