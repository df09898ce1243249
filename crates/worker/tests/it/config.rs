//! Workers that are set up wrongly say so at the start, and layers and extractors do what they should.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tower_layer::layer_fn;
use tower_service::Service;
use windlass_core::job::JobInvalid;
use windlass_core::retry::Policy;
use windlass_core::{Options, Outcome};
use windlass_worker::{
    Attempt, Client, ConfigError, Ctx, Error, FromCtx, FromRef, Job, JobError, State, Worker,
};

use crate::support::{Act, Probe, Stage, eventually, probe, run, scene, worker};

fn refusal(worker: Worker<Stage>) -> ConfigError {
    match worker.start() {
        Err(Error::Config(error)) => error,
        other => panic!("expected a configuration error, got {other:?}"),
    }
}

#[derive(Serialize, Deserialize)]
struct Misnamed;

impl Job for Misnamed {
    const KIND: &'static str = "two words";
    type Output = ();
}

#[derive(Serialize, Deserialize)]
struct Hasty;

impl Job for Hasty {
    const KIND: &'static str = "hasty";
    type Output = ();
    fn options() -> Options {
        Options::new().timeout(Duration::ZERO)
    }
}

async fn hasty(_job: Hasty) -> Result<(), JobError> {
    Ok(())
}

async fn misnamed(_job: Misnamed) -> Result<(), JobError> {
    Ok(())
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let (client, stage) = scene();
    let new = || Worker::with_state(&client, stage.clone());
    let probing = || new().handle(run);
    assert_eq!(refusal(new()), ConfigError::NoHandler);
    assert_eq!(refusal(probing().handle(run)), ConfigError::DuplicateKind { kind: "probe".into() });
    assert!(matches!(refusal(new().handle(misnamed)), ConfigError::Name { what: "kind", .. }));
    assert!(matches!(refusal(probing().queue("a b", 1)), ConfigError::Name { what: "queue", .. }));
    assert!(matches!(refusal(probing().concurrency(0)), ConfigError::TooSmall { .. }));
    assert!(matches!(refusal(probing().lease(Duration::from_secs(4))), ConfigError::TooShort { .. }));
    assert!(matches!(refusal(probing().timeout(Duration::ZERO)), ConfigError::TooShort { .. }));
    assert_eq!(
        refusal(new().handle(hasty)),
        ConfigError::Options { kind: "hasty", error: JobInvalid::NoTime },
        "the options of a job type"
    );
    assert!(matches!(refusal(probing().reserve("a", 65)), ConfigError::OverReserved { .. }));
    assert!(matches!(refusal(probing().reserve("a", 64)), ConfigError::NoSlot { .. }));
    let reserved = refusal(probing().queue("a", 1).reserve("a", 2));
    assert!(matches!(reserved, ConfigError::ReservedAboveLimit { .. }), "{reserved}");
    for weight in [0, 1_001] {
        let error = refusal(probing().weight("a", weight));
        assert_eq!(error, ConfigError::Weight { queue: "a".into(), given: weight, most: 1_000 });
    }
    assert!(matches!(refusal(probing().weight("a b", 1)), ConfigError::Name { what: "queue", .. }));
}

#[tokio::test]
async fn a_job_that_makes_no_sense_is_refused_before_anything_is_stored() {
    let (client, _) = scene();
    let new = || client.enqueue(probe(Act::Succeed));
    let second = Duration::from_secs(1);
    let slips = [
        (new().timeout(Duration::ZERO), "a timeout of zero"),
        (new().delay(second).at(std::time::SystemTime::now()), "both `delay` and `at`"),
        (new().retry(Policy::fixed(0, second)), "bad retry policy: 0 attempts"),
        (new().retry(Policy::exponential(3, second).factor(f64::NAN)), "bad retry policy: a factor of NaN"),
        (new().retry(Policy::exponential(3, second).factor(-2.0)), "bad retry policy: a factor of -2"),
        (new().retry(Policy::polynomial(3, second, f64::INFINITY)), "bad retry policy: a power of inf"),
    ];
    for (slip, text) in slips {
        let error = slip.await.unwrap_err();
        assert!(matches!(error, Error::Job(_)) && error.to_string().starts_with(text), "{error}");
    }
    let many = client.enqueue_all([probe(Act::Succeed)]).timeout(Duration::ZERO).await;
    assert!(matches!(many, Err(Error::Job(JobInvalid::NoTime))), "{many:?}");
    let typed = client.enqueue(Hasty).await;
    assert!(matches!(typed, Err(Error::Job(JobInvalid::NoTime))), "{typed:?}");
    assert!(client.store().queues(None, 10).await.unwrap().iter().all(|queue| queue.counts.total() == 0));
}

#[test]
fn a_runtime_is_needed() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (client, stage) = runtime.block_on(async { scene() });
    assert_eq!(refusal(Worker::with_state(&client, stage).handle(run)), ConfigError::NoRuntime);
}

#[derive(Clone)]
struct App {
    greeting: Greeting,
    count: Arc<AtomicU32>,
}

#[derive(Clone)]
struct Greeting(&'static str);

impl FromRef<App> for Greeting {
    fn from_ref(app: &App) -> Self {
        app.greeting.clone()
    }
}

struct Tenant(String);

impl<S: Sync> FromCtx<S> for Tenant {
    type Rejection = JobError;
    async fn from_ctx(ctx: &Ctx, _state: &S) -> Result<Self, JobError> {
        let tag = ctx.tags().first().ok_or_else(|| JobError::fail("the job has no tenant"))?;
        Ok(Self(tag.to_string()))
    }
}

async fn greet(
    _job: Probe,
    State(app): State<App>,
    State(greeting): State<Greeting>,
    Tenant(tenant): Tenant,
    client: Client,
    ctx: Ctx,
) -> Result<String, JobError> {
    app.count.fetch_add(1, Ordering::Relaxed);
    assert!(client.job(ctx.id()).await?.is_some());
    Ok(format!("{} {tenant}", greeting.0))
}

/// Counts attempts on their way in.
#[derive(Clone)]
struct Counting {
    inner: Attempt,
    count: Arc<AtomicU32>,
}

impl Service<Ctx> for Counting {
    type Response = Outcome;
    type Error = std::convert::Infallible;
    type Future = <Attempt as Service<Ctx>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, ctx: Ctx) -> Self::Future {
        self.count.fetch_add(10, Ordering::Relaxed);
        self.inner.call(ctx)
    }
}

#[tokio::test]
async fn extractors_and_layers_surround_a_handler() {
    let (client, _) = scene();
    let count = Arc::<AtomicU32>::default();
    let app = App { greeting: Greeting("hello"), count: Arc::clone(&count) };
    let layer = |count: Arc<AtomicU32>| layer_fn(move |inner| Counting { inner, count: Arc::clone(&count) });
    let worker = || {
        Worker::with_state(&client, app.clone())
            .handle(greet)
            .layer(layer(Arc::clone(&count)))
            .layer(layer(Arc::clone(&count)))
    };
    let handle = client.enqueue(probe(Act::Succeed)).options(Options::new().tag("acme")).await.unwrap();
    assert_eq!(worker().drain().await.unwrap().completed, 1);
    assert_eq!(handle.output().await.unwrap(), "hello acme");
    assert_eq!(count.load(Ordering::Relaxed), 21, "both layers and the handler");
    let homeless = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert_eq!(worker().drain().await.unwrap().dead, 1);
    assert!(homeless.output().await.unwrap_err().to_string().ends_with("the job has no tenant"));
}

#[tokio::test]
async fn the_longest_durations_mean_for_ever() {
    let (client, stage) = scene();
    let longest = Duration::MAX;
    let running = worker(&client, &stage)
        .lease(longest)
        .poll_interval(longest)
        .reap_interval(longest)
        .prune_interval(longest)
        .drain_deadline(longest)
        .cancel_grace(longest)
        .timeout(longest)
        .slow_poll(longest)
        .prefetch(usize::MAX)
        .start()
        .unwrap();
    let handle = client.enqueue(probe(Act::Wait)).await.unwrap();
    stage.until_started(1).await;
    eventually("green", async || running.health().is_ok()).await;
    let restarts: u32 = running.health().loops.iter().map(|part| part.restarts).sum();
    assert_eq!(restarts, 0, "{:?}", running.health());
    // It is waited for, however long it takes.
    let stopping = tokio::spawn(running.stop());
    tokio::task::yield_now().await;
    stage.release(1);
    stopping.await.unwrap();
    let state = handle.state().await.unwrap();
    assert_eq!(state, Some(windlass_core::State::Completed));
}
