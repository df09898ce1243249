//! The way to the server: two small pools of connections, driven by a thread of their own.
//!
//! Renewals have connections of their own and never wait behind work.

mod connection;
mod connector;
mod gate;
mod idle;
mod probe;

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Pool, PoolError, QueueMode, TimeoutType};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;
pub(crate) use windlass_store_server::remote::{Call, Connections, Purpose, Remote};

use crate::PostgresOptions;
use crate::error::{Remedy, Unreachable};
use crate::session::Session;
use crate::statement::Statements;
pub(crate) use connection::Connection;
pub(crate) use connector::Connector;
pub(crate) use probe::probe;

/// Connections for leases.
const LEASE_CONNECTIONS: usize = 2;

/// How long a call that has no connection waits for a server that takes no more.
const FULL_WAIT: Duration = Duration::from_millis(500);

/// How much longer than the server's own limit a call waits for an answer.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// A server, for everything in the store.
pub(crate) type Server = Remote<Pools>;

/// What calls and the store's own background work share.
pub(crate) struct Pools {
    pub(crate) options: PostgresOptions,
    pub(crate) statements: Statements,
    pub(crate) connector: Arc<Connector>,
    pub(crate) runtime: Handle,
    work: Pool<Lender>,
    lease: Pool<Lender>,
}

/// Starts the thread. Nothing is connected yet: a server that is away is found by the first call.
pub(crate) async fn start(options: &PostgresOptions) -> StoreResult<Server> {
    let options = options.clone();
    let part = async |pools: &Pools| {
        pools.work.close();
        pools.lease.close();
        pools.connector.farewell().await;
    };
    Remote::start("windlass-postgres", || Pools::new(options), part).await
}

impl Pools {
    fn new(options: PostgresOptions) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let pool = |size: usize| {
            Pool::builder(Lender(Arc::clone(&connector)))
                .max_size(size)
                // The one that worked last is still warm: an idle store wakes the same sessions again and again.
                .queue_mode(QueueMode::Lifo)
                .wait_timeout(Some(options.connection_wait))
                .runtime(deadpool::Runtime::Tokio1)
                .build()
                .map_err(|error| StoreError::Internal { what: error.to_string(), source: None })
        };
        let (work, lease) = (pool(options.pool as usize)?, pool(LEASE_CONNECTIONS)?);
        idle::close(vec![work.clone(), lease.clone()]);
        let statements = Statements::new(&options.schema_quoted());
        Ok(Self { options, statements, connector, runtime: Handle::current(), work, lease })
    }
}

impl Connections for Pools {
    type Session = Session;

    /// The statement timeout and five seconds.
    fn timeout(&self) -> Duration {
        self.options.statement_timeout + ANSWER_GRACE
    }

    async fn lend(self: &Arc<Self>, purpose: Purpose, _deadline: Duration) -> Result<Session, Unreachable> {
        let pool = match purpose {
            Purpose::Work | Purpose::Replicas => &self.work,
            Purpose::Lease => &self.lease,
        };
        let (began, wait) = (Instant::now(), self.options.connection_wait);
        loop {
            match pool.get().await {
                Ok(object) => return Ok(Session::new(object, self)),
                Err(PoolError::Backend(why)) => {
                    // A server that takes no more connections still serves on those that there are, or are being
                    // made at this moment.
                    let has_others = pool.status().size > 0;
                    let patience = if has_others { wait } else { wait.min(FULL_WAIT) };
                    if why.remedy != Remedy::WaitForOthers || began.elapsed() > patience {
                        return Err(why);
                    }
                    sleep(Duration::from_millis(fastrand::u64(5..25))).await;
                }
                Err(PoolError::Timeout(TimeoutType::Wait)) => {
                    let size = pool.status().max_size;
                    let what = format!("all {size} connections have been busy for {wait:?}");
                    return Err(Unreachable::passing(what));
                }
                Err(PoolError::Closed) => return Err(Unreachable::passing("the store is closed")),
                Err(error) => return Err(Unreachable::passing(format!("no connection: {error:?}"))),
            }
        }
    }
}

/// How the pools make and check connections.
pub(crate) struct Lender(Arc<Connector>);

impl deadpool::managed::Manager for Lender {
    type Type = Arc<Connection>;
    type Error = Unreachable;

    async fn create(&self) -> Result<Arc<Connection>, Unreachable> {
        self.0.connect().await.map(Arc::new)
    }

    async fn recycle(
        &self,
        connection: &mut Arc<Connection>,
        metrics: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Unreachable> {
        /// After a rest the other side may have gone unnoticed.
        const REST: Duration = Duration::from_millis(10);
        if metrics.last_used() > REST {
            // Lets the runtime look at the sockets, and then the connection at its own.
            tokio::task::yield_now().await;
        }
        if connection.client.is_closed() {
            return Err(Unreachable::passing("the connection was closed").into());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests;
