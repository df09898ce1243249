//! Threads for handlers that block. Bounded, and never waited for when the program ends.
//!
//! A closure cannot be stopped from outside. When its attempt ends before it does (timeout, cancel,
//! shutdown), whatever the attempt held is left to the closure and dropped when it returns: its slot stays
//! occupied until then. [`ThreadState`] decides which of the two came first. It does the same for an item of a batch,
//! whose handler runs in a call for many.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::ctx::Ctx;
use crate::panicked::catch;
use crate::trace;

/// The threads. They are those of a runtime that drives nothing else, so that the program's own runtime does
/// not wait for a stuck closure when it ends.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    threads_max: AtomicUsize,
    runtime: OnceLock<Runtime>,
}

impl Pool {
    /// Sets how many threads there may be; counts until the first closure runs.
    pub(crate) fn limit(&self, threads_max: usize) {
        self.threads_max.store(threads_max, Ordering::Relaxed);
    }

    /// Runs a closure on a thread and waits for what it returns. A panic in it goes on in the caller.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        ctx: Ctx,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (begins, begun) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        let (caller, span) = (Handle::current(), tracing::Span::current());
        ctx.inner().thread.queue();
        let attempt = ctx.clone();
        // An attempt that ends meanwhile hands its job back or cancels it: its closure must not begin then.
        let _leaves = Leaves(&attempt.inner().thread);
        self.handle().spawn_blocking(move || {
            if !ctx.inner().thread.begin() {
                return;
            }
            let _ = begins.send(());
            // Closures that ask for a runtime mean the one their worker runs in.
            let _entered = caller.enter();
            let result = {
                let _in_trace = trace::attach(&ctx);
                span.in_scope(|| catch(work))
            };
            // Before the answer, so that an attempt that has it never takes its closure for running.
            ctx.inner().thread.end();
            // If the attempt has ended, its receiver is gone and the result is dropped.
            let _ = answer.send(result);
        });
        // The attempt's clock starts now; this poll makes the executor read the deadline again.
        let _ = begun.await;
        match answered.await.expect("a queued closure runs as long as its caller waits") {
            Ok(value) => value,
            Err(panic) => panic.resume(),
        }
    }

    fn handle(&self) -> &Handle {
        let start = || {
            Builder::new_current_thread()
                .thread_name("windlass-blocking")
                .max_blocking_threads(self.threads_max.load(Ordering::Relaxed).max(1))
                .build()
                .expect("a runtime without drivers needs nothing that could fail")
        };
        self.runtime.get_or_init(start).handle()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

const NONE: u8 = 0;
const QUEUED: u8 = 1;
const RUNNING: u8 = 2;
const DONE: u8 = 3;
const ABANDONED: u8 = 4;

/// What the time that an attempt takes is counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clock {
    /// The attempt has no closure.
    Elsewhere,
    /// Nothing yet: the closure waits for a thread.
    Waits,
    /// The start of the closure.
    Since(Instant),
}

/// Takes back a closure that waits for a thread, when its attempt ends.
struct Leaves<'a>(&'a ThreadState);

impl Drop for Leaves<'_> {
    fn drop(&mut self) {
        self.0.withdraw();
    }
}

/// Where the closure of an attempt is, or the call of its batch, and what it inherits.
#[derive(Default)]
pub(crate) struct ThreadState {
    state: AtomicU8,
    is_in_batch: AtomicBool,
    began: OnceLock<Instant>,
    held: Mutex<Option<Box<dyn Any + Send>>>,
}

impl ThreadState {
    fn queue(&self) {
        self.state.store(QUEUED, Ordering::Release);
    }

    /// The attempt waits for the call of a batch.
    pub(crate) fn queue_in_batch(&self) {
        self.is_in_batch.store(true, Ordering::Relaxed);
        self.queue();
    }

    /// Whether the attempt is run by the call of a batch, and not on a thread of its own.
    pub(crate) fn is_in_batch(&self) -> bool {
        self.is_in_batch.load(Ordering::Relaxed)
    }

    /// Keeps what is queued from ever beginning. Answers whether that was in time.
    pub(crate) fn withdraw(&self) -> bool {
        self.state.compare_exchange(QUEUED, DONE, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Whether the closure may still begin.
    pub(crate) fn begin(&self) -> bool {
        let may_begin =
            self.state.compare_exchange(QUEUED, RUNNING, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if may_begin {
            self.began.get_or_init(Instant::now);
        }
        may_begin
    }

    /// What the attempt's time is counted from.
    pub(crate) fn clock(&self) -> Clock {
        match (self.state.load(Ordering::Acquire), self.began.get()) {
            (NONE, _) => Clock::Elsewhere,
            (_, None) => Clock::Waits,
            (_, Some(began)) => Clock::Since(*began),
        }
    }

    /// The closure has returned. Said once.
    pub(crate) fn end(&self) {
        if self.state.swap(DONE, Ordering::AcqRel) == ABANDONED {
            drop(self.held());
        }
    }

    /// The attempt ends. If its closure still runs, `held` is left to it and dropped when it returns;
    /// otherwise the caller gets it back.
    pub(crate) fn abandon<T: Send + 'static>(&self, held: T) -> Option<T> {
        if self.state.load(Ordering::Acquire) == NONE {
            return Some(held);
        }
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(held));
        if self.state.swap(ABANDONED, Ordering::AcqRel) == RUNNING {
            return None;
        }
        let held = self.held()?.downcast::<T>().ok()?;
        Some(*held)
    }

    /// Whether the attempt has ended and its closure has not.
    pub(crate) fn is_zombie(&self) -> bool {
        self.state.load(Ordering::Acquire) == ABANDONED
            && self.held.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn held(&self) -> Option<Box<dyn Any + Send>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn what_is_held_goes_to_the_one_that_ends_last() {
        let held = Arc::new(());
        let part = ThreadState::default();
        assert!(part.abandon(Arc::clone(&held)).is_some(), "there is no closure");

        let part = ThreadState::default();
        part.queue();
        assert!(part.abandon(Arc::clone(&held)).is_some(), "the closure has not begun");
        assert!(!part.begin(), "and it never will");

        let part = ThreadState::default();
        part.queue();
        assert!(part.withdraw() && !part.withdraw());
        assert!(!part.begin(), "it was taken back");
        assert!(part.abandon(Arc::clone(&held)).is_some());

        let part = ThreadState::default();
        part.queue();
        assert!(part.begin());
        assert!(!part.withdraw(), "too late");
        assert!(part.abandon(Arc::clone(&held)).is_none(), "the closure runs");
        assert!(part.is_zombie());
        assert_eq!(Arc::strong_count(&held), 2);
        part.end();
        assert_eq!(Arc::strong_count(&held), 1);
        assert!(!part.is_zombie());

        let part = ThreadState::default();
        part.queue();
        assert!(part.begin());
        part.end();
        assert!(part.abandon(held).is_some(), "the closure has returned");
    }
}
