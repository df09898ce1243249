//! The thread that drives all connections of a store, and its end.
//!
//! Calls run on it to their end, whatever becomes of those who asked, so no handler can starve a renewal and no
//! dropped future leaves a call half-way.

use std::fmt;
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::{mpsc, oneshot};
use windlass_core::StoreError;
use windlass_core::store::StoreResult;

/// How long a dropped store waits for what was handed in; what takes longer goes on without anybody waiting.
const PARTING: Duration = Duration::from_millis(250);

/// Keeps the thread. Cheap to clone. The thread ends after the last of them has gone and what was handed in is
/// finished; work in the background must not keep one.
#[derive(Clone)]
pub struct Thread(Arc<Owner>);

struct Owner {
    runtime: Handle,
    /// Keeps the thread alive, as its clones do.
    token: Option<Token>,
    thread: ThreadId,
    ended: Mutex<std_mpsc::Receiver<()>>,
}

type Token = mpsc::Sender<()>;

impl Thread {
    /// Starts the thread and waits for what `make` makes there: it runs within the thread's runtime and may block for a
    /// moment. When all is done the thread says goodbye with `part` and drops whatever still runs in the background.
    /// `part` must come to an end by itself: the thread lives as long.
    pub async fn start<S: Send + Sync + 'static>(
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

    /// Runs a call on the thread to its end, even if the caller goes away. It begins at once, so that the caller's
    /// future is a small one that only waits.
    pub fn answer<C, T>(&self, call: C) -> impl Future<Output = StoreResult<T>> + Send + use<C, T>
    where
        C: Future<Output = StoreResult<T>> + Send + 'static,
        T: Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        let token = self.0.token();
        self.0.runtime.spawn(async move {
            // A caller that went away wants no answer.
            let _ = answer.send(call.await);
            drop(token);
        });
        async move {
            answered.await.unwrap_or_else(|_| {
                let what = "the operation ended without an answer".to_owned();
                Err(StoreError::Internal { what, source: None })
            })
        }
    }

    /// Runs something on the thread to its end; the thread waits for it.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let token = self.0.token();
        self.0.runtime.spawn(async move {
            work.await;
            drop(token);
        });
    }

    /// Runs something on the thread as long as that lives.
    pub fn spawn_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.runtime.spawn(work);
    }
}

impl fmt::Debug for Thread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Thread").field(&self.0.thread).finish()
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_was_handed_in_is_finished_before_the_thread_says_goodbye_and_ends() {
        let (part, parted) = oneshot::channel();
        let part = async move |shared: &AtomicBool| {
            part.send(shared.load(Ordering::Relaxed)).expect("the test waits for it");
        };
        let (thread, shared) = Thread::start("test", || Ok(AtomicBool::new(false)), part).await.unwrap();
        let (background, background_ended) = oneshot::channel::<()>();
        thread.spawn_background(async move {
            std::future::pending::<()>().await;
            drop(background);
        });
        let (go, gone) = oneshot::channel();
        let done = Arc::clone(&shared);
        let call = thread.answer(async move {
            gone.await.expect("it is told to go on");
            done.store(true, Ordering::Relaxed);
            Ok(())
        });
        // The caller goes away.
        drop(call);
        go.send(()).expect("the call waits for it");
        drop(thread);
        assert!(parted.await.expect("the thread says goodbye"), "what was handed in comes first");
        background_ended.await.expect_err("what runs in the background is dropped, and says nothing");
    }

    async fn panics() -> StoreResult<()> {
        panic!("a defect")
    }

    #[tokio::test]
    async fn what_cannot_be_made_or_panics_is_an_error() {
        let panics_at_once = || -> StoreResult<()> { panic!("a defect") };
        let error = Thread::start("test", panics_at_once, async |()| {}).await.unwrap_err();
        assert_eq!(error.to_string(), "internal error: the thread of the store ended before it began");
        let refused = || Err::<(), _>(StoreError::Address("nowhere".to_owned()));
        let error = Thread::start("test", refused, async |()| {}).await.unwrap_err();
        assert_eq!(error.to_string(), "nowhere");
        let (thread, _) = Thread::start("test", || Ok(()), async |()| {}).await.unwrap();
        let error = thread.answer(panics()).await.unwrap_err();
        assert_eq!(error.to_string(), "internal error: the operation ended without an answer");
    }
}
