//! The way to the servers: a thread that drives all connections, and one connection per purpose and server.
//!
//! Calls run on that thread to their end, whatever becomes of those who asked, so no handler can starve a renewal
//! and no dropped future leaves a call half-way. Renewals have connections of their own and never wait behind work.

mod connector;
mod line;
mod probe;
mod router;
mod slots;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use windlass_core::store::StoreResult;
use windlass_store_server::thread::Thread;

use crate::RedisOptions;
pub(crate) use crate::error::Effect;
use crate::error::{Away, Fault};
use crate::session::Session;
pub(crate) use connector::{Connector, Wire};
pub(crate) use line::Line;
pub(crate) use router::Router;
pub(crate) use slots::{redirection, slot_of};

/// Which connections a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Those for work.
    Work,
    /// Those for leases, so that a renewal never waits for work.
    Lease,
    /// Those for writes that wait for replicas: such a wait holds up everything behind it. Chosen by
    /// [`Session::run_acknowledged`], not by calls.
    Replicas,
}

/// How long a renewal waits for an answer: there must be time for another try.
const LEASE_DEADLINE: Duration = Duration::from_secs(4);

/// A server or a Cluster, for everyone in the store. Cheap to clone. The thread ends after the last handle has gone
/// and what was handed in is finished.
#[derive(Clone)]
pub(crate) struct Server {
    thread: Thread,
    shared: Arc<Shared>,
}

/// What calls and the store's own background work share. Whoever has only this does not keep the thread alive.
pub(crate) struct Shared {
    pub(crate) options: RedisOptions,
    pub(crate) connector: Arc<Connector>,
    pub(crate) router: Router,
}

impl Server {
    /// Starts the thread. Nothing is connected yet: a server that is away is found by the first call.
    pub(crate) async fn start(options: &RedisOptions) -> StoreResult<Self> {
        let options = options.clone();
        // Connections end with the runtime; the server has answered all that was asked by then.
        let part = async |_: &Shared| {};
        let (thread, shared) = Thread::start("windlass-redis", || Shared::new(options), part).await?;
        Ok(Self { thread, shared })
    }

    /// Runs an operation over the connections of the lane, to its end even if the caller goes away.
    ///
    /// When a connection breaks or the deadline passes after something was sent, a write is `Unknown` and a read
    /// `Unavailable`; before that both are `Unavailable`.
    pub(crate) async fn call<T, F, Fut>(&self, lane: Lane, effect: Effect, operation: F) -> StoreResult<T>
    where
        F: FnOnce(Session) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Fault>> + Send + 'static,
        T: Send + 'static,
    {
        let whole = self.shared().options.timeout;
        let deadline = match lane {
            Lane::Work | Lane::Replicas => whole,
            Lane::Lease => whole.min(LEASE_DEADLINE),
        };
        let shared = Arc::clone(&self.shared);
        let answer = self.thread.answer(async move {
            shared.run(deadline, lane, operation).await.map_err(|fault| fault.into_error(effect))
        });
        answer.await
    }

    /// What runs calls and background work.
    pub(crate) fn thread(&self) -> &Thread {
        &self.thread
    }

    /// For background work, which must not keep a [`Server`].
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }
}

impl Shared {
    fn new(options: RedisOptions) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let router = Router::new(Arc::clone(&connector), &options);
        Ok(Self { options, connector, router })
    }

    /// Runs an operation over the connections of the lane, here and now.
    pub(crate) async fn run<T, F, Fut>(
        self: &Arc<Self>,
        deadline: Duration,
        lane: Lane,
        operation: F,
    ) -> Result<T, Fault>
    where
        F: FnOnce(Session) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let session = Session::new(Arc::clone(self), lane, deadline);
        match timeout(deadline, operation(session.clone())).await {
            Ok(result) => result,
            Err(_) if session.has_sent() => Err(Fault::Timeout(deadline)),
            Err(_) => Err(Away::passing(format!("the call did not begin within {deadline:?}")).into()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
