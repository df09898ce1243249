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
    assert_eq!((record.state, record.last_error()), (State::Dead, Some("panicked: on a thread")));
    assert_eq!((running.health().zombies, running.health().running), (0, 0));
    running.stop().await;
}
