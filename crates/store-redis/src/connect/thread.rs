//! The thread that drives all connections, and its end.

use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

use super::{Shared, Token};
use crate::RedisOptions;

/// How long a dropped store waits for what was handed in; what takes longer goes on without anybody waiting.
const PARTING: Duration = Duration::from_millis(250);

/// Keeps the thread. Dropping it lets the thread end.
pub(super) struct Owner {
    shared: Arc<Shared>,
    token: Option<Token>,
    thread: ThreadId,
    ended: Mutex<std_mpsc::Receiver<()>>,
}

impl Owner {
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// As long as this is there, the thread is.
    pub(super) fn token(&self) -> Token {
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

/// Starts the thread and waits until it is ready.
pub(super) async fn start(options: RedisOptions) -> StoreResult<Owner> {
    let (ready, is_ready) = oneshot::channel();
    let (token, tokens) = mpsc::channel(1);
    let (end, ended) = std_mpsc::channel::<()>();
    let body = move || {
        run(options, ready, tokens);
        drop(end);
    };
    let thread = thread::Builder::new().name("windlass-redis".to_owned()).spawn(body);
    let thread = thread.map_err(unavailable)?.thread().id();
    let shared = is_ready.await.unwrap_or_else(|_| Err(unavailable(std::io::ErrorKind::Other.into())))?;
    Ok(Owner { shared, token: Some(token), thread, ended: Mutex::new(ended) })
}

fn run(
    options: RedisOptions,
    ready: oneshot::Sender<StoreResult<Arc<Shared>>>,
    mut tokens: mpsc::Receiver<()>,
) {
    let runtime = match Builder::new_current_thread().enable_io().enable_time().build() {
        Ok(runtime) => runtime,
        Err(error) => return drop(ready.send(Err(unavailable(error)))),
    };
    runtime.block_on(async move {
        let shared = match Shared::new(options, Handle::current()) {
            Ok(shared) => Arc::new(shared),
            Err(error) => return drop(ready.send(Err(error))),
        };
        if ready.send(Ok(Arc::clone(&shared))).is_err() {
            return;
        }
        // Nothing is ever sent: this waits until all tokens are gone. Connections end with the runtime; the server
        // has answered all that was asked by then.
        while tokens.recv().await.is_some() {}
    });
}

fn unavailable(error: std::io::Error) -> StoreError {
    StoreError::Unavailable {
        what: "cannot start the thread of the store".to_owned(),
        source: Some(Box::new(error)),
    }
}
