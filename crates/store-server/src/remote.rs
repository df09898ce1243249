//! A store on a server, as its own code sees it: the connections, the thread that drives them, and the one way in.
//!
//! A [`call`](Remote::call) runs on that thread to its end, whatever becomes of its caller: no handler can starve a
//! renewal, and no dropped future leaves a call half-way. Renewals have connections of their own and never wait behind
//! work. A driver says how a [`Session`] is lent ([`Connections`]) and which programs may work with what is stored
//! ([`Admit`]).

mod thread;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

use self::thread::Thread;
use crate::error::{Effect, Fault, Unreachable};

/// How long a renewal waits for an answer: there must be time for another try over another connection.
const LEASE_DEADLINE: Duration = Duration::from_secs(4);

/// Connections to a server, the thread that drives them, and what calls need besides. Cheap to clone. The thread ends
/// after the last clone has gone and what was handed in is finished; work in the background keeps the connections only.
pub struct Remote<C, T = ()> {
    thread: Arc<Thread>,
    connections: Arc<C>,
    tools: Arc<T>,
}

/// What a call is, before it says anything to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Which connections it uses.
    pub purpose: Purpose,
    /// What a lost answer means.
    pub effect: Effect,
    /// How long it may take, if not as long as the options say.
    pub deadline: Option<Duration>,
    /// Whether it is made by programs that must stay out, too.
    pub is_for_all: bool,
}

impl Call {
    /// It looks at jobs.
    pub const READ: Self =
        Self { purpose: Purpose::Work, effect: Effect::Read, deadline: None, is_for_all: false };
    /// It changes jobs.
    pub const WRITE: Self = Self { effect: Effect::Write, ..Self::READ };
    /// It keeps a lease alive, or ends it.
    pub const LEASE: Self = Self { purpose: Purpose::Lease, ..Self::WRITE };

    /// The same within this time.
    #[must_use]
    pub const fn within(self, deadline: Duration) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The same for programs that must stay out, too.
    #[must_use]
    pub const fn for_all(self) -> Self {
        Self { is_for_all: true, ..self }
    }
}

/// What connections are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Purpose {
    /// Work.
    Work,
    /// Leases, so that a renewal never waits for work.
    Lease,
    /// Writes that wait for replicas, where requests share a connection: such a wait holds up everything behind it.
    Replicas,
}

/// How a driver reaches its server.
pub trait Connections: Send + Sync + Sized + 'static {
    /// What an operation uses to reach the server.
    type Session: Session;

    /// How long a call may take.
    fn timeout(&self) -> Duration;

    /// A session for an operation that ends within this time.
    fn lend(
        self: &Arc<Self>,
        purpose: Purpose,
        deadline: Duration,
    ) -> impl Future<Output = Result<Self::Session, Unreachable>> + Send;

    /// Runs an operation over a session, here and now: for work in the background, on the store's thread.
    fn run<A: Send, Fut: Future<Output = Result<A, Fault>> + Send>(
        self: &Arc<Self>,
        call: Call,
        operation: impl FnOnce(Self::Session) -> Fut + Send,
    ) -> impl Future<Output = Result<A, Fault>> + Send {
        run(self, Arc::<()>::default(), call, |_, session| operation(session))
    }
}

/// What an operation uses to reach its server. Clones are the same session.
pub trait Session: Clone + Send + Sync + 'static {
    /// Whether a server may have got something.
    fn has_sent(&self) -> bool;

    /// The operation has come to its end. Without this it was given up: what the server is doing is not known.
    fn ended(self) {}
}

/// What the calls of a store share besides connections.
pub trait Admit<S>: Send + Sync + 'static {
    /// Fails when this program must stay out of what is stored, because a newer one has changed it.
    fn admit(self: &Arc<Self>, session: &S) -> impl Future<Output = Result<(), Fault>> + Send;
}

/// A server without a store: for finding out what is there.
impl<S: Session> Admit<S> for () {
    async fn admit(self: &Arc<Self>, _session: &S) -> Result<(), Fault> {
        Ok(())
    }
}

impl<C: Connections> Remote<C> {
    /// Starts the thread and makes the connections there, within its runtime; that may block for a moment. When all is
    /// done the thread says goodbye with `part`, which must come to an end by itself, and drops whatever still runs in
    /// the background.
    pub async fn start(
        name: &str,
        make: impl FnOnce() -> StoreResult<C> + Send + 'static,
        part: impl AsyncFnOnce(&C) + Send + 'static,
    ) -> StoreResult<Self> {
        let (thread, connections) = Thread::start(name, make, part).await?;
        Ok(Self { thread: Arc::new(thread), connections, tools: Arc::default() })
    }

    /// The same, for the calls of a store.
    pub fn with<T: Admit<C::Session>>(self, tools: T) -> Remote<C, T> {
        Remote { thread: self.thread, connections: self.connections, tools: Arc::new(tools) }
    }
}

impl<C: Connections, T: Admit<C::Session>> Remote<C, T> {
    /// Runs an operation on the thread, to its end even if the caller goes away. It begins at once, so that the caller's
    /// future is a small one that only waits.
    ///
    /// When a connection breaks or the deadline passes after something was sent, a write is `Unknown` and a read
    /// `Unavailable`; before that both are `Unavailable`.
    pub fn call<A, F, Fut>(
        &self,
        call: Call,
        operation: F,
    ) -> impl Future<Output = StoreResult<A>> + Send + use<C, T, A, F, Fut>
    where
        A: Send + 'static,
        F: FnOnce(Arc<T>, C::Session) -> Fut + Send + 'static,
        Fut: Future<Output = Result<A, Fault>> + Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let (connections, tools) = (Arc::clone(&self.connections), Arc::clone(&self.tools));
        let token = self.thread.token();
        self.thread.runtime.spawn(async move {
            let result = run(&connections, tools, call, operation).await;
            // A caller that went away wants no answer.
            let _ = answer.send(result.map_err(|fault| fault.into_error(call.effect)));
            drop(token);
        });
        async move {
            answered.await.unwrap_or_else(|_| {
                let what = "the operation ended without an answer".to_owned();
                Err(StoreError::Internal { what, source: None })
            })
        }
    }
}

async fn run<C: Connections, T: Admit<C::Session>, A, Fut: Future<Output = Result<A, Fault>>>(
    connections: &Arc<C>,
    tools: Arc<T>,
    call: Call,
    operation: impl FnOnce(Arc<T>, C::Session) -> Fut,
) -> Result<A, Fault> {
    let deadline = call.deadline.unwrap_or_else(|| match call.purpose {
        Purpose::Work | Purpose::Replicas => connections.timeout(),
        Purpose::Lease => connections.timeout().min(LEASE_DEADLINE),
    });
    let session = connections.lend(call.purpose, deadline).await?;
    let admitted = async {
        if !call.is_for_all {
            tools.admit(&session).await?;
        }
        operation(tools, session.clone()).await
    };
    match timeout(deadline, admitted).await {
        Ok(result) => {
            session.ended();
            result
        }
        Err(_) if session.has_sent() => Err(Fault::Timeout(deadline)),
        Err(_) => Err(Unreachable::passing(format!("the call did not begin within {deadline:?}")).into()),
    }
}

impl<C, T> Remote<C, T> {
    /// Runs something on the thread to its end; the thread waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let token = self.thread.token();
        self.thread.runtime.spawn(async move {
            work.await;
            drop(token);
        });
    }

    /// Runs something on the thread as long as that lives.
    pub fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.thread.runtime.spawn(work);
    }

    /// For background work, which must not keep a [`Remote`].
    pub fn connections(&self) -> &Arc<C> {
        &self.connections
    }

    /// What the calls share.
    pub fn tools(&self) -> &T {
        &self.tools
    }
}

impl<C, T> Clone for Remote<C, T> {
    fn clone(&self) -> Self {
        let (thread, connections, tools) =
            (Arc::clone(&self.thread), Arc::clone(&self.connections), Arc::clone(&self.tools));
        Self { thread, connections, tools }
    }
}

#[cfg(test)]
mod tests;
