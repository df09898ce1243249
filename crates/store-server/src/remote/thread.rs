//! The thread that drives all connections of a store, and its end.

use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

/// How long a dropped store waits for what was handed in; what takes longer goes on without a caller that waits.
const PARTING: Duration = Duration::from_millis(250);

/// Keeps the thread. Cheap to clone. The thread ends after the last of them has gone and what was handed in is
/// finished; work in the background must not keep one.
#[derive(Clone)]
pub(super) struct Thread(Arc<Owner>);

struct Owner {
    runtime: Handle,
    /// Keeps the thread alive, as its clones do.
    token: Option<Token>,
    thread: ThreadId,
    ended: Mutex<std_mpsc::Receiver<()>>,
}

type Token = mpsc::Sender<()>;

impl Thread {
    /// Starts the thread and waits for what `make` makes there; see [`Remote::start`](super::Remote::start).
    pub(super) async fn start<S: Send + Sync + 'static>(
        name: &str,
        make: impl FnOnce() -> StoreResult<S> + Send + 'static,
        part: impl AsyncFnOnce(&S) + Send + 'static,
    ) -> StoreResult<(Self, Arc<S>)> {
        let (ready, is_ready) = oneshot::channel();
        let (token, tokens) = mpsc::channel(1);
        let (end, ended) = std_mpsc::channel::<()>();
        let body = move || {
            run(make, ready, tokens, part);
            drop(end);
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(body);
        let thread = thread.map_err(unavailable)?.thread().id();
        let gone = |_| {
            let what = "the thread of the store ended before it began".to_owned();
            Err(StoreError::Internal { what, source: None })
        };
        let (runtime, shared) = is_ready.await.unwrap_or_else(gone)?;
        let owner = Owner { runtime, token: Some(token), thread, ended: Mutex::new(ended) };
        Ok((Self(Arc::new(owner)), shared))
    }

    /// Runs something on the thread to its end; the thread waits for it.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let token = self.0.token();
        self.0.runtime.spawn(async move {
            work.await;
            drop(token);
        });
    }

    /// Runs something on the thread as long as that lives.
    pub(super) fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(work);
    }
}

impl Owner {
    /// As long as this is there, the thread is.
    fn token(&self) -> Token {
        self.token.clone().expect("the token is taken when the owner is dropped, not before")
    }
}

impl Drop for Owner {
    /// Waits a moment, so that a program that ends right after its last call still wakes the workers. Never on the
    /// thread itself, which could not go on meanwhile.
    fn drop(&mut self) {
        self.token = None;
        if thread::current().id() != self.thread
            && let Ok(ended) = self.ended.lock()
        {
            let _ = ended.recv_timeout(PARTING);
        }
    }
}

fn run<S>(
    make: impl FnOnce() -> StoreResult<S>,
    ready: oneshot::Sender<StoreResult<(Handle, Arc<S>)>>,
    mut tokens: mpsc::Receiver<()>,
    part: impl AsyncFnOnce(&S),
) {
    let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(unavailable(error)))),
    };
    runtime.block_on(async move {
        let shared = match make() {
            Ok(shared) => Arc::new(shared),
            Err(error) => return drop(ready.send(Err(error))),
        };
        if ready.send(Ok((Handle::current(), Arc::clone(&shared)))).is_err() {
            return;
        }
        // Nothing is ever sent: this waits until all tokens are gone.
        while tokens.recv().await.is_some() {}
        part(&shared).await;
    });
}

fn unavailable(error: std::io::Error) -> StoreError {
    StoreError::Unavailable {
        what: "cannot start the thread of the store".to_owned(),
        source: Some(Box::new(error)),
    }
}
