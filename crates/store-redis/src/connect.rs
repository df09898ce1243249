//! The way to the servers: a thread that drives all connections, and one connection per purpose and server.
//!
//! Calls run on that thread to their end, whatever becomes of those who asked, so no handler can starve a renewal
//! and no dropped future leaves a call half-way. Renewals have connections of their own and never wait behind work.

mod connector;
mod line;
mod probe;
mod roads;
mod slots;
mod thread;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use windlass_core::store::StoreResult;

use crate::RedisOptions;
pub(crate) use crate::error::Effect;
use crate::error::{Away, Fault};
use crate::session::Session;
pub(crate) use connector::{Connector, Wire};
pub(crate) use line::{Line, pause};
pub(crate) use roads::Roads;
pub(crate) use slots::{redirection, slot_of};
use thread::Owner;

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
    owner: Arc<Owner>,
}

/// What calls and the store's own background work share. Whoever has only this does not keep the thread alive.
pub(crate) struct Shared {
    pub(crate) options: RedisOptions,
    pub(crate) connector: Arc<Connector>,
    pub(crate) roads: Roads,
    runtime: Handle,
}

impl Server {
    /// Starts the thread. Nothing is connected yet: a server that is away is found by the first call.
    pub(crate) async fn start(options: &RedisOptions) -> StoreResult<Self> {
        Ok(Self { owner: Arc::new(thread::start(options.clone()).await?) })
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
        let (answer, answered) = oneshot::channel();
        let shared = Arc::clone(self.shared());
        self.spawn(async move {
            let result = shared.run(deadline, lane, operation).await;
            // A caller that went away wants no answer.
            let _ = answer.send(result.map_err(|fault| fault.into_error(effect)));
        });
        let gone = || Fault::Defect("the operation ended without an answer".to_owned());
        answered.await.unwrap_or_else(|_| Err(gone().into_error(effect)))
    }

    /// Runs something on the store's thread to its end; the thread waits for it.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let token = self.owner.token();
        self.shared().runtime.spawn(async move {
            work.await;
            drop(token);
        });
    }

    /// Runs something on the store's thread as long as that lives.
    pub(crate) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.shared().runtime.spawn(work);
    }

    /// For background work, which must not keep a [`Server`].
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        self.owner.shared()
    }
}

/// Keeps the thread alive.
pub(crate) type Token = mpsc::Sender<()>;

impl Shared {
    fn new(options: RedisOptions, runtime: Handle) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let roads = Roads::new(Arc::clone(&connector), &options);
        Ok(Self { options, connector, roads, runtime })
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
