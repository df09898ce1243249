//! One call of a batch handler: begins its items, runs the function for as long as one of them is wanted, and gives each
//! its own answer.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tracing::Instrument;

use super::step::{Answer, PendingItem};
use super::{Answers, Batch, BatchHandler};
use crate::ctx::Ctx;
use crate::ctx::control::Stop;
use crate::executor::warn_slow_poll;
use crate::job::Job;
use crate::job_error::JobError;
use crate::panicked::{Panicked, catch};

const OMITTED: &str = "the batch handler said nothing about this job: it has to answer for every item";

type Returned<J> = Result<Answers<J>, JobError>;

/// Starts the call of a batch.
pub(super) fn start<S, M, H>(shared: &Arc<(H, S)>, pending: Vec<PendingItem<H::Job>>, slow_poll: Duration)
where
    S: Send + Sync + 'static,
    H: BatchHandler<S, M>,
{
    let shared = Arc::clone(shared);
    let span = tracing::info_span!(parent: None, "batch", job.kind = H::Job::KIND, items = pending.len());
    tokio::spawn(async move { run(shared, pending, slow_poll).await }.instrument(span));
}

async fn run<S, M, H>(shared: Arc<(H, S)>, pending: Vec<PendingItem<H::Job>>, slow_poll: Duration)
where
    S: Send + Sync + 'static,
    H: BatchHandler<S, M>,
{
    // Here and not where it is started: a busy runtime may come to it late, and timeouts count from now.
    let (mut begun, mut items) = (Vec::with_capacity(pending.len()), Vec::with_capacity(pending.len()));
    for PendingItem { item, answer, begins, .. } in pending {
        if let Some(one) = Begun::new(item.ctx.clone(), answer, begins) {
            begun.push(one);
            items.push(item);
        }
    }
    let Some(client) = items.first().map(|item| item.ctx.client().clone()) else { return };
    let ctxs: Vec<Ctx> = items.iter().map(|item| item.ctx.clone()).collect();
    // The first stands for all of them when the call holds its thread.
    for ctx in ctxs.iter().skip(1) {
        ctx.inner().poll.warn_once();
    }
    let handler = async move {
        let (handler, state) = &*shared;
        handler.call(Batch::new(items), &client, state).await
    };
    let mut call = Call { handler: Box::pin(handler), ctxs, slow_poll };
    let ended = tokio::select! {
        biased;
        ended = &mut call => Some(ended),
        () = all_gone(&mut begun) => None,
    };
    call.dispose();
    match ended {
        Some(Ok(returned)) => answer(begun, returned),
        Some(Err(panic)) => {
            let text: Arc<str> = panic.text().into();
            panic.forget();
            begun.into_iter().for_each(|one| one.answer(Answer::Panicked(Arc::clone(&text))));
        }
        // Every attempt has ended without it; what is left of them is let go of.
        None => {}
    }
}

/// Gives each item what the handler said of it.
fn answer<J: Job>(begun: Vec<Begun<J>>, returned: Returned<J>) {
    let mut answers = match returned {
        Ok(answers) => answers,
        Err(error) => {
            begun.into_iter().for_each(|one| one.answer(Answer::Returned(Err(error.clone()))));
            return;
        }
    };
    for one in begun {
        let result = answers.take(one.ctx.id()).unwrap_or_else(|| Err(JobError::new(OMITTED)));
        one.answer(Answer::Returned(result));
    }
    if answers.left() > 0 {
        tracing::warn!(
            job.kind = J::KIND,
            answers = answers.left(),
            "a batch handler answered for jobs that are not in its batch"
        );
    }
}

/// Waits until no item is wanted any more: each has timed out, was cancelled or is lost.
async fn all_gone<J: Job>(begun: &mut [Begun<J>]) {
    for one in begun {
        if let Some(answer) = &mut one.answer {
            answer.closed().await;
        }
    }
}

/// An item whose call runs. Its slot is occupied until this is dropped.
struct Begun<J: Job> {
    ctx: Ctx,
    answer: Option<oneshot::Sender<Answer<J>>>,
}

impl<J: Job> Begun<J> {
    /// Begins an item, unless its attempt has ended meanwhile.
    fn new(
        ctx: Ctx,
        answer: oneshot::Sender<Answer<J>>,
        begins: Option<oneshot::Sender<()>>,
    ) -> Option<Self> {
        // On a busy runtime an attempt may have been told to stop before its call has its first turn.
        if ctx.inner().control.reason() != Stop::No || !ctx.inner().thread.begin() {
            return None;
        }
        if let Some(begins) = begins {
            let _ = begins.send(());
        }
        Some(Self { ctx, answer: Some(answer) })
    }

    fn answer(mut self, said: Answer<J>) {
        let answer = self.answer.take();
        // Before the answer, so that an attempt that has it never takes its call for running.
        drop(self);
        // If the attempt has ended, its receiver is gone and the answer is dropped.
        let _ = answer.map(|answer| answer.send(said));
    }
}

impl<J: Job> Drop for Begun<J> {
    fn drop(&mut self) {
        self.ctx.inner().thread.end();
    }
}

/// The handler's future under watch, for all of its items: a panic in it ends only itself, and a poll that holds a
/// runtime thread is noticed.
struct Call<F> {
    handler: Pin<Box<F>>,
    ctxs: Vec<Ctx>,
    slow_poll: Duration,
}

impl<F> Call<F> {
    /// Drops the handler as it is. A panic in a destructor ends here.
    fn dispose(self) {
        let handler = self.handler;
        if let Err(panic) = catch(move || drop(handler)) {
            tracing::error!("a batch handler {} while it was dropped", panic.text());
            panic.forget();
        }
    }
}

impl<F: Future> Future for Call<F> {
    type Output = Result<F::Output, Panicked>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let began = Instant::now();
        this.ctxs.iter().for_each(|ctx| ctx.inner().poll.begin_call(began));
        let polled = catch(|| this.handler.as_mut().poll(context));
        this.ctxs.iter().for_each(|ctx| ctx.inner().poll.end_call());
        let held = began.elapsed();
        if held >= this.slow_poll
            && let Some(first) = this.ctxs.first()
        {
            warn_slow_poll(first, held);
        }
        match polled {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(returned)) => Poll::Ready(Ok(returned)),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    }
}
