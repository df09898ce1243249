//! Spans in the provider that the program has set with `opentelemetry::global::set_tracer_provider`.

use std::future::Future;
use std::sync::{Arc, OnceLock};

use opentelemetry::trace::{FutureExt, Link, Status, TraceContextExt};
use opentelemetry::{Context, ContextGuard, KeyValue};
use windlass_core::job::Trace;
use windlass_core::outcome::Cause;
use windlass_core::{NewJob, Outcome};

use super::spans::{Operation, context, of_batch, of_job, start, stored, wall};
use crate::ctx::Ctx;

/// The span of an attempt, if its trace is sampled.
#[derive(Debug, Default)]
pub(crate) struct AttemptSpan(OnceLock<Box<(Context, Option<Trace>)>>);

impl AttemptSpan {
    /// What the attempt passes on.
    pub(crate) fn trace(&self) -> Option<&Trace> {
        self.0.get().and_then(|span| span.1.as_ref())
    }

    fn context(&self) -> Option<&Context> {
        self.0.get().map(|span| &span.0)
    }

    /// The attempt has come to its end.
    pub(crate) fn end(&self, outcome: &Outcome) {
        let Some(context) = self.context() else { return };
        if let Some(error) = error(outcome) {
            context.span().set_attribute(KeyValue::new("error.type", error));
            context.span().set_status(Status::error(error));
        }
        context.span().end();
    }
}

/// A class of errors, of which there are few. What the error says is not told.
fn error(outcome: &Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Retry { failure } | Outcome::RetryAfter { failure, .. } | Outcome::Fail { failure } => {
            Some(match failure.cause {
                Cause::Error => "error",
                Cause::Panic => "panic",
                Cause::Timeout => "timeout",
                Cause::Codec => "codec",
                _ => "other",
            })
        }
        Outcome::Ambiguous { .. } => Some("ambiguous"),
        Outcome::Cancelled => Some("cancelled"),
        _ => None,
    }
}

/// An attempt that runs inside a span.
pub(crate) struct Traced(Context);

impl Traced {
    /// Begins the span of an attempt that is about to run, if its trace is sampled, and tells of the claim before it.
    pub(crate) fn of(ctx: &Ctx) -> Option<Self> {
        let (job, claimed) = (&ctx.inner().job, ctx.inner().claimed);
        let trace = job.facts.spec.trace.as_ref().filter(|trace| trace.is_sampled())?;
        let parent = context(trace);
        let about = || of_job(job.id, &job.kind, job.payload.len());
        let claim = Operation::Claim.span(&job.queue, about()).with_start_time(wall(claimed.sent));
        start(claim, &parent).span().end_with_timestamp(wall(claimed.at));
        let numbers = [
            KeyValue::new("messaging.windlass.attempt", i64::from(ctx.attempt())),
            KeyValue::new("messaging.windlass.fence", ctx.fence().to_string()),
        ];
        let run = start(Operation::Run.span(&job.queue, about().into_iter().chain(numbers)), &parent);
        let own = stored(run.span().span_context());
        let _first = ctx.inner().span.0.set(Box::new((run.clone(), own)));
        Some(Self(run))
    }

    /// Runs what `run` makes inside the span; so does what it makes on the way.
    pub(crate) async fn follow<F: Future<Output = ()>>(self, run: impl FnOnce() -> F) {
        let inside = {
            let _entered = self.0.clone().attach();
            run()
        };
        inside.with_context(self.0).await;
    }
}

/// Outcomes that are being recorded.
pub(crate) struct Settling(Option<Context>);

impl Settling {
    /// Begins a span for one call, if the trace of any of its attempts is sampled: below the first of them, with links to
    /// the others.
    pub(crate) fn begin<'a>(attempts: impl Iterator<Item = &'a Ctx>) -> Self {
        let (mut jobs, mut first, mut links) = (0, None, Vec::new());
        for ctx in attempts {
            jobs += 1;
            let Some(context) = ctx.inner().span.context() else { continue };
            match first {
                None => first = Some((ctx.queue(), context)),
                Some(_) => links.push(Link::with_context(context.span().span_context().clone())),
            }
        }
        Self(first.map(|(queue, parent)| {
            start(Operation::Settle.span(queue, [of_batch(jobs)]).with_links(links), parent)
        }))
    }

    /// The store has answered, or failed.
    pub(crate) fn end(self, failed: bool) {
        let Some(context) = self.0 else { return };
        if failed {
            context.span().set_status(Status::error("not recorded"));
        }
        context.span().end();
    }
}

/// For a handler on a thread of its own: the span of its attempt is the current one until the guard is dropped.
pub(crate) fn attach(ctx: &Ctx) -> Option<ContextGuard> {
    ctx.inner().span.context().map(|context| context.clone().attach())
}

/// The trace that the caller is in.
fn current() -> Option<Trace> {
    Context::map_current(
        |context| if context.has_active_span() { stored(context.span().span_context()) } else { None },
    )
}

/// Gives jobs the trace that the caller is in, unless they have one.
pub(crate) fn capture<'a>(jobs: impl IntoIterator<Item = &'a mut NewJob>) {
    super::inherit(current().as_ref(), jobs);
}

/// A span that ends when this is dropped.
pub(crate) struct Sending(Context);

impl Drop for Sending {
    fn drop(&mut self) {
        self.0.span().end();
    }
}

/// Begins the span of an enqueue, if the trace of the job is sampled. The job belongs to that span from now on.
#[must_use]
pub(crate) fn send(job: &mut NewJob) -> Option<Sending> {
    capture([&mut *job]);
    let parent = job.spec.trace.as_ref().filter(|trace| trace.is_sampled()).map(context)?;
    let sent =
        start(Operation::Enqueue.span(&job.queue, of_job(job.id, &job.kind, job.payload.len())), &parent);
    job.spec.trace = stored(sent.span().span_context()).or(job.spec.trace.take());
    Some(Sending(sent))
}

/// The same for jobs that are handed in together: one span for all that are in the trace of the first that is sampled.
#[must_use]
pub(crate) fn send_all(jobs: &mut Arc<[NewJob]>) -> Option<Sending> {
    let in_trace = current().is_some();
    let is_sampled = |job: &NewJob| job.spec.trace.as_ref().is_some_and(Trace::is_sampled);
    if !in_trace && !jobs.iter().any(is_sampled) {
        return None;
    }
    let jobs = Arc::make_mut(jobs);
    capture(jobs.iter_mut());
    let (queue, trace) =
        jobs.iter().find(|job| is_sampled(job)).map(|job| (job.queue.clone(), job.spec.trace.clone()))?;
    let parent = context(trace.as_ref()?);
    let together = jobs.iter_mut().filter(|job| job.spec.trace == trace).collect::<Vec<_>>();
    let sent = start(Operation::Enqueue.span(&queue, [of_batch(together.len())]), &parent);
    if let Some(own) = stored(sent.span().span_context()) {
        together.into_iter().for_each(|job| job.spec.trace = Some(own.clone()));
    }
    Some(Sending(sent))
}
