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

/// The thread. It ends after this was dropped and what was handed in is finished; work in the background must not keep
/// it.
pub(super) struct Thread {
    pub(super) runtime: Handle,
    /// Keeps the thread alive, as its clones do.
    token: Option<Token>,
    thread: ThreadId,
    ended: Mutex<std_mpsc::Receiver<()>>,
}

pub(super) type Token = mpsc::Sender<()>;

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
        Ok((Self { runtime, token: Some(token), thread, ended: Mutex::new(ended) }, shared))
    }

    /// As long as this is there, the thread is.
    pub(super) fn token(&self) -> Token {
        self.token.clone().expect("the token is taken when this is dropped, not before")
    }
}

impl Drop for Thread {
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
