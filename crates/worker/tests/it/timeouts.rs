//! Attempts that take too long, async and blocking.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use windlass_core::outcome::Ending;
use windlass_core::retry::Policy;
use windlass_core::{Options, State};
use windlass_worker::{Ctx, Job, JobError, State as Shared, Worker};

use crate::support::{Act, PATIENCE, end_of, eventually, probe, scene, worker};

const SHORT: Duration = Duration::from_millis(30);

#[tokio::test]
async fn a_handler_that_does_not_stop_is_dropped() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).concurrency(1).start().unwrap();
    let handle = client.enqueue(probe(Act::Wait)).timeout(SHORT).retry(Policy::never()).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!((record.state, record.attempts[0].ending), (State::Dead, Some(Ending::TimedOut)));
    assert_eq!(record.last_error(), Some("timed out after 30ms"));
    assert_eq!(stage.present(), 0, "the future is gone");
    let next = client.enqueue(probe(Act::Succeed)).await.unwrap();
    assert_eq!(end_of(&next).await.state, State::Completed, "the slot is free");
    running.stop().await;
}

#[tokio::test]
async fn a_handler_that_heeds_its_timeout_may_still_be_done() {
    let (client, stage) = scene();
    let running = worker(&client, &stage).timeout(SHORT).cancel_grace(PATIENCE).start().unwrap();
    let done = client.enqueue(probe(Act::FinishWhenTold)).await.unwrap();
    assert_eq!(end_of(&done).await.state, State::Completed);
    let failed = client.enqueue(probe(Act::Heed)).retry(Policy::never()).await.unwrap();
    let record = end_of(&failed).await;
    assert_eq!(record.attempts[0].ending, Some(Ending::TimedOut));
    assert_eq!(record.last_error(), Some("timed out after 30ms: was told to stop"));
    running.stop().await;
}

#[derive(Serialize, Deserialize)]
struct Grind {
    is_stuck: bool,
}

impl Job for Grind {
    const KIND: &'static str = "grind";
    type Output = String;
    fn options() -> Options {
        Options::new().queue("grinding").retry(Policy::never())
    }
}

/// What happened, in order, and a way to let the stuck one go.
#[derive(Clone)]
struct Mill {
    events: Arc<Mutex<Vec<&'static str>>>,
    release: Arc<Mutex<mpsc::Receiver<()>>>,
}

fn grind(job: Grind, Shared(mill): Shared<Mill>, ctx: Ctx) -> Result<String, JobError> {
    if job.is_stuck {
        mill.events.lock().unwrap().push("stuck begins");
        mill.release.lock().unwrap().recv_timeout(PATIENCE).unwrap();
        assert!(ctx.is_cancelled(), "the timeout can be seen");
        mill.events.lock().unwrap().push("stuck ends");
    } else {
        mill.events.lock().unwrap().push("other runs");
    }
    Ok("ground".into())
}

#[derive(Serialize, Deserialize)]
struct Ping;

impl Job for Ping {
    const KIND: &'static str = "ping";
    type Output = ();
}

async fn ping(_job: Ping) -> Result<(), JobError> {
    Ok(())
}

#[tokio::test]
async fn a_blocking_handler_keeps_its_slot_and_its_late_result_is_dropped() {
    let (client, _) = scene();
    let (release, released) = mpsc::channel();
    let mill = Mill { events: Arc::default(), release: Arc::new(Mutex::new(released)) };
    let running = Worker::with_state(&client, mill.clone())
        .handle_blocking(grind)
        .handle(ping)
        .queue("grinding", 1)
        .cancel_grace(Duration::from_millis(10))
        .start()
        .unwrap();
    let stuck = client.enqueue(Grind { is_stuck: true }).timeout(SHORT).await.unwrap();
    let record = end_of(&stuck).await;
    assert_eq!((record.state, record.attempts[0].ending), (State::Dead, Some(Ending::TimedOut)));
    eventually("the slot is a zombie's", async || running.health().zombies == 1).await;
    assert_eq!(running.health().running, 0);

    // One claim asks for both queues: when the ping is done, the other would have started if it could.
    let other = client.enqueue(Grind { is_stuck: false }).await.unwrap();
    let ping = client.enqueue(Ping).await.unwrap();
    ping.output().await.unwrap();
    assert_eq!(other.state().await.unwrap(), Some(State::Ready));

    release.send(()).unwrap();
    assert_eq!(other.output().await.unwrap(), "ground");
    assert_eq!(*mill.events.lock().unwrap(), ["stuck begins", "stuck ends", "other runs"]);
    let after = client.job(stuck.id()).await.unwrap().unwrap();
    assert_eq!((after.state, after.output), (State::Dead, None), "the late result does not count");
    assert_eq!((running.health().zombies, running.health().fenced), (0, 0));
    running.stop().await;
}

fn panics(_job: Grind) -> Result<String, JobError> {
    panic!("on a thread")
}

#[tokio::test]
async fn a_panic_on_a_thread_is_an_attempts_too() {
    let (client, _) = scene();
    let running = Worker::new(&client).handle_blocking(panics).start().unwrap();
    let handle = client.enqueue(Grind { is_stuck: false }).await.unwrap();
    let record = end_of(&handle).await;
    assert_eq!(record.state, State::Dead);
    let text = record.last_error().unwrap();
    assert!(text.starts_with("panicked at crates/worker/tests/it/timeouts.rs:"), "{text}");
    assert!(text.ends_with(": on a thread"), "{text}");
    assert_eq!((running.health().zombies, running.health().running), (0, 0));
    running.stop().await;
}

#[tokio::test]
async fn slots_that_only_zombies_have_turn_the_health_red() {
    let (client, _) = scene();
    let (release, released) = mpsc::channel();
    let mill = Mill { events: Arc::default(), release: Arc::new(Mutex::new(released)) };
    let running = Worker::with_state(&client, mill.clone())
        .handle_blocking(grind)
        .handle(ping)
        .queue("grinding", 1)
        .cancel_grace(Duration::from_millis(10))
        .start()
        .unwrap();
    eventually("green", async || running.health().is_ok()).await;
    let stuck = client.enqueue(Grind { is_stuck: true }).timeout(SHORT).await.unwrap();
    end_of(&stuck).await;
    eventually("the slot is a zombie's", async || running.health().zombies == 1).await;
    let health = running.health();
    assert_eq!(health.starved.iter().map(AsRef::as_ref).collect::<Vec<&str>>(), ["grinding"]);
    assert!(!health.is_ok(), "nothing of that queue can start");
    client.enqueue(Ping).await.unwrap().output().await.unwrap();
    release.send(()).unwrap();
    eventually("green again", async || running.health().is_ok()).await;
    running.stop().await;
}

#[tokio::test]
async fn threads_that_only_zombies_have_turn_the_health_red() {
    let (client, _) = scene();
    let (release, released) = mpsc::channel();
    let mill = Mill { events: Arc::default(), release: Arc::new(Mutex::new(released)) };
    let running = Worker::with_state(&client, mill.clone())
        .handle_blocking(grind)
        .blocking_threads(1)
        .cancel_grace(Duration::from_millis(10))
        .start()
        .unwrap();
    let stuck = client.enqueue(Grind { is_stuck: true }).timeout(SHORT).await.unwrap();
    end_of(&stuck).await;
    eventually("the thread is a zombie's", async || running.health().zombies == 1).await;
    let health = running.health();
    assert_eq!((health.threads_free, health.starved.len(), health.is_ok()), (0, 0, false));
    release.send(()).unwrap();
    eventually("green again", async || running.health().is_ok()).await;
    running.stop().await;
}

#[tokio::test]
async fn waiting_for_a_thread_is_not_an_attempts_time() {
    let (client, _) = scene();
    let (release, released) = mpsc::channel();
    let mill = Mill { events: Arc::default(), release: Arc::new(Mutex::new(released)) };
    let running = Worker::with_state(&client, mill.clone())
        .handle_blocking(grind)
        .handle_blocking(tick)
        .handle(linger)
        .blocking_threads(1)
        .start()
        .unwrap();
    let first = client.enqueue(Grind { is_stuck: true }).timeout(PATIENCE).await.unwrap();
    eventually("it has the thread", async || !mill.events.lock().unwrap().is_empty()).await;
    let waits = client.enqueue(Tick).timeout(SHORT).await.unwrap();
    eventually("it waits for the thread", async || running.health().running == 2).await;
    // The same timeout, begun later: when this one is over, so would be the other's.
    let later = client.enqueue(Linger).timeout(SHORT).await.unwrap();
    assert_eq!(end_of(&later).await.attempts[0].ending, Some(Ending::TimedOut));
    assert_eq!(waits.state().await.unwrap(), Some(State::Running));
    first.cancel().await.unwrap();
    release.send(()).unwrap();
    assert_eq!(waits.output().await.unwrap(), "in time");
    running.stop().await;
}

#[derive(Serialize, Deserialize)]
struct Tick;

impl Job for Tick {
    const KIND: &'static str = "tick";
    type Output = String;
    fn options() -> Options {
        Options::new().retry(Policy::never())
    }
}

fn tick(_job: Tick, ctx: Ctx) -> Result<String, JobError> {
    let left = ctx.deadline().map(|deadline| deadline.saturating_duration_since(std::time::Instant::now()));
    assert!(left.is_some(), "its clock runs by now");
    Ok("in time".into())
}

#[derive(Serialize, Deserialize)]
struct Linger;

impl Job for Linger {
    const KIND: &'static str = "linger";
    type Output = ();
    fn options() -> Options {
        Options::new().retry(Policy::never())
    }
}

/// Returns when its time is over.
async fn linger(_job: Linger, ctx: Ctx) -> Result<(), JobError> {
    ctx.cancelled().await;
    Err(JobError::new("was told to stop"))
}
