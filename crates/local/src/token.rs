//! Cancels many pieces of work at once, in any number of queues.

use std::sync::{Arc, Weak};

use crate::sync::{AtomicBool, Mutex, Ordering, lock};

/// A token to cancel work by: what was added with it and has not ended is cancelled, and what is added later is
/// cancelled at once. Clones are the same token.
///
/// ```
/// # use windlass_local::{Error, Queue, Token};
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let queue = Queue::new(1);
/// let token = Token::new();
/// let endless = queue.with().token(&token).add(std::future::pending::<()>());
/// let waiting = queue.with().token(&token).add(async { 7 });
/// token.cancel();
/// assert_eq!(endless.await, Err(Error::Cancelled));
/// assert_eq!(waiting.await, Err(Error::Cancelled));
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Token {
    inner: Arc<Inner>,
}

/// Tells a token from all others, as long as it is alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TokenKey(usize);

#[derive(Default)]
struct Inner {
    is_cancelled: AtomicBool,
    queues: Mutex<Vec<Weak<dyn Cancels>>>,
}

/// A queue that has work which hangs on tokens.
pub(crate) trait Cancels: Send + Sync {
    fn cancel_token(self: Arc<Self>, token: &Token);
}

impl Token {
    /// A token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels everything that hangs on it, now and later.
    pub fn cancel(&self) {
        // The flag first: a queue that is not in the list yet looks at the flag, under its lock, when it takes work in.
        self.inner.is_cancelled.store(true, Ordering::SeqCst);
        let queues = std::mem::take(&mut *lock(&self.inner.queues));
        for queue in queues.into_iter().filter_map(|queue| queue.upgrade()) {
            queue.cancel_token(self);
        }
    }

    /// Whether it was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled.load(Ordering::SeqCst)
    }

    /// Tells this token from all others that are alive.
    pub(crate) fn key(&self) -> TokenKey {
        TokenKey(Arc::as_ptr(&self.inner).addr())
    }

    /// Tells a queue when it is cancelled.
    pub(crate) fn watch(&self, queue: &Weak<dyn Cancels>) {
        let mut queues = lock(&self.inner.queues);
        if !queues.iter().any(|known| known.ptr_eq(queue)) {
            queues.retain(|known| known.strong_count() > 0);
            queues.push(Weak::clone(queue));
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Token").finish_non_exhaustive()
    }
}
