//! A handler's future under watch: a panic in it ends only itself, and a poll that holds a runtime thread too
//! long is noticed.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use windlass_core::Outcome;

use crate::ctx::Ctx;
use crate::panicked::{Panicked, catch};
use crate::registry::{Attempt, OutcomeFuture};

/// The future of one attempt's handler and layers.
pub(super) struct Watched<'a> {
    ctx: &'a Ctx,
    attempt: &'a Attempt,
    /// Made in the first poll, for making it may panic as well.
    future: Option<OutcomeFuture>,
    slow_poll: Duration,
}

impl<'a> Watched<'a> {
    pub(super) fn new(ctx: &'a Ctx, attempt: &'a Attempt, slow_poll: Duration) -> Self {
        Self { ctx, attempt, future: None, slow_poll }
    }

    /// Drops the handler as it is. A panic in a destructor ends here.
    pub(super) fn dispose(self) {
        let future = self.future;
        if let Err(panic) = catch(move || drop(future)) {
            tracing::error!(
                job.id = %self.ctx.id(), job.kind = %self.ctx.kind(),
                "a handler {} while it was dropped", panic.text(),
            );
            panic.forget();
        }
    }
}

impl Future for Watched<'_> {
    type Output = Result<Outcome, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // The first poll begins with the attempt.
        let began = if this.future.is_none() { this.ctx.begin() } else { Instant::now() };
        this.ctx.inner().poll.begin(began);
        let polled = catch(|| {
            let future = this.future.get_or_insert_with(|| this.attempt.start(this.ctx.clone()));
            future.as_mut().poll(context)
        });
        this.ctx.inner().poll.end();
        let held = began.elapsed();
        if held >= this.slow_poll {
            warn_slow_poll(this.ctx, held);
        }
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(outcome)) => Poll::Ready(Ok(outcome)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}

/// Says that a poll has held its thread for too long.
#[cold]
pub(crate) fn warn_slow_poll(ctx: &Ctx, held: Duration) {
    let (kind, held_ms) = (ctx.kind(), u64::try_from(held.as_millis()).unwrap_or(u64::MAX));
    tracing::warn!(
        job.id = %ctx.id(), job.kind = %kind, held_ms,
        "kind `{kind}` held a runtime thread for {held:.1?}: use handle_blocking or yield"
    );
}
