//! Which function runs which kind, with their types forgotten, and the layers around them.
//!
//! The innermost steps of the pipe live here because only here the types are known: decode, extract, run,
//! classify, encode.

use std::collections::HashMap;
use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use serde::Serialize;
use tower_layer::Layer;
use tower_service::Service;
use windlass_core::outcome::{Cause, Failure};
use windlass_core::size::{Caps, TooLarge, bounded_text};
use windlass_core::{Name, Outcome};

use crate::batching::{BatchHandler, BatchStep, Batched, Batches, Batching, Room, usable_slots};
use crate::blocking::Pool;
use crate::ctx::Ctx;
use crate::error::ConfigError;
use crate::handler::{BlockingHandler, Handler};
use crate::job::{self, Job};
use crate::job_error::{JobError, chain};
use crate::rest;
use crate::slots;

/// A future of an attempt's outcome.
pub(crate) type OutcomeFuture = Pin<Box<dyn Future<Output = Outcome> + Send>>;
pub(crate) type Run = Arc<dyn Fn(Ctx) -> OutcomeFuture + Send + Sync>;

/// The handlers of one worker, by kind.
#[derive(Default)]
pub(crate) struct Registry {
    runs: HashMap<Name, Run>,
    /// Kinds of the engine.
    internal: HashMap<Name, Run>,
    queues: Vec<Name>,
    batches: Batches,
    first_error: Option<ConfigError>,
}

impl Registry {
    pub(crate) fn add<S, M, H>(&mut self, handler: H, state: S)
    where
        S: Send + Sync + 'static,
        H: Handler<S, M>,
    {
        let shared = Arc::new((handler, state));
        self.insert::<H::Job>(Arc::new(move |ctx: Ctx| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (handler, state) = &*shared;
                let caps = ctx.inner().job.caps;
                let job = match decode::<H::Job>(&ctx) {
                    Ok(job) => job,
                    Err(outcome) => return outcome,
                };
                let result = handler.call(job, &ctx, state).await;
                rest::heed(&ctx, result.as_ref().err()).await;
                outcome_of(result, caps)
            })
        }));
    }

    pub(crate) fn add_blocking<S, M, H>(&mut self, handler: H, state: S, pool: Arc<Pool>)
    where
        S: Send + Sync + 'static,
        H: BlockingHandler<S, M>,
    {
        let shared = Arc::new((handler, state, pool));
        self.insert::<H::Job>(Arc::new(move |ctx: Ctx| {
            let shared = Arc::clone(&shared);
            Box::pin(async move {
                let (handler, state, pool) = &*shared;
                let caps = ctx.inner().job.caps;
                let job = match decode::<H::Job>(&ctx) {
                    Ok(job) => job,
                    Err(outcome) => return outcome,
                };
                let result = match handler.prepare(job, &ctx, state).await {
                    Ok(work) => pool.run(ctx.clone(), work).await,
                    Err(error) => Err(error),
                };
                rest::heed(&ctx, result.as_ref().err()).await;
                outcome_of(result, caps)
            })
        }));
    }

    pub(crate) fn add_batch<S, M, H, K>(
        &mut self,
        batching: Batching<H::Job, K>,
        handler: H,
        state: S,
        room: Arc<Room>,
    ) where
        S: Send + Sync + 'static,
        H: BatchHandler<S, M>,
        K: Hash + Eq + Send + Sync + 'static,
    {
        let up_to = batching.size();
        let step = match BatchStep::new(batching, handler, state, room) {
            Ok(step) => Arc::new(step),
            Err(error) => {
                self.first_error.get_or_insert(error);
                return;
            }
        };
        let collector = step.collector();
        let inserted = self.insert::<H::Job>(Arc::new(move |ctx: Ctx| {
            let step = Arc::clone(&step);
            Box::pin(async move {
                match decode::<H::Job>(&ctx) {
                    Ok(job) => step.run(job, ctx).await,
                    Err(outcome) => outcome,
                }
            })
        }));
        if let Some((kind, queue)) = inserted {
            self.batches.add(Batched { kind, queue, up_to, collector });
        }
    }

    /// Adds what runs the kinds of the engine.
    pub(crate) fn add_internal(&mut self, runs: impl IntoIterator<Item = (Name, Run)>) {
        for (kind, run) in runs {
            if self.runs.contains_key(&kind) {
                let error = ConfigError::DuplicateKind { kind: kind.to_string() };
                self.first_error.get_or_insert(error);
            }
            self.internal.insert(kind, run);
        }
    }

    /// Answers the names of what is inserted, if they are good.
    fn insert<J: Job>(&mut self, run: Run) -> Option<(Name, Name)> {
        let kind = Name::new(J::KIND).map_err(|error| ConfigError::Name { what: "kind", error });
        let options = J::options();
        let queue = options.queue_name().map_err(|error| ConfigError::Name { what: "queue", error });
        let checked = options.check().map_err(|error| ConfigError::Options { kind: J::KIND, error });
        let (error, names) = match (kind, checked.and(queue)) {
            (Ok(kind), Ok(queue)) => {
                if !self.queues.contains(&queue) {
                    self.queues.push(queue.clone());
                }
                let before = self.runs.insert(kind.clone(), run);
                let error = before.map(|_| ConfigError::DuplicateKind { kind: J::KIND.to_owned() });
                (error, Some((kind, queue)))
            }
            (Err(error), _) | (_, Err(error)) => (Some(error), None),
        };
        self.first_error = self.first_error.take().or(error);
        names
    }

    /// Fails with the first thing that was wrong with a registration.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match &self.first_error {
            Some(error) => Err(error.clone()),
            None if self.runs.is_empty() => Err(ConfigError::NoHandler),
            None => Ok(()),
        }
    }

    /// Fails when a batch could never get as many items as it may have.
    pub(crate) fn check_batches(&self, slots: &slots::Config) -> Result<(), ConfigError> {
        for Batched { kind, queue, up_to, .. } in self.batches.iter() {
            let usable = usable_slots(slots, queue);
            if *up_to > usable {
                let (kind, queue) = (kind.to_string(), queue.to_string());
                return Err(ConfigError::BatchAboveSlots { kind, up_to: *up_to, queue, slots: usable });
            }
        }
        Ok(())
    }

    /// The kinds that have a handler, and those of the engine.
    pub(crate) fn kinds(&self) -> Vec<Name> {
        self.runs.keys().chain(self.internal.keys()).cloned().collect()
    }

    /// The queues that the registered kinds go to by themselves.
    pub(crate) fn queues(&self) -> &[Name] {
        &self.queues
    }

    /// Everything registered, as one service with what `wrap` puts around handlers, and the batch handlers in it.
    pub(crate) fn into_attempt(self, wrap: impl FnOnce(Attempt) -> Attempt) -> (Attempt, Batches) {
        let (runs, internal) = (self.runs, self.internal);
        let handlers = wrap(Attempt { run: Arc::new(move |ctx| run(&runs, ctx)) });
        if internal.is_empty() {
            return (handlers, self.batches);
        }
        let run = move |ctx: Ctx| match internal.get(ctx.kind()) {
            Some(run) => run(ctx),
            None => handlers.start(ctx),
        };
        (Attempt { run: Arc::new(run) }, self.batches)
    }
}

fn run(runs: &HashMap<Name, Run>, ctx: Ctx) -> OutcomeFuture {
    match runs.get(ctx.kind()) {
        Some(run) => run(ctx),
        // Claims name the known kinds, so only a store that hands out others gets here. The job goes back.
        None => Box::pin(std::future::ready(Outcome::Returned)),
    }
}

fn decode<J: Job>(ctx: &Ctx) -> Result<J, Outcome> {
    let inner = ctx.inner();
    job::decode(&inner.job.payload).map_err(|error| {
        encode_failure(&format!("payload does not decode as kind `{}`: {error}", J::KIND), inner.job.caps)
    })
}

/// The outcome of an attempt whose handler returned this.
pub(crate) fn outcome_of<T: Serialize>(result: Result<T, JobError>, caps: Caps) -> Outcome {
    let output = match result {
        Ok(output) => output,
        Err(error) => return error.into_outcome(caps.error),
    };
    match job::encode_output(&output) {
        Ok(output) => {
            let size = output.as_ref().map_or(0, windlass_core::Bytes::len);
            match TooLarge::check("output", size, caps.output) {
                Ok(()) => Outcome::Completed { output },
                Err(error) => encode_failure(&error.to_string(), caps),
            }
        }
        Err(error) => encode_failure(&format!("output does not encode: {error}"), caps),
    }
}

fn encode_failure(text: &str, caps: Caps) -> Outcome {
    Outcome::Fail { failure: Failure { cause: Cause::Codec, text: bounded_text(text, caps.error) } }
}

/// The service that runs one attempt, as layers see it: a [`Ctx`] in, an [`Outcome`] out. Cheap to clone.
#[derive(Clone)]
pub struct Attempt {
    run: Run,
}

impl Attempt {
    pub(crate) fn start(&self, ctx: Ctx) -> OutcomeFuture {
        (self.run)(ctx)
    }

    /// This service with a layer around it. An error of the layer counts as a transient error of the attempt.
    pub(crate) fn layered<L>(self, layer: &L) -> Self
    where
        L: Layer<Self>,
        L::Service: Service<Ctx, Response = Outcome> + Clone + Send + Sync + 'static,
        <L::Service as Service<Ctx>>::Future: Send,
        <L::Service as Service<Ctx>>::Error: Into<Box<dyn StdError + Send + Sync>> + Send,
    {
        let service = layer.layer(self);
        let run = move |ctx: Ctx| -> OutcomeFuture {
            let mut service = service.clone();
            Box::pin(async move {
                let cap = ctx.inner().job.caps.error;
                let called = async {
                    std::future::poll_fn(|context| service.poll_ready(context)).await?;
                    service.call(ctx).await
                };
                called.await.unwrap_or_else(|error| {
                    let error: Box<dyn StdError + Send + Sync> = error.into();
                    JobError::new(chain(&*error)).into_outcome(cap)
                })
            })
        };
        Self { run: Arc::new(run) }
    }
}

impl Service<Ctx> for Attempt {
    type Response = Outcome;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Outcome, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        let outcome = self.start(ctx);
        Box::pin(async move { Ok(outcome.await) })
    }
}

impl fmt::Debug for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attempt").finish_non_exhaustive()
    }
}
