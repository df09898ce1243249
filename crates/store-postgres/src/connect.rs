//! The way to the server: a thread that drives all connections, and two small pools of them.
//!
//! Calls run on that thread to their end, whatever becomes of those who asked, so no handler can starve a renewal
//! and no dropped future leaves a statement half-way. Renewals have connections of their own and never wait behind
//! work.

mod connector;
mod gate;
mod probe;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use deadpool::managed::{Object, Pool, PoolError, QueueMode, TimeoutType};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;
use windlass_store_server::thread::Thread;

use crate::PostgresOptions;
pub(crate) use crate::error::Effect;
use crate::error::{Away, Fault, Reason};
use crate::session::Session;
pub(crate) use connector::Connector;
pub(crate) use wire::Wire;

/// Which connections a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Those for work.
    Work,
    /// Those for leases, so that a renewal never waits for work.
    Lease,
}

/// Connections for leases.
const LEASE_CONNECTIONS: usize = 2;

/// How long a call that has no connection waits for a server that takes no more.
const FULL_WAIT: Duration = Duration::from_millis(500);

/// How long a renewal waits for an answer: there must be time for another try over the other connection.
const LEASE_DEADLINE: Duration = Duration::from_secs(4);

/// How much longer than the server's own limit a call waits for an answer.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// A server, for everyone in the store. Cheap to clone. The thread ends after the last handle has gone and what was
/// handed in is finished.
#[derive(Clone)]
pub(crate) struct Server {
    thread: Thread,
    shared: Arc<Shared>,
}

/// What calls and the store's own background work share. Whoever has only this does not keep the thread alive.
pub(crate) struct Shared {
    pub(crate) options: PostgresOptions,
    pub(crate) connector: Arc<Connector>,
    runtime: Handle,
    work: Pool<Lender>,
    lease: Pool<Lender>,
}

impl Server {
    /// Starts the thread. Nothing is connected yet: a server that is away is found by the first call.
    pub(crate) async fn start(options: &PostgresOptions) -> StoreResult<Self> {
        let options = options.clone();
        let part = async |shared: &Shared| {
            shared.close();
            shared.connector.farewell().await;
        };
        let (thread, shared) = Thread::start("windlass-postgres", || Shared::new(options), part).await?;
        Ok(Self { thread, shared })
    }

    /// Runs an operation with a connection of the lane, to its end even if the caller goes away.
    ///
    /// When the connection breaks or the deadline passes after something was sent, a write is `Unknown` and a read
    /// `Unavailable`; before that both are `Unavailable`. The deadline is the statement timeout and five seconds.
    pub(crate) async fn call<T, F, Fut>(&self, lane: Lane, effect: Effect, operation: F) -> StoreResult<T>
    where
        F: FnOnce(Session) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Fault>> + Send + 'static,
        T: Send + 'static,
    {
        let whole = self.shared().options.statement_timeout + ANSWER_GRACE;
        let deadline = match lane {
            Lane::Work => whole,
            Lane::Lease => whole.min(LEASE_DEADLINE),
        };
        self.call_for(deadline, lane, effect, operation).await
    }

    /// As [`call`](Self::call), with a deadline of its own: for migrations, which lift the server's limit themselves.
    pub(crate) async fn call_for<T, F, Fut>(
        &self,
        deadline: Duration,
        lane: Lane,
        effect: Effect,
        operation: F,
    ) -> StoreResult<T>
    where
        F: FnOnce(Session) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Fault>> + Send + 'static,
        T: Send + 'static,
    {
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
    fn new(options: PostgresOptions) -> StoreResult<Self> {
        let connector = Arc::new(Connector::new(&options)?);
        let pool = |size: usize| {
            Pool::builder(Lender(Arc::clone(&connector)))
                .max_size(size)
                // Whoever worked last is still at it: an idle store wakes the same sessions again and again.
                .queue_mode(QueueMode::Lifo)
                .wait_timeout(Some(options.connection_wait))
                .runtime(deadpool::Runtime::Tokio1)
                .build()
                .map_err(|error| StoreError::Internal { what: error.to_string(), source: None })
        };
        let (work, lease) = (pool(options.pool as usize)?, pool(LEASE_CONNECTIONS)?);
        Ok(Self { options, connector, runtime: Handle::current(), work, lease })
    }

    /// Runs an operation with a connection of the lane, here and now.
    pub(crate) async fn run<T, F, Fut>(
        &self,
        deadline: Duration,
        lane: Lane,
        operation: F,
    ) -> Result<T, Fault>
    where
        F: FnOnce(Session) -> Fut,
        Fut: Future<Output = Result<T, Fault>>,
    {
        let loan = Loan::take(self, lane).await?;
        let (session, progress) = Session::new(loan.wire());
        match timeout(deadline, operation(session)).await {
            Ok(result) => {
                loan.give_back(progress.is_spoiled());
                result
            }
            Err(_) if progress.has_sent() => Err(Fault::Timeout(deadline)),
            Err(_) => Err(Away::passing(format!("the call did not begin within {deadline:?}")).into()),
        }
    }

    /// No connection is lent any more.
    fn close(&self) {
        self.work.close();
        self.lease.close();
    }

    fn pool(&self, lane: Lane) -> &Pool<Lender> {
        match lane {
            Lane::Work => &self.work,
            Lane::Lease => &self.lease,
        }
    }
}

/// How the pools make and check connections.
pub(crate) struct Lender(Arc<Connector>);

impl deadpool::managed::Manager for Lender {
    type Type = Arc<Wire>;
    type Error = Away;

    async fn create(&self) -> Result<Arc<Wire>, Away> {
        self.0.connect().await.map(Arc::new)
    }

    async fn recycle(
        &self,
        wire: &mut Arc<Wire>,
        metrics: &deadpool::managed::Metrics,
    ) -> deadpool::managed::RecycleResult<Away> {
        /// After a rest the other side may have gone without anybody having looked.
        const REST: Duration = Duration::from_millis(10);
        if metrics.last_used() > REST {
            // Lets the runtime look at the sockets, and then the connection at its own.
            tokio::task::yield_now().await;
        }
        if wire.client.is_closed() {
            return Err(Away::passing("the connection was closed").into());
        }
        Ok(())
    }
}

/// A connection on loan. If it is not given back (a deadline passed, the operation panicked) nobody knows what it is
/// doing, so it is cancelled and closed.
struct Loan<'s> {
    object: Option<Object<Lender>>,
    shared: &'s Shared,
}

impl<'s> Loan<'s> {
    async fn take(shared: &'s Shared, lane: Lane) -> Result<Self, Away> {
        let (began, wait) = (Instant::now(), shared.options.connection_wait);
        loop {
            match shared.pool(lane).get().await {
                Ok(object) => return Ok(Self { object: Some(object), shared }),
                Err(PoolError::Backend(away)) => {
                    // A server that takes no more connections still serves on those that there are, or are being
                    // made at this moment.
                    let has_others = shared.pool(lane).status().size > 0;
                    let patience = if has_others { wait } else { wait.min(FULL_WAIT) };
                    if away.reason != Reason::Full || began.elapsed() > patience {
                        return Err(away);
                    }
                    sleep(Duration::from_millis(fastrand::u64(5..25))).await;
                }
                Err(PoolError::Timeout(TimeoutType::Wait)) => {
                    let size = shared.pool(lane).status().max_size;
                    let what = format!("all {size} connections have been busy for {wait:?}");
                    return Err(Away::passing(what));
                }
                Err(PoolError::Closed) => return Err(Away::passing("the store is closed")),
                Err(error) => return Err(Away::passing(format!("no connection: {error:?}"))),
            }
        }
    }

    fn wire(&self) -> Arc<Wire> {
        Arc::clone(self.object.as_ref().expect("a loan has its connection until it is given back"))
    }

    fn give_back(mut self, is_spoiled: bool) {
        if let Some(object) = self.object.take()
            && is_spoiled
        {
            // Dropping the client says goodbye to the server, which rolls back what is open.
            drop(Object::take(object));
        }
    }
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        if let Some(object) = self.object.take() {
            let wire = Object::take(object);
            let connector = Arc::clone(&self.shared.connector);
            self.shared.runtime.spawn(async move { connector.abandon(&wire).await });
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
